"""The printed table of all jobs together, a line for each policy: where an experiment has more than one job."""

from __future__ import annotations

from collections.abc import Sequence

from results.analysis.statistics import Estimate
from results.analysis.summary import Summary
from results.analysis.together import TogetherResult
from results.report.printed_column import MISSING, SECONDS, PrintedColumn, TimeUnit, plain, printed, timed


def _median(found: Estimate | None, form: str) -> str:
    return MISSING if found is None else format(found.median, form)


TOGETHER_COLUMNS: tuple[PrintedColumn[TogetherResult], ...] = (
    plain("policy", "", "Policy with its options.", lambda r: r.policy),
    timed("iteration", "Mean over jobs of their mean iteration time.", lambda r: r.iteration_s),
    timed("p95", "95th percentile of the iteration times of all jobs.", lambda r: _time(r.iterations_p95_s)),
    timed(
        "completion", "Mean over jobs of the time from their start to their end; a dash unless all came to it.",
        lambda r: _time(r.completion_s),
    ),
    plain(
        "slowdown", "", "Mean over jobs of their iteration time over that of the job alone.",
        lambda r: _median(r.slowdown, ".3f"),
    ),
    plain("worst", "", "The largest slowdown of a job.", lambda r: _median(r.slowdown_worst, ".3f")),
    plain("Jain", "", "Jain's index of the jobs' slowdowns; 1 is fair.", lambda r: _median(r.jain, ".3f")),
    plain("GPUs", "%", "Share of time in which GPUs computed.", lambda r: _median(r.gpu_share, ".1%")),
    timed(
        "sum of tardiness", "Weighted sum of the tardiness of all EchelonFlows of an iteration, of all jobs.",
        lambda r: _time(r.tardiness_sum_s),
    ),
    plain(
        "to gain", "%", "What any scheduler could still gain of `iteration` at most, by the bound.",
        lambda r: _median(r.to_gain_share, ".1%"),
    ),
)  # fmt: skip
"""The table of all jobs together."""

_BOUNDS = {
    "batch": "the whole batch, whatever the scheduler",
    "steady": "the pace that the jobs can keep up together for long",
    "alone": "each job alone, which is weak: a bound on all of them together would take too long",
}


def _time(found: Estimate | None) -> float | None:
    return None if found is None else found.median


def several_jobs(summary: Summary) -> bool:
    """Whether there is more than one job, and anything to tell of them together."""
    return any(result.jobs > 1 and result.iteration_s is not None for result in summary.together)


def bound_words(results: Sequence[TogetherResult]) -> str | None:
    """What the bound is that says how much is to gain, in words; None where there is none."""
    kind = next((result.bound_kind for result in results if result.bound_s is not None), None)
    return None if kind is None else f"to gain: below the bound of {_BOUNDS.get(kind, kind)}"


def together_lines(summary: Summary, unit: TimeUnit = SECONDS) -> list[str]:
    """The table with its heading; nothing of a single job."""
    if not several_jobs(summary):
        return []
    lines = ["all jobs together:", printed(TOGETHER_COLUMNS, summary.together, "l", unit)]
    words = bound_words(summary.together)
    return lines if words is None else [*lines, words]
