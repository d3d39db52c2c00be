"""Keys remembered over iterations: when they are computed again, and that an iteration that repeats needs none."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.records.runs import load_runs, save_runs
from echelonflow.scheduling import policies
from echelonflow.scheduling.reuse import OrderMemory
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowDeclaration
from results.analysis.rows import iteration_rows
from simulator.fluid import simulate
from traffic.workloads import paradigms

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
    """Two flows of one job in iteration after iteration; says whether their order was computed."""

    def __init__(self, network, **options):
        self.memory = OrderMemory(**{"drift": 0.1, "interval_s": 100.0, **options})
        self.state = SchedulerState(network)
        self.state.declare(group("a", 0))
        self.iteration = 0

    def decide(self, now_s, *, late_s=0.0, sent_bytes=0.0):
        """Decide on a0 and a1, a1 released `late_s` after a0 and in part sent; then both end."""
        self.state.release(("a", self.iteration, "a0"), now_s - late_s)
        self.state.release(("a", self.iteration, "a1"), now_s)
        self.state.progress(("a", self.iteration, "a1"), sent_bytes)
        before = self.memory.counters()["recomputations"]
        snapshot, keys = self.state.snapshot(now_s)
        order = np.arange(snapshot.flows)
        assert self.memory.rank(snapshot, lambda: order).tolist() == order.tolist()
        for found in keys:
            self.state.finish(found, now_s)
        self.iteration += 1
        return self.memory.counters()["recomputations"] > before


def group(job, index):
    """Two flows that need 1 s each, the second due 1 s after the first."""
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


def test_computed_again_when_a_situation_has_drifted(network):
    """Alone the group needs some 2 s: 0.1 s of lateness are half a tenth of it, 0.5 s a quarter."""
    repeats = Repeats(network)
    late = [(0.0, 0.0), (1.0, 0.1), (2.0, 0.5), (3.0, 0.5), (4.0, 0.0)]
    assert [repeats.decide(t, late_s=late_s) for t, late_s in late] == [True, False, True, False, True]
    sent = [(0.0, 0), (1.0, 1_000_000), (2.0, 3_000_000), (3.0, 3_000_000)]
    repeats = Repeats(network)
    assert [repeats.decide(t, sent_bytes=size) for t, size in sent] == [True, False, True, False]
    lenient = Repeats(network, drift=0.3)
    assert [lenient.decide(t, sent_bytes=size) for t, size in sent] == [True, False, False, False]


def test_computed_again_when_a_job_arrives_and_not_again_when_it_has_departed(network):
    """What is decided without the other job is what was decided before it came."""
    repeats = Repeats(network)
    assert [repeats.decide(float(t)) for t in range(3)] == [True, False, False]
    repeats.state.declare(group("b", 10))
    repeats.state.release(("b", 0, "b0"), 3.0)
    assert repeats.decide(3.0)
    assert not repeats.decide(4.0)


def test_ids_that_come_to_mean_another_group_are_noticed(network):
    repeats = Repeats(network)
    repeats.decide(0.0)
    repeats.state.release(("a", 1, "a0"), 1.0)
    repeats.state.release(("a", 1, "a1"), 1.0)
    snapshot, _ = repeats.state.snapshot(1.0)
    groups = dataclasses.replace(snapshot.groups, weight=snapshot.groups.weight * 2)
    other = dataclasses.replace(snapshot, groups=groups)
    repeats.memory.rank(other, lambda: np.arange(2))
    assert repeats.memory.counters() == {"decisions": 2, "recomputations": 2}


def test_what_is_remembered_does_not_depend_on_the_order_of_rows(network):
    repeats = Repeats(network)
    for iteration in (0, 1):
        for flow in ("a0", "a1"):
            repeats.state.release(("a", iteration, flow), 0.0)
    snapshot, _ = repeats.state.snapshot(0.0)
    rows = np.array([3, 1, 0, 2])
    columns = ("flow_id", "remaining_bytes", "sent_bytes", "release_s", "ideal_finish_s", "group", "coflow")
    other = dataclasses.replace(snapshot, **{name: getattr(snapshot, name)[rows] for name in columns})
    rank = np.array([2, 0, 3, 1])
    assert repeats.memory.rank(snapshot, lambda: rank).tolist() == rank.tolist()
    assert repeats.memory.rank(other, lambda: pytest.fail("was met before")).tolist() == rank[rows].tolist()
