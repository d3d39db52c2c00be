"""The printed table of where the time went: from the ideal, cause by cause, to what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from results.analysis.budget import JobBudget
from results.analysis.summary import PolicyResult
from results.report.printed_column import SECONDS, PrintedColumn, TimeUnit, format_share, plain, printed, timed

_SCATTER = "scatter"
"""The column that is there only where something hangs on chance."""


def _part(head: str, field: str, meaning: str) -> PrintedColumn[PolicyResult]:
    return timed(head, meaning, lambda r: None if r.budget is None else getattr(r.budget, field), signed=True)


def unexplained_share(budget: JobBudget | None) -> float | None:
    """What nothing explains, as a share of what the rest does."""
    if budget is None or budget.explained_s <= 0:
        return None
    return budget.unexplained_s / budget.explained_s


BUDGET_COLUMNS: tuple[PrintedColumn[PolicyResult], ...] = (
    plain("policy", "", "Policy with its options.", lambda r: r.policy),
    plain("job", "", "Name of the job.", lambda r: r.job),
    timed(
        "ideal", "Iteration time if nothing were late, decisions in force at once, and links what they declare.",
        lambda r: None if r.budget is None else r.budget.ideal_s,
    ),
    _part("+ computation", "computation_s", "What late computations added."),
    _part("+ decisions", "decisions_s", "What was added by the time of decisions and hand-overs, few classes, and orders that came out otherwise."),
    _part("+ acks", "acknowledgements_s", "What acknowledgements added, which take their part of the links."),
    _part("+ links", "links_s", "What links added that carried other than they declare."),
    _part("unexplained", "unexplained_s", "What none of these explains."),
    timed(
        "measured", "Iteration time as measured: the sum. Of all these the mean over the valid runs.",
        lambda r: None if r.budget is None else r.budget.iteration_s,
    ),
    plain(
        "off", "%", "`unexplained` as a share of what is explained.", lambda r: format_share(unexplained_share(r.budget))
    ),
    plain(
        _SCATTER, "%", "How far iterations scatter by chance, either way, in the simulations that tell causes from it; empty where one simulation does.",
        lambda r: "" if r.scatter is None else f"±{r.scatter:.1%}",
    ),
)  # fmt: skip
"""The table of budgets."""


def budget_lines(results: Sequence[PolicyResult], unit: TimeUnit = SECONDS) -> list[str]:
    """The table with its heading; nothing where no run was explained."""
    if not any(result.budget for result in results):
        return []
    columns = [column for column in BUDGET_COLUMNS if column.head != _SCATTER or chance_lines(results)]
    table = printed(columns, results, "ll", unit)
    return ["where the time went:", table, f"{unit.words} of an iteration, means over runs"]


def chance_lines(results: Sequence[PolicyResult]) -> list[str]:
    """Which jobs hang on chance under which policies, and by how many simulations they were judged; nothing where none does."""
    lines = []
    for policy in dict.fromkeys(result.policy for result in results):
        hang = [r for r in results if r.policy == policy and r.scatter is not None]
        if hang:
            jobs = ", ".join(result.job for result in hang)
            most = max(result.scatter for result in hang if result.scatter is not None)
            number = max(result.simulations for result in hang if result.simulations is not None)
            many, up_to = len(hang) > 1, "up to " if len(hang) > 1 else ""
            lines.append(
                f"{policy}: {'jobs' if many else 'job'} {jobs} {'hang' if many else 'hangs'} on chance: iterations scatter by {up_to}±{most:.1%}; "
                f"judged by {number} simulations of each cause"
            )
    return lines
