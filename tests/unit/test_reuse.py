"""Keys remembered over iterations: when they are computed again, and that an iteration that repeats needs none."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from echelonflow import policies, topologies
from echelonflow.dag import Job
from echelonflow.messages import Declare, FlowDeclaration
from echelonflow.reuse import OrderMemory
from echelonflow.state import SchedulerState
from results.metrics import iteration_rows
from results.record_json import load_runs, save_runs
from simulator.fluid import simulate
from traffic import paradigms

ITERATIONS = 8


@pytest.fixture(scope="module")
def network():
    return topologies.build("single-switch", {"hosts": 3, "rate_bps": 100e6})


@pytest.fixture(scope="module")
def job(network):
    options = {"stages": 3, "micro_batches": 4, "forward_s": 0.1, "backward_s": 0.2, "activation_bytes": 2_000_000}
    return Job("job", paradigms.build("gpipe", options), ("h1", "h2", "h3"), ITERATIONS)


def run(jobs, network, text):
    policy = policies.load(text)
    record = simulate(jobs, network, policy)
    assert record.counters == policy.counters()
    return [row.finish_s for row in iteration_rows(record, jobs)], record.counters


def test_counters_are_kept_with_a_run(network, job, tmp_path):
    record = simulate([job], network, policies.load("echelonflow(reuse=iterations)"))
    save_runs(tmp_path / "runs.json", [record])
    assert load_runs(tmp_path / "runs.json")[0].counters == record.counters
    assert record.counters["decisions"] > record.counters["recomputations"]


@pytest.mark.parametrize("order", ["remaining", "tardiness", "job"])
def test_a_job_that_repeats_is_ordered_in_its_first_iterations_only(network, job, order):
    always, none = run([job], network, f"echelonflow(order={order})")
    reused, counters = run([job], network, f"echelonflow(order={order},reuse=iterations)")
    assert none == {}
    assert reused == pytest.approx(always)
    # The first iteration begins without a backlog, so the second may differ from it; the others repeat.
    assert 0 < counters["recomputations"] <= 2.5 * counters["decisions"] / ITERATIONS


def test_memory_is_fresh_in_every_policy_that_is_loaded(network, job):
    text = "echelonflow(reuse=iterations)"
    assert run([job], network, text) == run([job], network, text)


class Repeats:
    """One flow of one job in iteration after iteration, each an iteration of 1 s; counts computations."""

    def __init__(self, network, **options):
        self.memory = OrderMemory(**{"drift": 0.1, "interval_s": 100.0, **options})
        self.state = SchedulerState(network)
        self.state.declare(group("a", 0))
        self.iteration = 0

    def decide(self, now_s, *, late_s=0.0):
        """Whether the key was computed for flow `a` released `late_s` after its head."""
        key = ("a", self.iteration, "a1")
        self.state.release(("a", self.iteration, "a0"), now_s - late_s)
        self.state.release(key, now_s)
        before = self.memory.counters()["recomputations"]
        snapshot, keys = self.state.snapshot(now_s)
        self.memory.keys_s(snapshot, lambda: np.arange(snapshot.flows) / 1.0, by_group=False)
        for found in keys:
            self.state.finish(found, now_s)
        self.iteration += 1
        return self.memory.counters()["recomputations"] > before


def group(job, index):
    flows = tuple(
        FlowDeclaration(f"{job}{i}", index + i, f"{job}{i}", "h1", "h2", 12_000_000, float(i), index + i, 5001)
        for i in range(2)
    )
    return Declare(job, "g", "test", 1.0, flows)


def test_computed_once_and_again_after_the_interval(network):
    repeats = Repeats(network, interval_s=3.5)
    assert [repeats.decide(float(t)) for t in range(8)] == [True, False, False, False, True, False, False, False]


def test_computed_again_when_time_goes_back(network):
    repeats = Repeats(network)
    assert [repeats.decide(t) for t in (5.0, 6.0, 1.0)] == [True, False, True]


def test_computed_again_when_an_iteration_has_drifted(network):
    """Alone the group needs 2 s; flow a1 comes later after a0 than it did when its key was computed."""
    repeats = Repeats(network)
    late = [(0.0, 0.0), (1.0, 0.1), (2.0, 0.5), (3.0, 0.5), (4.0, 0.0)]
    assert [repeats.decide(t, late_s=late_s) for t, late_s in late] == [True, False, True, False, True]
    assert Repeats(network, drift=np.inf).decide(0.0)


def test_computed_again_when_a_job_arrives_or_departs(network):
    repeats = Repeats(network)
    assert [repeats.decide(float(t)) for t in range(3)] == [True, False, False]
    repeats.state.declare(group("b", 10))
    repeats.state.release(("b", 0, "b0"), 2.5)
    assert repeats.decide(3.0)  # with b: it arrives; its flow ends with this decision
    assert not repeats.decide(4.0)
    assert not repeats.decide(5.0)
    repeats.state.release(("b", 0, "b1"), 5.5)
    assert repeats.decide(6.0)  # a flow of b that was never seen: only its own key is new
    # b has been away for 3 s at the longest; when it is away for more than twice that, it has departed.
    assert [repeats.decide(float(t)) for t in range(7, 15)] == [False] * 6 + [True, False]


def test_ids_that_come_to_mean_another_job_are_noticed(network):
    repeats = Repeats(network)
    repeats.decide(0.0)
    snapshot, _ = _one_flow(repeats.state, 1.0)
    other = dataclasses.replace(snapshot, jobs=dataclasses.replace(snapshot.jobs, alone_s=snapshot.jobs.alone_s * 2))
    repeats.memory.keys_s(other, lambda: np.arange(other.flows) / 1.0, by_group=False)
    assert repeats.memory.counters() == {"decisions": 2, "recomputations": 2}


def _one_flow(state, now_s):
    state.release(("a", 1, "a0"), now_s)
    return state.snapshot(now_s)


def test_within_a_group_the_order_of_ideal_finish_stays(network):
    state = SchedulerState(network)
    state.declare(group("a", 0))
    for flow in ("a0", "a1"):
        state.release(("a", 0, flow), 0.0)
    snapshot, _ = state.snapshot(0.0)
    memory = OrderMemory(0.1, 100.0)
    assert memory.keys_s(snapshot, lambda: np.array([5.0, 3.0]), by_group=False).tolist() == [5.0, 5.0]
