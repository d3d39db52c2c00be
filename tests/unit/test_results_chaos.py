"""A policy under which the course of a run hangs on chance: clean runs count, and sabotage does not.

Runs are simulations of the jobs of cluster.yaml, disturbed by another draw than all members of their ensembles.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest
import yaml

from echelon.experiment.schema import check
from echelon.places import EXPERIMENTS
from echelon.running.ensembles import ensemble
from echelon.running.stages import Asked, Stages
from echelonflow.model.counting import ALL
from echelonflow.model.dag import Compute
from echelonflow.model.measured import Measured, Settings
from echelonflow.records.budget import ExplainedRun
from echelonflow.scheduling import policies
from results.analysis.blame import ends_by_job_s
from results.analysis.budget import budgets
from results.analysis.effects import effects, judge_together, keeps_limits
from results.analysis.figures import job_figures
from results.analysis.limits import Limits
from results.analysis.rows import run_rows
from simulator.disturbance import Disturbance
from simulator.fluid import simulate
from simulator.realism import Realism

pytestmark = pytest.mark.slow

POLICY = "echelonflow"
ITERATIONS = 4
"""Of each job: enough for small disturbances to become large."""
REPEATS = (7, 18, 19, 23)
"""Whose draws of durations make much hang on chance; under others it is less."""
ON_TIME = Measured(settings=Settings())
ANOTHER_DRAW = 1000
"""Of runs; members of ensembles are counted from 0."""


@functools.cache
def experiment():
    """cluster.yaml with few iterations of each job."""
    data = yaml.safe_load((EXPERIMENTS / "cluster.yaml").read_text())
    data["jobs"] = [{**job, "iterations": ITERATIONS} for job in data["jobs"]]
    return check(data, Path("cluster.yaml"))


def run_of(repeat, measured):
    """What a run measures that was late by this."""
    asked = experiment()
    realism = Realism(classes=7, disturbance=Disturbance(ANOTHER_DRAW + repeat))
    return simulate(asked.jobs, asked.network, policies.load(POLICY), repeat, realism=realism, measured=measured)


def late(share):
    """Every computation ends late by a share of itself, and flows that follow it are released as late."""
    late_s, release_s = {}, {}
    for job in experiment().jobs:
        for iteration in range(job.iterations):
            for step in job.dag.steps:
                if isinstance(step, Compute):
                    late_s[job.name, iteration, step.name] = share * step.duration_s
            for step in job.dag.transfers:
                waits_s = [late_s.get((job.name, iteration, before), 0.0) for before in step.after]
                release_s[job.name, iteration, step.name] = max(waits_s, default=0.0)
    return dataclasses.replace(ON_TIME, late_s=late_s, release_s=release_s)


@functools.cache
def explained(repeat, late_share=0.0):
    """One simulation and the ensemble of a run of which it is known that computations were late by so much, and nothing else."""
    asked, causes = experiment(), late(late_share) if late_share else ON_TIME
    record = run_of(repeat, causes)
    starts_s = {job.name: job.start_s for job in asked.jobs}
    counted = ALL.counted(starts_s, ends_by_job_s(record, asked.jobs))
    stages = Stages(
        Asked(asked.jobs, asked.network), POLICY, repeat, ideal=Realism(), enforced=Realism(classes=7), counted=counted
    )
    last_s = stages.times(stages.enforced, causes)
    found = ExplainedRun(
        run_index=repeat, zero_monotonic_s=0.0, ideal_s=last_s, computation_s=last_s, unhindered_s=last_s,
        decisions_s=last_s, links_s=last_s,
    )  # fmt: skip
    return found, ensemble(stages, causes, causes, found)


def judged(repeat, actual, late_share=0.0, *, by_many=True):
    """The effects in a run that `actual` made what it is, explained by what is known of it."""
    found, members = explained(repeat, late_share)
    measured = job_figures(run_rows(run_of(repeat, actual), experiment().jobs), experiment().jobs)
    return effects(budgets(found, measured), members if by_many else None)


def counting(runs):
    """Those that would count by themselves, and why they do not together."""
    kept = [run for run in runs if keeps_limits(run, Limits())]
    return kept, judge_together(kept, Limits())


def links_at(share):
    return dataclasses.replace(ON_TIME, carried_Bps=tuple(share * rate for rate in experiment().network.capacity_Bps))


def test_clean_runs_count_though_one_simulation_says_otherwise():
    alone = [judged(repeat, ON_TIME, by_many=False) for repeat in REPEATS]
    assert not any(keeps_limits(run, Limits()) for run in alone)
    runs = [judged(repeat, ON_TIME) for repeat in REPEATS]
    assert all(any(job.hangs_on_chance for job in run.values()) for run in runs)
    kept, reasons = counting(runs)
    assert len(kept) == len(REPEATS)
    assert reasons == []


@pytest.mark.parametrize("share", [0.97, 0.8])
def test_links_that_carry_less_and_nobody_knows(share):
    kept, reasons = counting([judged(repeat, links_at(share)) for repeat in REPEATS])
    assert len(kept) == 0 or any("that the measured causes explain" in reason for reason in reasons)


def test_computations_that_were_late_by_a_tenth():
    repeat = REPEATS[0]
    run = judged(repeat, late(0.1), 0.1)
    assert not keeps_limits(run, Limits())
    assert any(job.computation.beyond > Limits().max_moved_iteration * job.explained_s for job in run.values())
