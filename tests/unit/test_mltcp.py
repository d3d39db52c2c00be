"""MLTCP: who has sent more of its iteration gets more, so that jobs slide apart until they interleave."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.scheduling import policies
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowDeclaration
from simulator.fluid import simulate

NETWORK = topologies.build("single-switch", {"hosts": 3, "rate_bps": 8e6})
LINK_BPS = float(NETWORK.capacity_Bps[0])
MB = 1_000_000


@pytest.fixture
def state():
    """Job a sends 4 MB from h1 to h2 in two flows, and 1 MB to h3; job b sends 4 MB from h1 to h2 in one."""
    made = SchedulerState(NETWORK)
    flows = {"a": [("x", 1, "h2"), ("y", 3, "h2"), ("z", 1, "h3")], "b": [("w", 4, "h2")]}
    for job, rows in flows.items():
        declared = tuple(
            FlowDeclaration(name, i, name, "h1", dst, size * MB, 0.0, 10_000 + i, 5001)
            for i, (name, size, dst) in enumerate(rows)
        )
        made.declare(Declare(job, "g", "test", 1.0, declared))
    return made


def shares(state, text, now_s=1.0):
    snapshot, keys = state.snapshot(now_s)
    answer = policies.load(text)(snapshot)
    rates = zip(keys, answer.rates_Bps / LINK_BPS, strict=True)
    return {key[2]: float(rate) for key, rate in rates}, answer.valid_until_s


def test_shares_are_in_proportion_to_the_function_of_progress(state):
    state.release(("a", 0, "y"), 0.0)
    state.release(("b", 0, "w"), 0.0)
    state.progress(("a", 0, "y"), 1 * MB)  # 1 of 4 MB: the first of the second half of four steps
    found, until_s = shares(state, "mltcp(slope=1.75,intercept=0.25,steps=4)")
    ahead, behind = 1.75 * 1.5 / 4 + 0.25, 1.75 * 0.5 / 4 + 0.25
    assert found == pytest.approx({"y": ahead / (ahead + behind), "w": behind / (ahead + behind)})
    first_s = min(MB / (found["y"] * LINK_BPS), MB / (found["w"] * LINK_BPS))
    assert until_s == pytest.approx(1.0 + first_s)


def test_what_has_ended_counts_and_flows_with_the_same_ends_divide_their_weight(state):
    for key in (("a", 0, "x"), ("a", 0, "y"), ("b", 0, "w")):
        state.release(key, 0.0)
    even, _ = shares(state, "mltcp(steps=1)")
    assert even == pytest.approx({"x": 0.25, "y": 0.25, "w": 0.5})
    state.finish(("a", 0, "x"), 0.5)
    found, _ = shares(state, "mltcp(slope=1,intercept=1,steps=4)")
    assert found == pytest.approx({"y": 1.375 / 2.5, "w": 1.125 / 2.5})


def test_another_iteration_and_another_receiver_count_by_themselves(state):
    for key in (("a", 0, "x"), ("a", 0, "z"), ("a", 1, "y")):
        state.release(key, 0.0)
    state.progress(("a", 0, "x"), 0.5 * MB)
    table = state.snapshot(1.0)[0].connections
    assert table.sent_bytes.tolist() == [0.5 * MB, 0.0, 0.0]
    assert table.size_bytes.tolist() == [4.0 * MB, 1.0 * MB, 4.0 * MB]
    state.withdraw("a")
    assert not len(state.snapshot(1.0)[0].connections.id)


def test_a_group_that_is_declared_later_adds_to_what_has_begun(state):
    for name in "xy":
        state.release(("a", 0, name), 0.0)
    late = FlowDeclaration("late", 9, "late", "h1", "h2", 4 * MB, 0.0, 10_009, 5001)
    state.declare(Declare("a", "later", "test", 1.0, (late,)))
    state.release(("a", 0, "late"), 0.5)
    for name in "xy":
        state.finish(("a", 0, name), 1.0)
    snapshot, keys = state.snapshot(1.0)
    assert [key[2] for key in keys] == ["late"]
    table = snapshot.connections
    assert table.of_flow.tolist() == [0]
    assert (table.sent_bytes.tolist(), table.size_bytes.tolist()) == ([4 * MB], [8 * MB])
    state.finish(("a", 0, "late"), 2.0)
    assert not state.snapshot(2.0)[0].connections.id.size


def test_all_that_is_shown_of_connections_goes_with_their_flows(state):
    for key in (("a", 0, "x"), ("a", 0, "z"), ("b", 0, "w")):
        state.release(key, 0.0)
    snapshot, keys = state.snapshot(1.0)
    kept = np.array([key[2] != "x" for key in keys])
    table = snapshot.only(kept).connections
    assert table.size_bytes[table.of_flow].tolist() == [1.0 * MB, 4.0 * MB]
    assert np.isnan(snapshot.without_sizes().connections.size_bytes).all()


@pytest.mark.parametrize("options", ["slope=-1", "slope=inf", "intercept=0", "intercept=nan", "steps=0", "steps=1001"])
def test_functions_that_cannot_be_are_refused(options):
    with pytest.raises(InputError, match="policy mltcp"):
        policies.load(f"mltcp({options})")


def alternating(name, start_s, compute_s=1.0, send_s=0.8, iterations=40):
    """A job that computes, then sends from h1 to h2."""
    steps = (Compute("c", 0, compute_s), Transfer("t", 0, 1, round(send_s * LINK_BPS), "t", ("c",)))
    dag = JobDag(2, steps, (Group("g", "test", ("t",), (0.0,)),), (("t", "c"),))
    return Job(name, dag, ("h1", "h2"), iterations, start_s=start_s)


def iterations_s(jobs, policy):
    record = simulate(jobs, NETWORK, policies.load(policy))
    ends = {job.name: sorted(f.finish_s for f in record.flows if f.job == job.name) for job in jobs}
    return {name: [b - a for a, b in itertools.pairwise(times)] for name, times in ends.items()}


def test_jobs_slide_apart_until_they_interleave():
    jobs = [alternating("a", 0.0), alternating("b", 0.05)]
    fair, mltcp = iterations_s(jobs, "fair"), iterations_s(jobs, "mltcp")
    for name in ("a", "b"):
        assert min(fair[name][5:-5]) > 2.5, "under fair sharing they stay together"
        assert mltcp[name][-6:-1] == pytest.approx([1.8] * 5, abs=1e-3), "alone an iteration takes 1.8 s"
