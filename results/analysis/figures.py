"""What one run says of one job, in a few numbers."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from echelonflow.model.dag import Job
from results.analysis.rows import GroupRow, IterationRow, RunRows, held_s


@dataclass(frozen=True, slots=True)
class JobFigures:
    """One run of one job in a few numbers, each a mean over its iterations: those that count, where not all do."""

    iteration_s: float
    """Mean duration of its iterations that count. Computed."""
    exposed_s: float
    """Mean exposed communication of the same. Computed."""
    tardiness_s: float | None
    """Mean tardiness of its EchelonFlows by their weights: the paper's objective over the sum of weights. Computed."""
    in_job_s: float | None = None
    """Mean time for which its own job held a flow back after it was ready; null where it held none. Computed."""
    in_job_share: float | None = None
    """Share of its flows that it held back; null where it held none. Computed."""


def job_figures(rows: RunRows, jobs: Sequence[Job]) -> dict[str, JobFigures]:
    """The figures of every job of which the run with these rows completed an iteration."""
    iterations: dict[str, list[IterationRow]] = defaultdict(list)
    groups: dict[str, list[GroupRow]] = defaultdict(list)
    for row in rows.iterations:
        iterations[row.job].append(row)
    for group_row in rows.groups:
        groups[group_row.job].append(group_row)
    held = held_s(rows.flows)
    found = {}
    for job in jobs:
        mine = iterations[job.name]
        if not mine:
            continue
        weight = {group.name: group.weight for group in job.dag.groups}
        late = [(row.tardiness_s, weight[row.group]) for row in groups[job.name] if row.tardiness_s is not None]
        found[job.name] = JobFigures(
            statistics.fmean(row.duration_s for row in mine),
            statistics.fmean(row.exposed_s for row in mine),
            sum(t * w for t, w in late) / sum(w for _, w in late) if late else None,
            *_in_job(*held.get(job.name, ([], 0))),
        )
    return found


def mean_figures(several: Sequence[JobFigures]) -> JobFigures:
    """The mean of each figure over runs of one job; of what is not known in all of them, over those in which it is."""
    return JobFigures(
        statistics.fmean(each.iteration_s for each in several),
        statistics.fmean(each.exposed_s for each in several),
        *(
            _mean_known([getattr(each, name) for each in several])
            for name in ("tardiness_s", "in_job_s", "in_job_share")
        ),
    )


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _in_job(waited_s: Sequence[float], flows: int) -> tuple[float | None, float | None]:
    """How long a job held its flows back, on average over all of them, and the share that it held back."""
    if not waited_s:
        return None, None
    return math.fsum(waited_s) / flows, len(waited_s) / flows
