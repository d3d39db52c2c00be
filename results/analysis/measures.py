"""What a run says of each of its jobs, and of all together, beyond its means (docs/measures.md has the definitions).

Everything is over the iterations that count.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats
from echelonflow.model.counting import Counted
from echelonflow.model.dag import Job
from echelonflow.records.run_columns import ComputeColumns
from echelonflow.records.run_record import ComputeRecord, RunRecord
from echelonflow.records.yardsticks import Yardsticks
from results.analysis.rows import IterationRow, RunRows
from results.analysis.statistics import quantile


@dataclass(frozen=True, slots=True)
class JobMeasures:
    """One job in one run, over its iterations that count."""

    iterations: int
    """Number of its iterations that count. Computed."""
    iteration_s: float
    """Their mean duration. Computed."""
    iteration_median_s: float
    """Their median duration. Computed."""
    iteration_p95_s: float
    """The 95th percentile of their durations. Computed."""
    iteration_p99_s: float
    """The 99th percentile of their durations. Computed."""
    exposed_s: float
    """Their mean exposed communication. Computed."""
    completion_s: float | None
    """From the start of the job to the end of its last iteration, counted or not; empty if it did not come to that. Computed."""
    alone_s: float | None
    """Mean duration of the same iterations if the job had the network to itself, under fair sharing. From yardsticks.json."""
    slowdown: float | None
    """`iteration_s` over `alone_s`. Computed."""
    completion_slowdown: float | None
    """`completion_s` over the same of the job alone. Computed."""
    gpu_share: float | None
    """Share of time in which its GPUs computed, mean over its ranks. Computed."""
    tardiness_sum_s: float | None
    """Sum over the job's EchelonFlows of weight times tardiness, mean over iterations: the paper's objective. Computed."""


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """All jobs of one run together."""

    jobs: int
    """Number of jobs of which an iteration counts. Computed."""
    jobs_mean_s: float
    """Mean over jobs of their mean iteration time. Computed."""
    jobs_median_s: float
    """Median over jobs of the same. Computed."""
    jobs_p95_s: float
    """95th percentile over jobs of the same. Computed."""
    jobs_p99_s: float
    """99th percentile over jobs of the same. Computed."""
    iterations: int
    """Number of iterations that count, of all jobs together. Computed."""
    iterations_mean_s: float
    """Mean duration of all these iterations. Computed."""
    iterations_median_s: float
    """Their median duration. Computed."""
    iterations_p95_s: float
    """The 95th percentile of their durations. Computed."""
    iterations_p99_s: float
    """The 99th percentile of their durations. Computed."""
    completion_mean_s: float | None
    """Mean completion time of jobs; empty unless all came to their end. Computed."""
    completion_median_s: float | None
    """Median of the same. Computed."""
    completion_p95_s: float | None
    """95th percentile of the same. Computed."""
    completion_p99_s: float | None
    """99th percentile of the same. Computed."""
    slowdown_mean: float | None
    """Mean over jobs of their slowdown. Computed."""
    slowdown_worst: float | None
    """The largest slowdown. Computed."""
    slowdown_worst_job: str | None
    """The job that has it. Computed."""
    jain: float | None
    """Jain's index of the jobs' slowdowns: 1 where all are slowed down alike, 1 / jobs where one bears all. Computed."""
    gpu_share: float | None
    """Share of time in which GPUs computed, of all ranks of all jobs while their jobs ran. Computed."""
    tardiness_sum_s: float | None
    """Sum over jobs of `tardiness_sum_s`. Computed."""
    bound_s: float | None
    """What `jobs_mean_s` cannot be below, whatever the scheduler. From yardsticks.json."""
    bound_kind: str | None
    """What kind of bound it is: `batch`, `steady` or `alone`. From yardsticks.json."""
    to_gain_share: float | None
    """What the best scheduler could still gain at most: 1 less `bound_s` over `jobs_mean_s`. Computed."""


def job_measures(
    record: RunRecord, rows: RunRows, jobs: Sequence[Job], counted: Counted, yardsticks: Yardsticks
) -> dict[str, JobMeasures]:
    """The measures of every job of which an iteration counts; `rows` are all rows of the run."""
    iterations: dict[str, list[IterationRow]] = defaultdict(list)
    for row in rows.iterations:
        iterations[row.job].append(row)
    late_s = _tardiness(rows, jobs, counted)
    windows = {
        name: (iterations[name][mine[0]].start_s, iterations[name][mine[-1]].finish_s) for name, mine in counted.items()
    }
    computed_s = _computed_s(record.computes, windows)
    found = {}
    for job in jobs:
        mine = counted.get(job.name)
        if not mine:
            continue
        lasts_s = [iterations[job.name][k].duration_s for k in mine]
        exposed_s = statistics.fmean(iterations[job.name][k].exposed_s for k in mine)
        whole = len(iterations[job.name]) == job.iterations
        completion_s = iterations[job.name][-1].finish_s - job.start_s if whole else None
        each_alone_s = yardsticks.alone_s.get(job.name, ())
        known = len(each_alone_s) == job.iterations
        alone_s = statistics.fmean(each_alone_s[k] for k in mine) if known else None
        begin_s, end_s = windows[job.name]
        found[job.name] = JobMeasures(
            iterations=len(mine),
            iteration_s=statistics.fmean(lasts_s),
            iteration_median_s=statistics.median(lasts_s),
            iteration_p95_s=_quantile(lasts_s, 0.95),
            iteration_p99_s=_quantile(lasts_s, 0.99),
            exposed_s=exposed_s,
            completion_s=completion_s,
            alone_s=alone_s,
            slowdown=_over(statistics.fmean(lasts_s), alone_s),
            completion_slowdown=_over(completion_s, sum(each_alone_s) if known else None),
            gpu_share=_over(computed_s[job.name], job.dag.ranks * (end_s - begin_s)),
            tardiness_sum_s=late_s[job.name] / len(mine) if job.name in late_s else None,
        )
    return found


def run_measures(
    measures: Mapping[str, JobMeasures],
    rows: RunRows,
    jobs: Sequence[Job],
    counted: Counted,
    yardsticks: Yardsticks,
) -> RunMeasures | None:
    """All jobs together, of which `measures` are those of each; None where no iteration counts."""
    if not measures:
        return None
    means_s = [each.iteration_s for each in measures.values()]
    lasts_s = [row.duration_s for row in rows.iterations if row.iteration in counted.get(row.job, ())]
    completions_s = [each.completion_s for each in measures.values() if each.completion_s is not None]
    if len(completions_s) < sum(not job.is_background for job in jobs):
        completions_s = []
    slowdowns = {name: each.slowdown for name, each in measures.items() if each.slowdown is not None}
    if len(slowdowns) < len(measures):
        slowdowns = {}
    worst = max(slowdowns, key=slowdowns.__getitem__, default=None)
    late_s = [each.tardiness_sum_s for each in measures.values() if each.tardiness_sum_s is not None]
    ranks = {job.name: job.dag.ranks for job in jobs}
    held = [
        (each.gpu_share, ranks[name] * each.iterations * each.iteration_s)
        for name, each in measures.items()
        if each.gpu_share is not None
    ]
    mean_s = statistics.fmean(means_s)
    # A bound on all jobs says nothing of some.
    bound_s = yardsticks.bound_s if len(measures) == len(jobs) else None
    return RunMeasures(
        jobs=len(measures),
        jobs_mean_s=mean_s,
        jobs_median_s=statistics.median(means_s),
        jobs_p95_s=_quantile(means_s, 0.95),
        jobs_p99_s=_quantile(means_s, 0.99),
        iterations=len(lasts_s),
        iterations_mean_s=statistics.fmean(lasts_s),
        iterations_median_s=statistics.median(lasts_s),
        iterations_p95_s=_quantile(lasts_s, 0.95),
        iterations_p99_s=_quantile(lasts_s, 0.99),
        completion_mean_s=statistics.fmean(completions_s) if completions_s else None,
        completion_median_s=quantile(completions_s, 0.5),
        completion_p95_s=quantile(completions_s, 0.95),
        completion_p99_s=quantile(completions_s, 0.99),
        slowdown_mean=statistics.fmean(slowdowns.values()) if slowdowns else None,
        slowdown_worst=None if worst is None else slowdowns[worst],
        slowdown_worst_job=worst,
        jain=jain(list(slowdowns.values())),
        gpu_share=_over(sum(share * held_s for share, held_s in held), sum(held_s for _, held_s in held)),
        tardiness_sum_s=sum(late_s) if late_s else None,
        bound_s=bound_s,
        bound_kind=None if bound_s is None else yardsticks.bound_kind,
        to_gain_share=None if bound_s is None or mean_s <= 0 else 1 - bound_s / mean_s,
    )


def jain(values: Sequence[float]) -> float | None:
    """Jain's fairness index (DEC-TR-301, 1984): the square of the sum over n times the sum of squares; None of none."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def _quantile(values: Sequence[float], q: float) -> float:
    return float(np.quantile(np.asarray(values), q))


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or whole is None or whole <= 0 else part / whole


def _tardiness(rows: RunRows, jobs: Sequence[Job], counted: Counted) -> dict[str, float]:
    """By job, the sum of weight times tardiness of its groups in iterations that count; jobs without groups are left out."""
    weight = {(job.name, group.name): group.weight for job in jobs for group in job.dag.groups}
    found: dict[str, float] = defaultdict(float)
    for row in rows.groups:
        if row.tardiness_s is not None and row.iteration in counted.get(row.job, ()):
            found[row.job] += weight[row.job, row.group] * row.tardiness_s
    return found


def _computed_s(computes: Sequence[ComputeRecord], windows: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """By job, the time that its ranks computed within its window, all ranks together."""
    names = list(windows)
    job, start_s, finish_s = _compute_times(computes, {name: place for place, name in enumerate(names)})
    begin_s, end_s = np.array([windows[name] for name in names]).T if names else (np.zeros(0), np.zeros(0))
    inside = job >= 0
    job, start_s, finish_s = job[inside], start_s[inside], finish_s[inside]
    took_s = np.minimum(finish_s, end_s[job]) - np.maximum(start_s, begin_s[job])
    sums_s = np.bincount(job, weights=np.maximum(took_s, 0.0), minlength=len(names))
    return dict(zip(names, sums_s.tolist(), strict=True))


def _compute_times(computes: Sequence[ComputeRecord], place: Mapping[str, int]) -> tuple[np.ndarray, Floats, Floats]:
    """Place of the job, start and end of every computation; by how much it was noticed late is left away."""
    if isinstance(computes, ComputeColumns):
        of_step = np.array([place.get(step.job, -1) for step in computes.steps], np.int64)
        return of_step[computes.step], computes.start_s, computes.finish_s - computes.late_s
    job = np.array([place.get(each.job, -1) for each in computes], np.int64)
    times_s = np.array([(each.start_s, each.finish_s - each.late_s) for each in computes], np.float64).reshape(-1, 2)
    return job, times_s[:, 0], times_s[:, 1]
