"""What a coordinator decides before flows are released, in whole runs: nearly all, at a bounded price."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from echelon.experiment import schema
from echelonflow.model import topologies
from echelonflow.model.discipline import Window
from echelonflow.scheduling import policies
from simulator.fluid import simulate
from simulator.realism import Realism
from tests.unit.decided_ahead import drive
from tests.unit.gated_jobs import gradients_job

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
ITERATIONS = 3
REAL = Realism(classes=7, late_s=0.0005, burst_s=0.002)


def driven(name, policy, decisions="ahead"):
    experiment = schema.load(EXPERIMENTS / name)
    jobs = [dataclasses.replace(job, iterations=ITERATIONS) for job in experiment.jobs]
    loaded = policies.load(policy)
    record = simulate(jobs, experiment.network, loaded, realism=REAL)
    return drive(jobs, experiment.network, policy, loaded.enforcer, record.flows, decisions)


@pytest.mark.parametrize("policy", ["fair", "coflow(grouping=group)", "coflow(grouping=collective)", "echelonflow"])
@pytest.mark.parametrize(
    "name",
    ["pipeline.yaml", "gpt2-pipeline.yaml", pytest.param("paradigms/data-parallel.yaml", marks=pytest.mark.slow)],
)
def test_flows_are_decided_ahead_and_little_is_said(name, policy):
    found = driven(name, policy)
    flows = found.flows.total()
    assert found.share(first=1) >= 0.99
    assert found.told <= 3 * flows + 10
    assert found.questions <= 2.2 * found.decisions + 10  # once about releases, once about ends


@pytest.mark.parametrize("policy", ["fair", "echelonflow"])
@pytest.mark.parametrize("slots", [1, 3])
def test_flows_that_a_job_holds_back_are_decided_ahead_as_well(policy, slots):
    """Gradients that are ready while others are sent are released the other way round, as those end.

    Where two are ready between one release and the next, the second cannot be known: a few are not decided ahead.
    """
    job = gradients_job(Window(slots=slots), size_bytes=50_000, backward_s=0.05, iterations=ITERATIONS, layers=12)
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 5e6})
    loaded = policies.load(policy)
    record = simulate([job], network, loaded, realism=REAL)
    assert sum(flow.ready_s is not None for flow in record.flows) > len(record.flows) // 6
    assert drive([job], network, policy, loaded.enforcer, record.flows).share(first=1) >= 0.8


def test_nothing_is_decided_ahead_where_that_is_not_wanted():
    found = driven("gpt2-pipeline.yaml", "echelonflow", "wait")
    assert found.share() == 0
    assert (found.questions, found.spare, found.told) == (0, 0, 0)


def iteration_s(name, policy, **realism):
    experiment = schema.load(EXPERIMENTS / name)
    jobs = [dataclasses.replace(job, iterations=ITERATIONS) for job in experiment.jobs]
    record = simulate(jobs, experiment.network, policies.load(policy), realism=Realism(classes=7, **realism))
    return record.end_s / ITERATIONS


@pytest.mark.parametrize("policy", ["fair", "coflow(grouping=collective)", "echelonflow"])
@pytest.mark.parametrize("name", ["gpt2-pipeline.yaml", "paradigms/pipeline-1f1b.yaml"])
def test_a_simulation_in_which_flows_are_decided_ahead_is_nearer_to_one_without_latency(name, policy):
    at_once = iteration_s(name, policy)
    wait = iteration_s(name, policy, decision_latency_s=0.005)
    ahead = iteration_s(name, policy, decision_latency_s=0.005, undecided="ahead")
    assert at_once < wait
    # What has to wait for others to end is decided when they have: that takes as long as ever.
    assert abs(ahead - at_once) < 0.75 * (wait - at_once)


@pytest.mark.parametrize("policy", ["fair", "echelonflow"])
def test_decided_ahead_is_the_same_where_decisions_take_no_time(policy):
    at_once, ahead = (iteration_s("gpt2-pipeline.yaml", policy, undecided=mode) for mode in ("wait", "ahead"))
    assert ahead == pytest.approx(at_once, rel=1e-9)
