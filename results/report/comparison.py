"""The printed table of policies compared pair by pair, and what would narrow its intervals."""

from __future__ import annotations

from collections.abc import Sequence

from echelonflow.printable import printable
from results.analysis.paired import MOST_PAIRS, NARROW, Comparison
from results.report.printed_column import SECONDS, PrintedColumn, TimeUnit, format_estimate, plain, printed, timed

COMPARISON_COLUMNS: tuple[PrintedColumn[Comparison], ...] = (
    plain("policy", "", "Policy with its options.", lambda r: r.policy),
    plain("job", "", "Name of the job.", lambda r: r.job),
    timed(
        "iteration", "Iteration time less the other policy's: median over pairs, and the 95 % interval of the mean.",
        lambda r: r.iteration_difference_s, signed=True,
    ),
    timed(
        "exposed", "Exposed communication less the other policy's.", lambda r: r.exposed_difference_s, signed=True
    ),
    plain(
        "speed-up", "", "Iteration time of the other policy over that of this one, pair by pair.",
        lambda r: format_estimate(r.speedup),
    ),
    plain("pairs", "", "Pairs of valid runs that were neighbours in time.", lambda r: str(r.pairs)),
)  # fmt: skip
"""The table of comparisons."""


def narrowing_lines(comparisons: Sequence[Comparison]) -> list[str]:
    """In words, which intervals are wide or do not tell policies apart, and how many repeats would narrow them."""
    return [words for found in comparisons if (words := _narrowing(found)) is not None]


def _narrowing(found: Comparison) -> str | None:
    interval, narrow_s = found.iteration_difference_s, found.narrow_s
    if not found.wide or interval is None or interval.low is None or interval.high is None or narrow_s is None:
        return None
    if found.undecided:
        told = f"{found.pairs} pairs do not tell which is faster"
    else:
        told = f"{found.pairs} pairs tell the difference to ±{(interval.high - interval.low) / 2 / narrow_s * NARROW:.1%} of an iteration"
    if found.pairs_to_be_narrow is None:
        enough = f"more than {MOST_PAIRS} would be needed for ±{NARROW:.0%}: the machine is not quiet enough"
    else:
        enough = f"about {found.pairs_to_be_narrow} (--repeat) would tell it to ±{NARROW:.0%}"
    return f"{found.policy} against {found.against} on {found.job}: {told}; {enough}"


def comparison_lines(comparisons: Sequence[Comparison], unit: TimeUnit = SECONDS) -> list[str]:
    """The table with its heading, and what would narrow it; nothing where there is no pair."""
    if not any(found.pairs for found in comparisons):
        return []
    head = f"compared with {printable(comparisons[0].against)}, pair by pair:"
    note = (
        f"differences in {unit.words}: medians over pairs [95 % interval of the mean]; a pair is two runs of one repeat"
    )
    return [
        head,
        printed(COMPARISON_COLUMNS, comparisons, "ll", unit),
        note,
        *(printable(words) for words in narrowing_lines(comparisons)),
    ]
