"""The printed table of blame: what each job's mean iteration was spent on, and whom it waited for most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from echelonflow.records.blame import Cause
from results.analysis.summary import PolicyResult
from results.report.printed_column import (
    MISSING,
    SECONDS,
    PrintedColumn,
    TimeUnit,
    format_seconds,
    plain,
    printed,
    timed,
)


def spent_s(result: PolicyResult, cause: Cause) -> float | None:
    """Seconds of the job's mean iteration that went to a cause; None where nobody found out."""
    return sum(each.blamed_s for each in result.blame if each.cause == cause) if result.blame else None


def most_waited_for(result: PolicyResult) -> tuple[str, float] | None:
    """The job that was waited for longest, on the link where that was longest, and how long; None where none was."""
    of_job: dict[str, float] = defaultdict(float)
    for each in result.blame:
        if each.cause == "other job":
            of_job[each.other] += each.blamed_s
    if not of_job:
        return None
    job = max(of_job, key=of_job.__getitem__)
    link = max((each for each in result.blame if each.other == job), key=lambda each: each.blamed_s).link
    return f"{job} on {link}", of_job[job]


def _cause(head: str, cause: Cause, meaning: str) -> PrintedColumn[PolicyResult]:
    return timed(head, meaning, lambda r: spent_s(r, cause))


def _most(result: PolicyResult, unit: TimeUnit) -> str:
    found = most_waited_for(result)
    return MISSING if found is None else f"{format_seconds(found[1], unit)} for {found[0]}"


BLAME_COLUMNS: tuple[PrintedColumn[PolicyResult], ...] = (
    plain("policy", "", "Policy with its options.", lambda r: r.policy),
    plain("job", "", "Name of the job.", lambda r: r.job),
    _cause("computing", "computation", "Its own computation on the critical path."),
    _cause("sending", "communication", "What its flows there would have taken alone."),
    _cause("other jobs", "other job", "Waiting behind flows of other jobs."),
    _cause("own flows", "own flows", "Waiting behind other flows of its own."),
    _cause("own scheduler", "job scheduler", "Held back by its own job scheduler."),
    _cause("enforcement", "enforcement", "Kept from what nobody used: by the time of decisions, pacing, few classes, or a fault."),
    _cause("unexplained", "unexplained", "What the simulation that explains the run leaves unexplained."),
    timed(
        "iteration", "The sum: the mean iteration time.",
        lambda r: sum(each.blamed_s for each in r.blame) if r.blame else None,
    ),
    PrintedColumn("most", "s", "The job that was waited for longest, and on which link most of that.", _most),
)  # fmt: skip
"""The table of blame."""


def blame_lines(results: Sequence[PolicyResult], unit: TimeUnit = SECONDS) -> list[str]:
    """The table with its heading; nothing where nobody found out."""
    if not any(result.blame for result in results):
        return []
    return [
        "on the critical path:",
        printed(BLAME_COLUMNS, results, "ll", unit),
        f"{unit.words} of a mean iteration, which they add up to; blame.csv has each job and link",
    ]
