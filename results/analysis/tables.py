"""Rows of runs.csv, jobs.csv, links.csv and blame.csv: which run it is, whether it counts, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from echelonflow.records.blame import Blame
from echelonflow.records.link_load import LinkLoad
from results.analysis.control_plane import ControlPlane
from results.analysis.measures import JobMeasures, RunMeasures
from results.analysis.rows import RunKey
from results.analysis.summary import RunResult


@dataclass(frozen=True, slots=True)
class JudgedRun(RunKey):
    """Which run a row belongs to, and whether it counts."""

    valid: bool
    """Whether the run kept all limits: only then does it count. Computed."""


@dataclass(frozen=True, slots=True)
class JudgedJob(JudgedRun):
    """Which job of which run a row belongs to."""

    job: str
    """Name of the job. From the experiment file."""


RUN_COLUMNS: tuple[type, ...] = (JudgedRun, RunMeasures, ControlPlane)
JOB_COLUMNS: tuple[type, ...] = (JudgedJob, JobMeasures)
LINK_COLUMNS: tuple[type, ...] = (JudgedRun, LinkLoad)
BLAME_COLUMNS: tuple[type, ...] = (JudgedRun, Blame)


def run_row(run: RunResult) -> Sequence[Any]:
    """The row of a run in runs.csv."""
    return _judged(run), run.together, run.control


def job_rows(run: RunResult) -> Iterator[Sequence[Any]]:
    """Its rows in jobs.csv."""
    for job, measures in run.measures.items():
        yield JudgedJob(run.policy, run.repeat, run.valid, job), measures


def link_rows(run: RunResult, links: Sequence[LinkLoad]) -> Iterator[Sequence[Any]]:
    """Its rows in links.csv."""
    for link in links:
        yield _judged(run), link


def blame_rows(run: RunResult) -> Iterator[Sequence[Any]]:
    """Its rows in blame.csv."""
    for blamed in run.blame:
        yield _judged(run), blamed


def _judged(run: RunResult) -> JudgedRun:
    return JudgedRun(run.policy, run.repeat, run.valid)
