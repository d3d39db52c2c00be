"""What a coordinator decides before flows are released, in whole runs: nearly all, at a bounded price."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from echelon.experiment import schema
from echelonflow.scheduling import policies
from simulator.fluid import simulate
from simulator.realism import Realism
from tests.unit.decided_ahead import drive

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
@pytest.mark.parametrize("name", ["pipeline.yaml", "gpt2-pipeline.yaml", "paradigms/data-parallel.yaml"])
def test_flows_are_decided_ahead_and_little_is_said(name, policy):
    found = driven(name, policy)
    flows = found.flows.total()
    assert found.share(first=1) >= 0.99
    assert found.told <= 2 * flows + 10
    assert found.questions <= 2.5 * flows + 10


def test_nothing_is_decided_ahead_where_that_is_not_wanted():
    found = driven("gpt2-pipeline.yaml", "echelonflow", "wait")
    assert found.share() == 0
    assert (found.questions, found.spare, found.told) == (0, 0, 0)
