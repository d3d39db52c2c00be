"""The printed table of how long flows waited inside their own jobs: where a job scheduler holds back what is ready."""

from __future__ import annotations

from collections.abc import Sequence

from results.analysis.summary import PolicyResult
from results.report.printed_column import MISSING, SECONDS, PrintedColumn, TimeUnit, plain, printed, timed

IN_JOB_COLUMNS: tuple[PrintedColumn[PolicyResult], ...] = (
    plain("policy", "", "Policy with its options.", lambda r: r.policy),
    plain("job", "", "Name of the job.", lambda r: r.job),
    plain(
        "held back", "%", "Share of its flows that its job scheduler held back after they were ready.",
        lambda r: MISSING if r.in_job_share is None else f"{r.in_job_share.median:.0%}",
    ),
    timed(
        "waited", "How long a flow waited inside the job from then until its release: mean over all of its flows.",
        lambda r: r.in_job_s,
    ),
)  # fmt: skip
"""The table of waits inside jobs."""


def held_back(results: Sequence[PolicyResult]) -> list[PolicyResult]:
    """The lines of that table: the jobs that held flows back."""
    return [result for result in results if result.in_job_s is not None]


def in_job_lines(results: Sequence[PolicyResult], unit: TimeUnit = SECONDS) -> list[str]:
    """The table with its heading; nothing where no job held a flow back."""
    found = held_back(results)
    return ["waits inside jobs:", printed(IN_JOB_COLUMNS, found, "ll", unit)] if found else []
