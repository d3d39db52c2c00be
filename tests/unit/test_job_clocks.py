"""Which iterations have ended and which jobs are under way, as a snapshot tells it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from echelonflow.model import topologies
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowClock, FlowDeclaration, JobClock

NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 8e6})


def flow(name, index, lead_s, rest_s=0.0, tail_s=1.0, size_bytes=1000):
    clock = None if lead_s is None else FlowClock(lead_s, rest_s, tail_s)
    return FlowDeclaration(name, index, name, "h1", "h2", size_bytes, 0.0, 10_000 + index, 5001, None, clock)


def group(job, *flows, iterations=2, clock=True):
    return Declare(job, job, "test", 1.0, flows, 1.0, JobClock(4.0, iterations) if clock else None)


@pytest.fixture
def state():
    state = SchedulerState(NETWORK)
    state.declare(
        group("a", flow("early", 0, 1.0, rest_s=2.0), flow("late", 1, 3.0, rest_s=0.5, tail_s=2.0), iterations=3)
    )
    state.declare(group("b", flow("only", 0, 0.5)))
    state.declare(group("c", flow("x", 0, None), clock=False))
    return state


def clocks(state):
    """Of each flow in flight, when its job's last iteration ended and how many are to end after it."""
    snapshot, keys = state.snapshot(10.0)
    told = zip(snapshot.clock.ended_s.tolist(), snapshot.clock.behind.tolist(), strict=True)
    return dict(zip(keys, told, strict=True))


def under_way(state):
    return state.snapshot(10.0)[0].clock.under_way


def test_before_an_iteration_has_ended_its_beginning_counts(state):
    state.release(("a", 0, "late"), 5.0)
    assert clocks(state) == {("a", 0, "late"): (2.0, 2)}
    state.release(("a", 0, "early"), 2.5)
    assert clocks(state) == dict.fromkeys([("a", 0, "early"), ("a", 0, "late")], (1.5, 2))


def test_an_iteration_has_ended_with_its_flows_and_what_is_computed_after_them(state):
    for name in ("early", "late"):
        state.release(("a", 0, name), 2.0)
    state.finish(("a", 0, "early"), 4.0)
    state.release(("a", 1, "early"), 4.5)
    assert clocks(state)["a", 1, "early"] == (-1.0, 3), "iterations overlap"
    state.finish(("a", 0, "late"), 5.0)
    assert clocks(state)["a", 1, "early"] == (6.0, 2)


def test_one_that_has_ended_says_that_those_before_it_have(state):
    for iteration in (0, 1):
        for name in ("early", "late"):
            state.release(("a", iteration, name), 2.0)
    state.finish(("a", 1, "early"), 4.0)
    state.finish(("a", 1, "late"), 5.0)
    assert clocks(state) == dict.fromkeys([("a", 0, "early"), ("a", 0, "late")], (6.0, 0))
    state.finish(("a", 0, "late"), 9.0)
    state.finish(("a", 0, "early"), 9.0)
    state.release(("a", 2, "late"), 10.0)
    assert clocks(state) == {("a", 2, "late"): (6.0, 2)}


def test_a_job_that_is_met_in_the_midst_begins_where_it_is_met(state):
    state.release(("b", 7, "only"), 5.0)
    assert clocks(state) == {("b", 7, "only"): (4.5, 2)}


def test_flows_without_a_clock_have_no_end_and_no_tail(state):
    state.release(("a", 0, "late"), 5.0)
    state.release(("c", 0, "x"), 5.0)
    clock = state.snapshot(10.0)[0].clock
    assert np.isnan(clock.ended_s).tolist() == [False, True]
    assert clock.tail_s[0] == 2.0


def test_where_nobody_declares_a_clock_there_is_none():
    state = SchedulerState(NETWORK)
    state.declare(group("c", flow("x", 0, None), clock=False))
    state.release(("c", 0, "x"), 5.0)
    assert state.snapshot(10.0)[0].clock is None


def test_jobs_are_under_way_from_their_first_release_to_the_end_of_their_last_flow(state):
    state.release(("b", 0, "only"), 0.0)
    assert under_way(state).id.tolist() == [1]
    state.release(("a", 0, "early"), 0.0)
    found = under_way(state)
    assert (found.id.tolist(), found.iteration_s.tolist()) == ([0, 1], [4.0] * 2)
    assert under_way(state) is found, "it stays the same while no job comes or goes"
    state.finish(("b", 0, "only"), 1.0)
    assert under_way(state).id.tolist() == [0, 1], "it computes, and will be back"
    state.release(("b", 1, "only"), 2.0)
    state.finish(("b", 1, "only"), 3.0)
    assert under_way(state).id.tolist() == [0]


def test_how_long_an_iteration_keeps_each_link(state):
    state.release(("a", 0, "early"), 0.0)
    found = under_way(state)
    path = NETWORK.path("h1", "h2")
    assert found.link.tolist() == sorted(path)
    assert found.load_s == pytest.approx([2000 / NETWORK.capacity_Bps[link] for link in sorted(path)])


def test_one_of_which_nobody_knows_its_end_goes_when_it_is_withdrawn(state):
    state.declare(group("d", flow("endless", 0, 0.0), iterations=0))
    state.release(("d", 0, "endless"), 0.0)
    state.finish(("d", 0, "endless"), 1.0)
    state.release(("a", 0, "early"), 0.0)
    assert under_way(state).id.tolist() == [0, 3]
    state.withdraw("d")
    assert under_way(state).id.tolist() == [0]


def test_jobs_that_come_later_move_the_places_of_those_that_are_there(state):
    state.release(("b", 0, "only"), 0.0)
    assert under_way(state).id.tolist() == [1]
    state.declare(group("aa", flow("y", 0, 0.0)))
    assert under_way(state).id.tolist() == [2]


def test_what_is_only_supposed_leaves_no_trace(state):
    state.release(("b", 0, "only"), 5.0)
    with state.supposing([("a", 0, "late"), ("b", 1, "only")], 6.0):
        assert clocks(state) == {("a", 0, "late"): (3.0, 2), ("b", 0, "only"): (4.5, 2), ("b", 1, "only"): (4.5, 3)}
        assert under_way(state).id.tolist() == [0, 1]
    assert clocks(state) == {("b", 0, "only"): (4.5, 2)}
    assert under_way(state).id.tolist() == [1]
    state.release(("a", 0, "early"), 9.0)
    assert clocks(state)["a", 0, "early"] == (8.0, 2)


def test_a_trial_within_an_iteration_that_has_begun_gives_its_beginning_back(state):
    state.release(("a", 0, "early"), 5.0)
    with state.supposing([("a", 0, "late")], 5.5):
        assert {ended_s for ended_s, _ in clocks(state).values()} == {2.5}
    assert clocks(state) == {("a", 0, "early"): (4.0, 2)}


def test_a_beginning_is_never_infinite_where_a_flow_is_in_flight(state):
    state.release(("a", 2, "late"), 5.0)
    assert all(math.isfinite(ended_s) for ended_s, _ in clocks(state).values())
