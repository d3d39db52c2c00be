"""Rows of arrivals.csv: every job of a run from its arrival to its end; and completion times of all jobs under a policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.dag import Job
from echelonflow.records.run_record import RunRecord
from results.analysis.rows import IterationRow, RunKey


@dataclass(frozen=True, slots=True)
class ArrivalRow(RunKey):
    """One job in one run, from its arrival to its end."""

    job: str
    """Name of the job. From the experiment file."""
    ranks: int
    """How many ranks it has, each of which needs a GPU. From the paradigm."""
    hosts: int
    """On how many hosts they ran. From the job's placement, or where it was placed when there was room."""
    arrival_s: float
    """When it arrived: its `start`, stated or drawn. From the experiment file."""
    start_s: float
    """When it began: later than its arrival where it waited for GPUs. From runs.json."""
    end_s: float | None
    """When its last iteration ended; empty where that never did. From the agents' logs."""
    waited_s: float
    """`start_s` less `arrival_s`. Computed."""
    completion_s: float | None
    """Job completion time: `end_s` less `arrival_s`. Computed."""


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """Jobs under one policy, from their arrivals to their ends, over its valid runs."""

    policy: str
    """Policy with its options. From the experiment file."""
    jobs: int
    """Number of jobs that came to their end, over all runs. Computed."""
    average_s: float
    """Average job completion time. Computed."""
    median_s: float
    """Median of the same. Computed."""
    p95_s: float
    """95th percentile of the same. Computed."""
    p99_s: float
    """99th percentile of the same. Computed."""
    waited_s: float
    """Average time that jobs waited for GPUs. Computed."""
    end_s: float
    """When the last job ended, on average over runs. Computed."""
    normalised: float
    """`average_s` over that of the first policy. Computed."""


def arrival_rows(record: RunRecord, jobs: Sequence[Job], iterations: Sequence[IterationRow]) -> list[ArrivalRow]:
    """All jobs as they ran; `iterations` are the rows of those that have ended."""
    ends_s: dict[str, list[float]] = defaultdict(list)
    for row in iterations:
        ends_s[row.job].append(row.finish_s)
    rows = []
    for job in jobs:
        if job.is_background:
            continue
        admitted, mine = record.admitted.get(job.name), ends_s[job.name]
        arrival_s = job.start_s if admitted is None else admitted.arrival_s
        end_s = mine[-1] if len(mine) == job.iterations else None
        rows.append(
            ArrivalRow(
                record.policy, record.repeat, job.name, job.dag.ranks, len(set(job.placement)), arrival_s, job.start_s,
                end_s, job.start_s - arrival_s, None if end_s is None else end_s - arrival_s,
            )
        )  # fmt: skip
    return rows


def completion_results(runs: Sequence[Sequence[ArrivalRow]], policies: Sequence[str]) -> list[CompletionResult]:
    """One per policy of which a job came to its end; `runs` are those that count. None where all jobs arrive at once."""
    if len({row.arrival_s for run in runs for row in run}) < 2:
        return []
    found: list[CompletionResult] = []
    for policy in policies:
        mine = [[row for row in run if row.end_s is not None] for run in runs if run and run[0].policy == policy]
        rows = [row for run in mine for row in run]
        took_s = np.array([row.completion_s for row in rows], np.float64)
        if not len(took_s):
            continue
        average_s = float(took_s.mean())
        first_s = found[0].average_s if found else average_s
        median_s, p95_s, p99_s = np.percentile(took_s, (50, 95, 99)).tolist()
        found.append(
            CompletionResult(
                policy, len(rows), average_s, median_s, p95_s, p99_s,
                waited_s=float(np.mean([row.waited_s for row in rows])),
                end_s=float(np.mean([max(row.end_s or 0.0 for row in run) for run in mine if run])),
                normalised=average_s / first_s if first_s > 0 else 1.0,
            )
        )  # fmt: skip
    return found
