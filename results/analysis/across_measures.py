"""The measures by which policies are compared across runs: what each is called, and whether more of it is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from results.analysis.statistics import Estimate

_UNITS = MappingProxyType({"s": "s", "ms": "ms"})


@dataclass(frozen=True, slots=True)
class Measure:
    """What is known of a measure beside its numbers."""

    words: str
    """As in "its iteration time is shorter"."""
    unit: str
    """Empty for ratios, shares and counts."""
    of_run: bool
    """Whether it is of all jobs of a run together, and not of each."""
    more_is_better: bool

    @property
    def titled(self) -> str:
        """Its words with its unit."""
        return f"{self.words} ({self.unit})" if self.unit else self.words

    @property
    def less(self) -> str:
        """What it is where there is less of it."""
        return "shorter" if self.unit else "smaller"

    @property
    def more(self) -> str:
        """What it is where there is more of it."""
        return "longer" if self.unit else "larger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Every measure of one policy, over the runs that count; null where none of them says it."""

    iteration_s: Estimate | None = None
    """Mean iteration time of a run. Computed."""
    exposed_s: Estimate | None = None
    """Mean exposed communication of a run. Computed."""
    tardiness_s: Estimate | None = None
    """Mean tardiness of a run's EchelonFlows by weight. Computed."""
    completion_s: Estimate | None = None
    """Job completion time: null where the job did not come to its end. Computed."""
    iteration_median_s: Estimate | None = None
    """Median iteration time of a run. Computed."""
    iteration_p95_s: Estimate | None = None
    """95th percentile of a run's iteration times. Computed."""
    iteration_p99_s: Estimate | None = None
    """99th percentile of a run's iteration times. Computed."""
    slowdown: Estimate | None = None
    """Mean iteration time over the same of the job alone. Computed."""
    completion_slowdown: Estimate | None = None
    """Completion time over the same of the job alone. Computed."""
    gpu_share: Estimate | None = None
    """Share of time in which the job's GPUs computed. Computed."""
    tardiness_sum_s: Estimate | None = None
    """Weighted sum of the tardiness of the EchelonFlows of an iteration, the paper's objective. Computed."""
    jobs_mean_s: Estimate | None = None
    """Mean over jobs of their mean iteration time; this and what follows are of all jobs of a run together. Computed."""
    all_iterations_p95_s: Estimate | None = None
    """95th percentile of the iteration times of all jobs. Computed."""
    all_iterations_p99_s: Estimate | None = None
    """99th percentile of the iteration times of all jobs. Computed."""
    completion_mean_s: Estimate | None = None
    """Mean completion time of jobs. Computed."""
    slowdown_mean: Estimate | None = None
    """Mean over jobs of their slowdown. Computed."""
    slowdown_worst: Estimate | None = None
    """The largest slowdown of a job. Computed."""
    jain: Estimate | None = None
    """Jain's index of the jobs' slowdowns. Computed."""
    all_gpu_share: Estimate | None = None
    """Share of time in which GPUs computed, of all jobs. Computed."""
    all_tardiness_sum_s: Estimate | None = None
    """Sum over jobs of `tardiness_sum_s`. Computed."""
    to_gain_share: Estimate | None = None
    """What the best scheduler could still gain of `jobs_mean_s` at most, as a share. Computed."""
    link_mean_share: Estimate | None = None
    """Mean utilisation of links with traffic. Computed."""
    link_max_share: Estimate | None = None
    """Mean utilisation of the link that had most to carry. Computed."""
    messages: Estimate | None = None
    """Messages of agents that reached the controller. Computed."""
    decisions: Estimate | None = None
    """Decisions that the controller took. Computed."""
    decision_p50_ms: Estimate | None = None
    """Median time of a decision. Computed."""
    decision_p95_ms: Estimate | None = None
    """95th percentile of the times of decisions. Computed."""


_OF_JOBS: Mapping[str, str] = MappingProxyType(
    {
        "iteration_s": "iteration time",
        "exposed_s": "exposed communication",
        "tardiness_s": "tardiness",
        "completion_s": "completion time",
        "iteration_median_s": "median iteration time",
        "iteration_p95_s": "95th percentile of iteration times",
        "iteration_p99_s": "99th percentile of iteration times",
        "slowdown": "slowdown",
        "completion_slowdown": "slowdown of the completion",
        "gpu_share": "GPU utilisation",
        "tardiness_sum_s": "sum of tardiness",
    }
)
_OF_RUNS: Mapping[str, str] = MappingProxyType(
    {
        "jobs_mean_s": "mean iteration time of all jobs",
        "all_iterations_p95_s": "95th percentile of all iteration times",
        "all_iterations_p99_s": "99th percentile of all iteration times",
        "completion_mean_s": "mean completion time",
        "slowdown_mean": "mean slowdown",
        "slowdown_worst": "worst slowdown",
        "jain": "Jain's index",
        "all_gpu_share": "GPU utilisation of all jobs",
        "all_tardiness_sum_s": "sum of tardiness of all jobs",
        "to_gain_share": "share that a scheduler could still gain",
        "link_mean_share": "mean link utilisation",
        "link_max_share": "utilisation of the busiest link",
        "messages": "number of messages to the controller",
        "decisions": "number of decisions",
        "decision_p50_ms": "median decision time",
        "decision_p95_ms": "95th percentile of decision times",
    }
)
_MORE_IS_BETTER = frozenset({"gpu_share", "jain", "all_gpu_share"})
MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        name: Measure(words, _UNITS.get(name.rpartition("_")[2], ""), name in _OF_RUNS, name in _MORE_IS_BETTER)
        for name, words in (*_OF_JOBS.items(), *_OF_RUNS.items())
    }
)
"""By name, in the order of `Estimates`."""
FIRST = "iteration_s"
"""What is compared unless something else is asked for."""
