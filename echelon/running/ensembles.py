"""Simulates one run many times with each cause, disturbed by next to nothing: what a cause did is told apart from chance so."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator

from echelon.running.stages import Stages, Times
from echelonflow.model.measured import Measured
from echelonflow.records.budget import Ensemble, ExplainedRun, Members
from simulator.disturbance import Disturbance

MEMBERS = 8
"""Simulations of each stage. Where iterations scatter by ±2 %, twice their deviation, causes are told apart that do more than 1.1 % (of 4
simulations it would be 1.7 %). 16 would take twice as long, for 0.7 %; runs of one policy are judged together anyway."""
_SAME_COURSE_S = 1e-4
"""Mean iterations that differ by less are of the same course of events: whatever hangs on chance would be far apart."""
MOST_STEPS = 20_000
"""Steps of all iterations of a run. Beyond that an ensemble would take many minutes."""


def ensemble(stages: Stages, causes: Measured, eased: Measured, once: ExplainedRun) -> Ensemble | None:
    """The ensemble of a run that was simulated `once` for each stage; None where that would take too long.

    `eased` are its causes without what hindered it. A stage that has no cause, or none that moved anything in the plain
    simulations, is not simulated: it is the one before. Raises what a simulation raises.
    """
    if sum(job.iterations * len(job.dag.steps) for job in stages.asked.jobs) > MOST_STEPS:
        return None
    on_time = computation = _members(stages, eased.on_time.without(links=True))
    if eased.late_s or eased.release_s:
        computation = _members(stages, eased.without(links=True))
    decisions = computation
    if eased is not causes and not _alike(once.unhindered_s, once.decisions_s):
        decisions = _members(stages, causes.without(links=True))
    links = decisions if causes.carried_Bps is None else _members(stages, causes)
    return Ensemble(on_time_s=on_time, computation_s=computation, decisions_s=decisions, links_s=links)


def _members(stages: Stages, measured: Measured) -> Members:
    """The iteration times of each job in all members."""
    found: dict[str, list[float]] = defaultdict(list)
    for times in _each(stages, measured):
        for job, time_s in times.items():
            found[job].append(time_s)
    return {job: tuple(times_s) for job, times_s in found.items()}


def _each(stages: Stages, measured: Measured) -> Iterator[Times]:
    for member in range(MEMBERS):
        yield stages.times(dataclasses.replace(stages.enforced, disturbance=Disturbance(member)), measured)


def _alike(one: Times, other: Times) -> bool:
    """Whether two simulations took the same course."""
    return all(abs(one[job] - other[job]) < _SAME_COURSE_S for job in one)
