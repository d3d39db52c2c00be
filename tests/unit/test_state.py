"""The scheduler's state: references, tardiness so far, and refusals that change nothing."""

from __future__ import annotations

import math

import pytest

from echelonflow import topologies
from echelonflow.errors import InputError
from echelonflow.messages import Declare, FlowDeclaration
from echelonflow.state import SchedulerState

NETWORK = topologies.build("single-switch", {"hosts": 3, "rate_bps": 8e6})


def flow(name, index, offset_s=0.0, size_bytes=1000, src="h1", dst="h2", coflow=None):
    return FlowDeclaration(name, index, coflow or name, src, dst, size_bytes, offset_s, index, 5001)


@pytest.fixture
def state():
    found = SchedulerState(NETWORK)
    found.declare(Declare("job", "g", "test", 1.0, (flow("a", 0), flow("b", 1, 2.0), flow("c", 2, 4.0))))
    return found


def ideals(state, now_s):
    snapshot, keys = state.snapshot(now_s)
    return {key[2]: d for key, d in zip(keys, snapshot.ideal_finish_s.tolist(), strict=True)}


def test_ideal_finish_times_follow_the_head(state):
    state.release(("job", 0, "a"), 10.0)
    state.release(("job", 0, "b"), 11.0)
    assert ideals(state, 11.0) == {"a": 10.0, "b": 12.0}


def test_the_reference_is_the_heads_even_if_another_flow_is_first(state):
    state.release(("job", 0, "b"), 10.0)
    assert ideals(state, 10.0) == {"b": 10.0}  # until the head is released: release less offset
    state.release(("job", 0, "a"), 11.0)
    assert ideals(state, 11.0) == {"a": 11.0, "b": 13.0}


def test_incurred_tardiness_is_the_worst_so_far(state):
    for name in "abc":
        state.release(("job", 0, name), 0.0)
    state.finish(("job", 0, "a"), 5.0)  # due 0
    state.finish(("job", 0, "b"), 4.0)  # due 2
    snapshot, _ = state.snapshot(6.0)
    assert snapshot.groups.incurred_tardiness_s.tolist() == [5.0]


def test_pending_bytes_are_those_declared_but_not_released(state):
    state.release(("job", 0, "a"), 0.0)
    snapshot, _ = state.snapshot(0.0)
    assert snapshot.groups.pending_bytes.tolist() == [2000.0, 2000.0]
    assert [snapshot.link_name(i) for i in snapshot.groups.pending_link] == ["h1->s1", "s1->h2"]


def test_iterations_are_separate_and_a_finished_group_leaves_nothing(state):
    for iteration in (0, 1):
        for name in "abc":
            state.release(("job", iteration, name), float(iteration))
    for name in "abc":
        state.finish(("job", 0, name), 3.0)
    snapshot, keys = state.snapshot(3.0)
    assert {key[1] for key in keys} == {1}
    assert snapshot.groups.incurred_tardiness_s.tolist() == [-math.inf]
    assert snapshot.coflows.arrival_s.tolist() == [1.0, 1.0, 1.0]


def test_progress_never_goes_back(state):
    state.release(("job", 0, "a"), 0.0)
    state.progress(("job", 0, "a"), 600)
    state.progress(("job", 0, "a"), 400)
    assert state.snapshot(0.0)[0].remaining_bytes.tolist() == [400.0]


def test_ids_do_not_depend_on_the_order_of_declaration():
    ids = []
    for order in (("x", "y"), ("y", "x")):
        state = SchedulerState(NETWORK)
        for job in order:
            state.declare(Declare(job, "g", "test", 1.0, (flow("a", 0), flow("b", 1))))
        for job in order:
            state.release((job, 0, "b"), 0.0)
        snapshot, keys = state.snapshot(0.0)
        ids.append(dict(zip(keys, snapshot.flow_id.tolist(), strict=True)))
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (flow("a", 5), "'a' of job 'job' is declared already"),
        (flow("z", 5, size_bytes=0), "0 bytes"),
        (flow("z", 5, offset_s=-1.0), "offset -1.0 s"),
        (flow("z", 5, dst="h9"), "host 'h9'"),
        (flow("z", 5, dst="h1"), "to itself"),
    ],
)
def test_bad_declarations_are_refused_and_change_nothing(state, bad, message):
    with pytest.raises(InputError, match=message):
        state.declare(Declare("job", "other", "test", 1.0, (bad,)))
    assert list(state.groups) == [("job", "g")]


def test_events_that_make_no_sense_are_refused(state):
    with pytest.raises(InputError, match="was not declared"):
        state.release(("job", 0, "nobody"), 0.0)
    with pytest.raises(InputError, match="not in flight"):
        state.finish(("job", 0, "a"), 0.0)
    state.release(("job", 0, "a"), 0.0)
    with pytest.raises(InputError, match="released already"):
        state.release(("job", 0, "a"), 0.0)


def test_a_withdrawn_job_is_forgotten(state):
    state.release(("job", 0, "a"), 0.0)
    state.withdraw("job")
    assert state.active == []
    assert not state.groups


def test_a_coflow_remembers_what_its_finished_flows_have_sent():
    state = SchedulerState(NETWORK)
    state.declare(Declare("job", "g", "test", 1.0, (flow("a", 0, coflow="c"), flow("b", 1, coflow="c"))))
    for name in "ab":
        state.release(("job", 0, name), 0.0)
    state.progress(("job", 0, "b"), 300.0)
    state.finish(("job", 0, "a"), 1.0)
    assert state.snapshot(1.0)[0].coflows.sent_bytes.tolist() == [1300.0]


def test_groups_and_jobs_say_how_long_they_would_take_alone():
    state = SchedulerState(NETWORK)  # 8 Mbit/s
    capacity_Bps = NETWORK.capacity_Bps[0]
    state.declare(Declare("job", "g", "test", 1.0, (flow("a", 0), flow("b", 1, 3.0, dst="h3")), compute_s=4.0))
    state.declare(Declare("job", "h", "test", 1.0, (flow("c", 2, 1.0, 500, dst="h3"),), compute_s=4.0))
    for name in "abc":
        state.release(("job", 0, name), 0.0)
    state.finish(("job", 0, "a"), 1.0)
    snapshot, _ = state.snapshot(1.0)
    assert snapshot.groups.span_s.tolist() == [3.0, 1.0]
    assert (snapshot.groups.alone_s * capacity_Bps).tolist() == pytest.approx([2000.0, 500.0])
    assert snapshot.groups.job.tolist() == [0, 0]
    assert (snapshot.jobs.alone_s * capacity_Bps).tolist() == pytest.approx([2500.0])
    assert snapshot.jobs.compute_s.tolist() == [4.0]
