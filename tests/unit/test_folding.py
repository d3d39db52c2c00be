"""An order of flows in few classes: kept on every link, and with no flow in flight moved up."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.scheduling import fill, greedy
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.folding import UNDECIDED, contended
from echelonflow.scheduling.foldings import links
from echelonflow.scheduling.foldings.links import fold
from echelonflow.wire.classes import DATA_CLASSES
from simulator.realism import shared_by_class
from tests.contract.snapshots import on_paths, snapshots

LINKS = 4
flows = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.sets(st.integers(0, LINKS - 1), min_size=1, max_size=2),
        st.sampled_from([UNDECIDED, *DATA_CLASSES]),
        st.sampled_from([0.0, 1.0]),
    ),
    max_size=10,
)


def folded(rank, paths, in_force, classes=DATA_CLASSES, rates=None):
    """Classes, None for flows held back; every flow has a rate where none are given."""
    narrower = 2.0 ** -np.arange(LINKS)  # so that flows are in each other's way wherever they meet
    snapshot = on_paths([sorted(path) for path in paths], narrower)
    rates_Bps = np.array([1.0] * len(rank) if rates is None else rates, np.float64)
    found = fold(snapshot, Allocation(rates_Bps, np.array(rank, np.int64)), np.array(in_force, np.int64), classes)
    rows = zip(found.traffic_class.tolist(), found.held_back.tolist(), strict=True)
    return [None if held_back else traffic_class for traffic_class, held_back in rows]


def least(rank, paths, in_force, classes=DATA_CLASSES):
    """The same, with no classes spared for whoever comes later: the first ones that the order allows."""
    with mock.patch.object(links, "SPARED", len(classes)):
        return folded(rank, paths, in_force, classes)


def most_needed(rank, paths, in_force):
    """The last class that would be in use if there were as many as anyone could need."""
    return max(least(rank, paths, in_force, range(1, 100)), default=0)


@settings(deadline=None)
@given(snapshots(), st.randoms())
def test_where_classes_suffice_service_by_class_is_service_by_rank(snapshot, random):
    """Also with flows kept together that meet only where they cannot be in each other's way."""
    rank = np.array([random.randrange(snapshot.flows) for _ in range(snapshot.flows)], np.int64)
    by_rank = greedy.greedy(snapshot, fill.stages_of(rank))
    found = fold(snapshot, Allocation(by_rank, rank), undecided(snapshot.flows), range(snapshot.flows))
    assert not found.held_back.any()
    assert np.allclose(shared_by_class(snapshot, found.traffic_class), by_rank, rtol=1e-6, atol=1.0)


def test_flows_of_two_hosts_are_not_kept_apart_on_an_uplink_as_fast_as_both():
    paths = [[0, 2, 3], [1, 2, 4]]
    wide, narrow = (on_paths(paths, [3, 3, uplink, 3, 3]) for uplink in (6, 5))
    assert contended(wide).tolist() == [True, True, False, False, False]
    assert contended(narrow).tolist() == [True, True, True, False, False]
    order = Allocation(np.ones(2), np.arange(2))
    assert fold(wide, order, undecided(2), DATA_CLASSES).traffic_class.tolist() == [3, 3]
    assert fold(narrow, order, undecided(2), DATA_CLASSES).traffic_class.tolist() == [3, 4]


def test_a_host_that_two_others_send_to_is_contended():
    assert contended(on_paths([[0, 2], [1, 2]], [3, 3, 3])).tolist() == [True, True, True]


@given(flows)
def test_the_order_is_kept_on_every_link_and_equal_places_are_equal_classes(drawn):
    rank, paths, in_force, _ = columns(drawn)
    found = folded(rank, paths, in_force)
    assert set(found) <= set(DATA_CLASSES)
    enough = most_needed(rank, paths, in_force) <= DATA_CLASSES[-1]
    for a, b in meeting(paths):
        if rank[a] < rank[b]:
            assert found[a] < found[b] or (not enough and found[a] == found[b] == DATA_CLASSES[-1])
    assert folded(rank, paths, found) == found  # an unchanged order changes nothing
    assert all(found[a] == found[b] for a in range(len(rank)) for b in range(len(rank)) if rank[a] == rank[b])


@given(flows)
def test_flows_in_flight_move_up_only_where_classes_run_out(drawn):
    rank, paths, in_force, _ = columns(drawn)
    found = folded(rank, paths, in_force)
    enough = most_needed(rank, paths, in_force) <= DATA_CLASSES[-1]
    for a, (new, old) in enumerate(zip(found, in_force, strict=True)):
        if new < old:
            assert not enough
            assert not any(rank[b] < rank[a] for b in range(len(rank)) if paths[a] & paths[b])


@given(flows)
def test_who_is_in_flight_is_moved_as_if_no_classes_were_spared_and_new_flows_are_no_higher(drawn):
    rank, paths, in_force, _ = columns(drawn)
    new, first = folded(rank, paths, in_force), least(rank, paths, in_force)
    assert all(one >= other for one, other in zip(new, first, strict=True))
    assert all(new[a] == first[a] for a in range(len(rank)) if in_force[a] != UNDECIDED)


@given(flows)
def test_nobody_is_served_above_packets_of_a_flow_before_him(drawn):
    rank, paths, in_force, _ = columns(drawn)
    found = folded(rank, paths, in_force)
    assert all(found[b] >= in_force[a] for a, b in meeting(paths) if rank[a] < rank[b])


@given(flows)
def test_held_back_is_nobody_who_has_a_rate_and_nobody_where_classes_suffice(drawn):
    rank, paths, in_force, rates = columns(drawn)
    every, found = folded(rank, paths, in_force), folded(rank, paths, in_force, rates=rates)
    if most_needed(rank, paths, in_force) <= DATA_CLASSES[-1]:
        assert found == every
    for row, at in enumerate(found):
        if at is not None:
            continue
        assert rates[row] == 0
        assert any(rates[other] and paths[row] & paths[other] for other in range(len(rank)))  # or nobody would go


@given(flows)
def test_among_those_that_send_the_order_is_kept_whoever_waits(drawn):
    """A lower rank is never below a higher one, and beside it in the last class alone."""
    rank, paths, in_force, rates = columns(drawn)
    found = folded(rank, paths, in_force, rates=rates)
    for a, b in meeting(paths):
        if rates[a] and rates[b] and rank[a] < rank[b]:
            assert found[a] < found[b] or found[a] == found[b] == DATA_CLASSES[-1]


def test_held_back_flows_keep_their_class_and_new_ones_get_none():
    snapshot = on_paths([[0]] * 3, [1.0])
    found = fold(snapshot, Allocation(np.array([1.0, 0, 0]), np.arange(3)), np.array([7, 7, UNDECIDED]), [6, 7])
    assert found.held_back.tolist() == [False, True, True]  # nobody moves up
    assert found.traffic_class.tolist() == [7, 7, UNDECIDED]
    found = fold(snapshot, Allocation(np.array([1.0, 0, 0]), np.arange(3)), np.array([6, 7, 7]), [6, 7])
    assert found.held_back.tolist() == [False, False, True]
    assert found.traffic_class.tolist() == [6, 7, 7]


def test_however_many_flows_follow_one_another_none_is_moved_up():
    """As in sharded training: transfers come faster than the network takes them, each to be served after the others."""
    flows = 20
    classes = undecided(flows)
    for head in range(flows):
        left = np.arange(flows) >= head
        rates = (np.arange(flows)[left] == head).astype(float)
        found = fold(
            on_paths([[0]] * left.sum(), [1.0]), Allocation(rates, np.arange(left.sum())), classes[left], DATA_CLASSES
        )
        before, now = classes[left], found.traffic_class
        assert not found.held_back[0]
        assert (now[before != UNDECIDED] >= before[before != UNDECIDED]).all()
        assert (now[1:][~found.held_back[1:]] > now[0]).all()
        classes[left] = now


def undecided(flows):
    return np.full(flows, UNDECIDED)


def columns(drawn):
    return [list(column) for column in zip(*drawn, strict=True)] or [[], [], [], []]


def meeting(paths):
    flows = range(len(paths))
    return [(a, b) for a in flows for b in flows if paths[a] & paths[b]]


def test_flows_that_do_not_meet_share_a_class():
    assert folded([0, 1, 2], [{0}, {1}, {2}], [UNDECIDED] * 3) == [3, 3, 3]


def test_new_flows_leave_classes_above_them_as_long_as_there_are_enough():
    assert folded(range(2), [{0}] * 2, [UNDECIDED] * 2) == [3, 4]
    assert folded(range(6), [{0}] * 6, [UNDECIDED] * 6) == [2, 3, 4, 5, 6, 7]
    assert folded(range(3), [{0}] * 3, [UNDECIDED] * 3, classes=[1, 2, 3]) == [1, 2, 3]
    assert folded([0], [{0}], [UNDECIDED], classes=[1, 2, 3, 4]) == [2]


def test_a_newcomer_in_front_moves_nobody_while_a_class_above_is_free():
    assert folded([0, 1], [{0}, {0}], [UNDECIDED, 3]) == [2, 3]
    assert folded([0, 1, 2], [{0}] * 3, [UNDECIDED, 2, 3]) == [1, 2, 3]
    assert folded([1, 0, 2], [{0}] * 3, [UNDECIDED, 1, 3]) == [2, 1, 3]
    assert folded([2, 0, 1], [{0}] * 3, [UNDECIDED, 1, 3]) == [5, 1, 3]
    assert folded([0, 2, 1], [{0}] * 3, [3, 5, UNDECIDED]) == [3, 5, 4]  # there was room between those two


def test_the_head_leaving_moves_nobody():
    assert folded([0, 1], [{0}, {0}], [2, 3]) == [2, 3]


def test_a_newcomer_in_front_of_the_first_class_moves_those_behind_down_no_further_than_needed():
    assert folded([0, 1, 2], [{0}, {0}, {0}], [UNDECIDED, 1, 4]) == [1, 2, 4]


def test_where_classes_run_out_the_first_moves_up_and_the_rest_stay_behind_what_it_has_waiting():
    assert folded([0, 1, 2], [{0}] * 3, [6, 7, UNDECIDED]) == [1, 7, 7]
    assert folded([0, 1, 2], [{0}] * 3, [6, UNDECIDED, 7]) == [1, 6, 7]


def test_what_exceeds_the_classes_shares_the_last_if_it_has_a_rate():
    nowhere = [UNDECIDED] * 9
    assert folded(range(9), [{0}] * 9, nowhere) == [1, 2, 3, 4, 5, 6, 7, 7, 7]
    assert folded(range(9), [{0}] * 9, nowhere, rates=[1] + [0] * 8) == [1, 2, 3, 4, 5, 6, 7, None, None]
