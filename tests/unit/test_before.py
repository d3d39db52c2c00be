"""What declarations say comes before a flow, against what happens in simulated runs, and by hand."""

from __future__ import annotations

import random

import pytest

from echelon.cases import random_jobs
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.discipline import Window
from echelonflow.scheduling import policies
from echelonflow.wire import before
from echelonflow.wire.before import before_of
from echelonflow.wire.declare import declarations
from echelonflow.wire.messages import Before
from results.analysis.asked import ready_s
from simulator.fluid import simulate
from tests.unit.gated_jobs import ONE_AT_A_TIME, Layer, layered


def job(steps, next_iteration=(), placement=("h1", "h2", "h3")):
    flows = [step.name for step in steps if isinstance(step, Transfer)]
    dag = JobDag(len(placement), tuple(steps), (Group("g", "k", tuple(flows), (0.0,) * len(flows)),), next_iteration)
    return Job("job", dag, placement, iterations=2)


def sends(name, src, dst, *after):
    return Transfer(name, src, dst, 1000, name, after)


def test_a_chain_of_computations_names_the_release_that_speaks_for_it():
    steps = [Compute("a", 0, 1.0), sends("x", 0, 1, "a"), Compute("b", 0, 1.0, ("a",)), sends("y", 0, 1, "b")]
    found = before_of(job(steps, (("b", "a"),)))
    assert found == {"x": Before(released_previous=(1,)), "y": Before(released=(0,))}


def test_flows_that_are_released_together_know_the_same():
    steps = [sends("w", 1, 0), Compute("a", 0, 1.0, ("w",)), sends("x", 0, 1, "a"), sends("y", 0, 2, "a")]
    found = before_of(job(steps))
    assert found["x"] == found["y"] == Before(ended=(0,))
    assert found["w"] == Before()


def test_transfers_within_a_host_are_seen_through():
    steps = [sends("x", 0, 1), sends("local", 1, 2, "x"), Compute("c", 2, 1.0, ("local",)), sends("y", 2, 0, "c")]
    found = before_of(job(steps, placement=("h1", "h2", "h2")))
    assert found == {"x": Before(), "y": Before(ended=(0,))}


def test_what_is_too_much_to_say_is_not_said(monkeypatch):
    monkeypatch.setattr(before, "MOST_BEFORE", 3)
    steps = [*(sends(f"x{i}", 0, 1) for i in range(4)), Compute("c", 1, 1.0, tuple(f"x{i}" for i in range(4)))]
    found = before_of(job([*steps, sends("y", 1, 2, "c"), sends("z", 1, 2, "y")]))
    assert found["y"] is None
    assert found["z"] == Before(ended=(4,))


@pytest.mark.parametrize("seed", range(12))
def test_in_a_run_everything_named_has_happened_before(seed):
    case = random_jobs.draw(random.Random(seed), random_jobs.TOPOLOGIES[seed % len(random_jobs.TOPOLOGIES)])
    check_named(case.jobs, simulate(case.jobs, case.network, policies.load("fair")))


@pytest.mark.parametrize("algorithm", ["parameter-server", "ring", "tree"])
@pytest.mark.parametrize("window", [ONE_AT_A_TIME, Window(credit_bytes=700)])
def test_what_a_job_holds_back_was_ready_by_then(algorithm, window):
    layers = [Layer(0.01, 0.02, 1000)] * 6
    held = layered(layers, algorithm=algorithm, workers=3, window=window, partition_bytes=600, iterations=3)
    network = topologies.build("single-switch", {"hosts": len(held.placement), "rate_bps": 1e5})
    record = simulate([held], network, policies.load("fair"))
    assert any(flow.ready_s is not None for flow in record.flows)
    check_named([held], record)


def check_named(jobs, record):
    """All that declarations name before a flow had ended when it was released, or was ready when it was."""
    flows = {(flow.job, flow.iteration, flow.flow): flow for flow in record.flows}
    named = 0
    declared = {(group.job, flow.flow): flow for group in declarations(jobs) for flow in group.flows}
    name_of = {(job, flow.index): name for (job, name), flow in declared.items()}
    for (job_name, iteration, name), flow in flows.items():
        said = declared[job_name, name].before
        assert said is not None
        for at, ended, released in (
            (iteration, said.ended, said.released),
            (iteration - 1, said.ended_previous, said.released_previous),
        ):
            if at < 0:
                continue
            for index in ended:
                assert flows[job_name, at, name_of[job_name, index]].finish_s <= ready_s(flow)
            for index in released:
                assert ready_s(flows[job_name, at, name_of[job_name, index]]) <= ready_s(flow)
            named += len(ended) + len(released)
    assert named > 0
