"""The printed table of where the time went: from the ideal, cause by cause, to what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from results.analysis.budget import JobBudget
from results.analysis.summary import PolicyResult
from results.report.printed_column import MISSING, PrintedColumn, format_seconds, format_share, printed


def format_part(part_s: float | None) -> str:
    """A part of an iteration: seconds to the millisecond, with their sign."""
    return MISSING if part_s is None else f"{part_s:+.3f}"


def _part(head: str, field: str, meaning: str) -> PrintedColumn[PolicyResult]:
    return PrintedColumn(
        head, "s", meaning, lambda r: format_part(None if r.budget is None else getattr(r.budget, field))
    )


def unexplained_share(budget: JobBudget | None) -> float | None:
    """What nothing explains, as a share of what the rest does."""
    if budget is None or budget.explained_s <= 0:
        return None
    return budget.unexplained_s / budget.explained_s


BUDGET_COLUMNS: tuple[PrintedColumn[PolicyResult], ...] = (
    PrintedColumn("policy", "", "Policy with its options.", lambda r: r.policy),
    PrintedColumn("job", "", "Name of the job.", lambda r: r.job),
    PrintedColumn(
        "ideal", "s", "Iteration time if nothing were late, decisions in force at once, and links what they declare.",
        lambda r: format_seconds(None if r.budget is None else r.budget.ideal_s),
    ),
    _part("+ computation", "computation_s", "What late computations added."),
    _part("+ decisions", "decisions_s", "What the time added that decisions and hand-overs took, and having few classes."),
    _part("+ links", "links_s", "What links added that carried other than they declare."),
    _part("unexplained", "unexplained_s", "What none of these explains."),
    PrintedColumn(
        "measured", "s", "Iteration time as measured: the sum. Of all these the mean over the valid runs.",
        lambda r: format_seconds(None if r.budget is None else r.budget.iteration_s),
    ),
    PrintedColumn(
        "off", "%", "`unexplained` as a share of what is explained.", lambda r: format_share(unexplained_share(r.budget))
    ),
)  # fmt: skip
"""The table of budgets."""


def budget_lines(results: Sequence[PolicyResult]) -> list[str]:
    """The table with its heading; nothing where no run was explained."""
    if not any(result.budget for result in results):
        return []
    return ["where the time went:", printed(BUDGET_COLUMNS, results, "ll"), "seconds of an iteration, means over runs"]
