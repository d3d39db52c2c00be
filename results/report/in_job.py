"""The printed table of how long flows waited inside their own jobs: where a job scheduler holds back what is ready."""

from __future__ import annotations

from collections.abc import Sequence

from results.analysis.summary import PolicyResult
from results.report.printed_column import MISSING, PrintedColumn, format_estimate, printed

IN_JOB_COLUMNS: tuple[PrintedColumn[PolicyResult], ...] = (
    PrintedColumn("policy", "", "Policy with its options.", lambda r: r.policy),
    PrintedColumn("job", "", "Name of the job.", lambda r: r.job),
    PrintedColumn(
        "held back", "%", "Share of its flows that its job scheduler held back after they were ready.",
        lambda r: MISSING if r.in_job_share is None else f"{r.in_job_share.median:.0%}",
    ),
    PrintedColumn(
        "waited", "s", "How long a flow waited inside the job from then until its release: mean over all of its flows.",
        lambda r: format_estimate(r.in_job_s),
    ),
)  # fmt: skip
"""The table of waits inside jobs."""


def held_back(results: Sequence[PolicyResult]) -> list[PolicyResult]:
    """The lines of that table: the jobs that held flows back."""
    return [result for result in results if result.in_job_s is not None]


def in_job_lines(results: Sequence[PolicyResult]) -> list[str]:
    """The table with its heading; nothing where no job held a flow back."""
    found = held_back(results)
    return ["waits inside jobs:", printed(IN_JOB_COLUMNS, found, "ll")] if found else []
