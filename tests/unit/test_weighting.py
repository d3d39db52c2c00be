"""Weighted sharing: classes by what is allocated, weights that follow it, and what flows get by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.scheduling import fill, weighting
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.folding import UNDECIDED
from tests.contract.snapshots import on_paths

CAPACITY_BPS = 1e6
CLASSES = range(7)


def on_one_link(flows):
    return on_paths([np.array([0])] * flows, np.array([CAPACITY_BPS]), 1)


def places(snapshot, shares, in_force=None, classes=CLASSES):
    allocation = Allocation(np.array(shares) * CAPACITY_BPS, np.zeros(len(shares), np.int64))
    now = np.full(len(shares), UNDECIDED) if in_force is None else np.array(in_force)
    return weighting.fold(snapshot, allocation, now, classes).traffic_class.tolist()


def made(flows, links, seed):
    """A random snapshot, and rates that are feasible there and leave no link idle."""
    rng = np.random.default_rng(seed)
    paths = [rng.choice(links, rng.integers(1, min(links, 4) + 1), replace=False) for _ in range(flows)]
    snapshot = on_paths(paths, rng.choice([1e6, 1e6, 3.3e6], links), 1)
    rates = fill.max_min(snapshot, np.arange(flows), rng.uniform(0.05, 1, flows), snapshot.capacity_Bps.copy())
    return snapshot, rates


situations = st.builds(made, st.integers(1, 25), st.integers(1, 8), st.integers(0, 10**6))


def test_the_more_is_allocated_the_earlier_the_class():
    snapshot = on_one_link(4)
    assert places(snapshot, [0.5, 0.25, 0.125, 0.0]) == [1, 2, 3, 6]
    assert places(on_one_link(1), [1.0]) == [0]


def test_flows_of_like_rates_share_a_class_and_others_do_not():
    assert places(on_one_link(3), [0.3, 0.3, 0.4]) == [2, 2, 1]
    apart = places(on_one_link(3), [0.5, 0.36, 0.1])
    assert len(set(apart)) == 3


def test_with_few_classes_flows_go_where_they_are_least_unlike_others():
    assert places(on_one_link(3), [0.8, 0.15, 0.05], classes=range(2)) == [0, 1, 1]
    assert places(on_one_link(3), [0.3, 0.15, 0.02], classes=range(2)) == [1, 0, 0]


def test_a_rate_that_changes_moves_nobody_who_is_alone_or_among_its_like():
    snapshot = on_one_link(2)
    assert places(snapshot, [0.05, 0.95], [1, 4]) == [1, 4]
    assert places(snapshot, [0.3, 0.4], [2, 2]) == [2, 2]


def test_the_slower_one_leaves_a_class_that_came_to_hold_unlike_flows():
    assert places(on_one_link(2), [0.8, 0.1], [2, 2])[0] == 2
    assert places(on_one_link(2), [0.8, 0.1], [2, 2])[1] != 2
    assert places(on_one_link(2), [0.1, 0.8], [0, 0])[1] == 0


@settings(max_examples=150, deadline=None)
@given(situation=situations, seed=st.integers(0, 10**6), classes=st.integers(1, 8))
def test_who_changes_class_leaves_it_to_one_that_is_unlike_and_as_fast_or_faster_or_it_met_nobody_alike(
    situation, seed, classes
):
    snapshot, rates = situation
    in_force = np.random.default_rng(seed).integers(UNDECIDED, classes, snapshot.flows)
    found = weighting.fold(snapshot, Allocation(rates, np.zeros(snapshot.flows, np.int64)), in_force, range(classes))
    place = found.traffic_class
    assert not found.held_back.any()
    assert ((place >= 0) & (place < classes)).all()
    links = [
        set(snapshot.path_link[a:b].tolist())
        for a, b in zip(snapshot.path_start, snapshot.path_start[1:], strict=False)
    ]
    for row in np.flatnonzero((in_force != UNDECIDED) & (place != in_force)):
        met = [other for other in range(snapshot.flows) if place[other] == in_force[row] and links[other] & links[row]]
        assert met, "somebody else has its class now"


@settings(max_examples=150, deadline=None)
@given(situation=situations)
def test_with_a_class_for_each_flow_it_is_weighted_max_min(situation):
    snapshot, _ = situation
    rng = np.random.default_rng(snapshot.flows)
    allocated = rng.uniform(0.1, 1, snapshot.flows) * snapshot.capacity_Bps.max()
    found = weighting.shared(snapshot, np.arange(snapshot.flows), allocated, snapshot.flows)
    rows = np.arange(snapshot.flows)
    expected = fill.max_min(snapshot, rows, allocated, snapshot.capacity_Bps.copy())
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@settings(max_examples=150, deadline=None)
@given(situation=situations)
def test_nobody_gets_less_than_is_allocated_where_each_has_a_class(situation):
    snapshot, allocated = situation
    found = weighting.shared(snapshot, np.arange(snapshot.flows), allocated, snapshot.flows)
    assert (found >= allocated * (1 - 1e-6) / (1 + snapshot.flows * weighting.LEAST_SHARE)).all()


@settings(max_examples=200, deadline=None)
@given(situation=situations, seed=st.integers(0, 10**6), classes=st.integers(1, 8))
def test_no_link_carries_too_much_and_none_idles_that_a_flow_could_use(situation, seed, classes):
    snapshot, allocated = situation
    place = np.random.default_rng(seed).integers(UNDECIDED, classes, snapshot.flows)
    found = weighting.shared(snapshot, place, allocated, classes)
    load = np.bincount(snapshot.path_link, weights=found[snapshot.hop_flow()], minlength=snapshot.links)
    assert (load <= snapshot.capacity_Bps * (1 + 1e-9)).all()
    assert (found[place == UNDECIDED] == 0).all()
    full = load >= snapshot.capacity_Bps * (1 - 1e-6)
    at_a_full_link = np.bincount(snapshot.hop_flow(), weights=full[snapshot.path_link], minlength=snapshot.flows) > 0
    assert at_a_full_link[place != UNDECIDED].all()


def test_classes_share_by_weight_and_the_flows_of_one_alike():
    allocated = np.array([0.6, 0.2, 0.2]) * CAPACITY_BPS
    found = weighting.shared(on_one_link(3), np.array([0, 1, 1]), allocated, 7)
    assert found == pytest.approx(allocated)
    unequal = weighting.shared(on_one_link(3), np.array([0, 0, 1]), allocated, 7)
    assert unequal == pytest.approx(np.array([0.4, 0.4, 0.2]) * CAPACITY_BPS)


def test_a_class_to_which_nothing_is_allocated_has_the_least_weight_and_takes_what_others_leave():
    one, none = weighting.shared(on_one_link(2), np.array([0, 6]), np.array([CAPACITY_BPS, 0.0]), 7)
    assert none / one == pytest.approx(weighting.LEAST_SHARE)
    assert weighting.shared(on_one_link(1), np.array([6]), np.zeros(1), 7) == pytest.approx([CAPACITY_BPS])


def test_what_links_carry_may_be_less_than_they_declare():
    found = weighting.shared(on_one_link(2), np.array([0, 1]), np.array([3e5, 1e5]), 7, np.array([2e5]))
    assert found == pytest.approx([1.5e5, 0.5e5])
    assert weighting.shared(on_one_link(2), np.array([0, 1]), np.array([3e5, 1e5]), 7, np.zeros(1)).tolist() == [0, 0]


def test_nobody_at_all():
    assert weighting.shared(on_paths([], np.array([1e6]), 1), np.zeros(0, np.int64), np.zeros(0), 7).size == 0
