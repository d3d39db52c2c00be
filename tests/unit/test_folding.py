"""An order of flows in few classes: kept on every link, and with no flow in flight moved up."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow import fill, orders
from echelonflow.classes import DATA_CLASSES
from echelonflow.folding import UNDECIDED, contended, fold
from simulator.realism import shared_by_class
from tests.contract.snapshots import on_paths, snapshots

LINKS = 4
flows = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.sets(st.integers(0, LINKS - 1), min_size=1, max_size=2),
        st.sampled_from([UNDECIDED, *DATA_CLASSES]),
    ),
    max_size=10,
)


def folded(rank, paths, in_force, classes=DATA_CLASSES):
    narrower = 2.0 ** -np.arange(LINKS)  # so that flows are in each other's way wherever they meet
    snapshot = on_paths([sorted(path) for path in paths], narrower)
    return fold(snapshot, np.array(rank, np.int64), np.array(in_force, np.int64), classes).tolist()


@settings(deadline=None)
@given(snapshots(), st.randoms())
def test_where_classes_suffice_service_by_class_is_service_by_rank(snapshot, random):
    """Also with flows kept together that meet only where they cannot be in each other's way."""
    rank = np.array([random.randrange(snapshot.flows) for _ in range(snapshot.flows)], np.int64)
    classes = fold(snapshot, rank, np.full(snapshot.flows, UNDECIDED), range(snapshot.flows))
    by_rank = orders.greedy(snapshot, fill.stages_of(rank))
    assert np.allclose(shared_by_class(snapshot, classes), by_rank, rtol=1e-6, atol=1.0)


def test_flows_of_two_hosts_are_not_kept_apart_on_an_uplink_as_fast_as_both():
    paths = [[0, 2, 3], [1, 2, 4]]
    nowhere = np.full(2, UNDECIDED)
    wide, narrow = (on_paths(paths, [3, 3, uplink, 3, 3]) for uplink in (6, 5))
    assert contended(wide).tolist() == [True, True, False, False, False]
    assert contended(narrow).tolist() == [True, True, True, False, False]
    assert fold(wide, np.arange(2), nowhere).tolist() == [1, 1]
    assert fold(narrow, np.arange(2), nowhere).tolist() == [1, 2]


def test_a_host_that_two_others_send_to_is_contended():
    assert contended(on_paths([[0, 2], [1, 2]], [3, 3, 3])).tolist() == [True, True, True]


@given(flows)
def test_the_order_is_kept_on_every_link_and_equal_places_are_equal_classes(drawn):
    rank, paths, in_force = columns(drawn)
    found = folded(rank, paths, in_force)
    assert set(found) <= set(DATA_CLASSES)
    enough = max(folded(rank, paths, in_force, range(1, 100)), default=0) <= DATA_CLASSES[-1]
    for a, b in meeting(paths):
        if rank[a] < rank[b]:
            assert found[a] < found[b] or (not enough and found[a] == found[b] == DATA_CLASSES[-1])
    assert folded(rank, paths, found) == found  # an unchanged order changes nothing
    assert all(found[a] == found[b] for a in range(len(rank)) for b in range(len(rank)) if rank[a] == rank[b])


@given(flows)
def test_flows_in_flight_move_up_only_where_classes_run_out(drawn):
    rank, paths, in_force = columns(drawn)
    found = folded(rank, paths, in_force)
    wide = folded(rank, paths, in_force, range(1, 100))  # as many classes as anyone could need
    if max(wide, default=0) <= DATA_CLASSES[-1]:
        assert found == wide
    for a, (new, old) in enumerate(zip(found, in_force, strict=True)):
        if new < old:
            assert max(wide) > DATA_CLASSES[-1]
            assert not any(rank[b] < rank[a] for b in range(len(rank)) if paths[a] & paths[b])


@given(flows)
def test_nobody_is_served_above_packets_of_a_flow_before_him(drawn):
    rank, paths, in_force = columns(drawn)
    found = folded(rank, paths, in_force)
    assert all(found[b] >= in_force[a] for a, b in meeting(paths) if rank[a] < rank[b])


def columns(drawn):
    return [list(column) for column in zip(*drawn, strict=True)] or [[], [], []]


def meeting(paths):
    flows = range(len(paths))
    return [(a, b) for a in flows for b in flows if paths[a] & paths[b]]


def test_flows_that_do_not_meet_share_the_first_class():
    assert folded([0, 1, 2], [{0}, {1}, {2}], [UNDECIDED] * 3) == [1, 1, 1]


def test_the_head_leaving_moves_nobody():
    assert folded([0, 1], [{0}, {0}], [2, 3]) == [2, 3]


def test_a_newcomer_in_front_moves_those_behind_down_no_further_than_needed():
    assert folded([0, 1, 2], [{0}, {0}, {0}], [UNDECIDED, 1, 4]) == [1, 2, 4]


def test_where_classes_run_out_the_first_moves_up_and_the_rest_stay_behind_what_it_has_waiting():
    assert folded([0, 1, 2], [{0}] * 3, [6, 7, UNDECIDED]) == [1, 7, 7]
    assert folded([0, 1, 2], [{0}] * 3, [6, UNDECIDED, 7]) == [1, 6, 7]


def test_what_exceeds_the_classes_shares_the_last():
    assert folded(range(9), [{0}] * 9, [UNDECIDED] * 9) == [1, 2, 3, 4, 5, 6, 7, 7, 7]
