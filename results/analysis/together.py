"""One policy on all jobs together, over its valid runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from echelonflow.records.yardsticks import Yardsticks
from results.analysis.measures import RunMeasures
from results.analysis.statistics import Estimate, estimate


@dataclass(frozen=True, slots=True)
class TogetherResult:
    """One policy on all jobs over the valid runs; estimates are null where there is nothing to estimate them from."""

    policy: str
    """Policy with its options. From the experiment file."""
    jobs: int
    """Number of jobs. From the experiment file."""
    iteration_s: Estimate | None
    """Mean over jobs of their mean iteration time. Computed."""
    iterations_p95_s: Estimate | None
    """95th percentile over the iterations of all jobs. Computed."""
    completion_s: Estimate | None
    """Mean completion time over jobs. Computed."""
    slowdown: Estimate | None
    """Mean over jobs of their slowdown against running alone. Computed."""
    slowdown_worst: Estimate | None
    """The largest slowdown of a job. Computed."""
    jain: Estimate | None
    """Jain's index of the jobs' slowdowns. Computed."""
    gpu_share: Estimate | None
    """Share of time in which GPUs computed. Computed."""
    tardiness_sum_s: Estimate | None
    """Sum over jobs of the weighted sum of their EchelonFlows' tardiness in an iteration. Computed."""
    to_gain_share: Estimate | None
    """What the best scheduler could still gain of `iteration_s` at most, as a share. Computed."""
    bound_s: float | None
    """What `iteration_s` cannot be below. From yardsticks.json."""
    bound_kind: str | None
    """What kind of bound it is: `batch`, `steady` or `alone`. From yardsticks.json."""


def together_result(policy: str, jobs: int, valid: Sequence[RunMeasures], yardsticks: Yardsticks) -> TogetherResult:
    """The result of a policy whose `valid` runs have these measures."""

    def over_runs(name: str) -> Estimate | None:
        values = [getattr(each, name) for each in valid]
        return estimate([value for value in values if value is not None])

    return TogetherResult(
        policy=policy,
        jobs=jobs,
        iteration_s=over_runs("jobs_mean_s"),
        iterations_p95_s=over_runs("iterations_p95_s"),
        completion_s=over_runs("completion_mean_s"),
        slowdown=over_runs("slowdown_mean"),
        slowdown_worst=over_runs("slowdown_worst"),
        jain=over_runs("jain"),
        gpu_share=over_runs("gpu_share"),
        tardiness_sum_s=over_runs("tardiness_sum_s"),
        to_gain_share=over_runs("to_gain_share"),
        bound_s=yardsticks.bound_s,
        bound_kind=yardsticks.bound_kind,
    )
