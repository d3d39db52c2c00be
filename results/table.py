"""The plain-text table that ends a run on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from results.coflows import table_rows
from results.statistics import Estimate
from results.summary import PolicyResult, Summary

_HEAD = ("policy", "job", "iteration", "exposed", "tardiness", "predicted", "off", "speed-up", "valid")
_LEFT_COLUMNS = 2
MISSING = "-"


def format_seconds(value_s: float | None) -> str:
    """Seconds to the millisecond, a dash where there is no value."""
    return MISSING if value_s is None else f"{value_s:.3f}"


def format_estimate(found: Estimate | None) -> str:
    """Median and interval, such as "8.51 [8.48, 8.55]"; no interval from a single run."""
    if found is None:
        return MISSING
    if found.low is None:
        return format_seconds(found.median)
    return f"{format_seconds(found.median)} [{format_seconds(found.low)}, {format_seconds(found.high)}]"


def format_share(value: float | None) -> str:
    """A signed difference in per cent."""
    return MISSING if value is None else f"{value:+.1%}"


def cells(result: PolicyResult) -> tuple[str, ...]:
    """One row of the table, one text per column."""
    return (
        result.policy,
        result.job,
        format_estimate(result.iteration_s),
        format_estimate(result.exposed_s),
        format_estimate(result.tardiness_s),
        format_seconds(result.predicted.iteration_s if result.predicted else None),
        format_share(result.iteration_difference),
        MISSING if result.speedup is None else f"{result.speedup:.3f}",
        f"{result.valid_runs}/{result.runs}",
    )


def summary_table(summary: Summary) -> str:
    """All results of an experiment in lines of text, with the verdict below them."""
    simulated = summary.backend == "fluid"
    title = f"{summary.name}{' (simulated)' if simulated else ''}:"
    if summary.coflows:
        lines = _aligned(table_rows(summary.coflows), left_columns=1)
        lines.append(
            "Coflow completion times in seconds, simulated (fluid), no packets were sent; /1st: over the first policy's"
        )
    else:
        lines = _aligned([_HEAD, *(cells(result) for result in summary.results)], _LEFT_COLUMNS)
        source = "simulated (fluid), no packets were sent" if simulated else "measured on emulated links"
        several = any(r.iteration_s is not None and r.iteration_s.low is not None for r in summary.results)
        note = "; medians over runs [95 % interval]" if several else ""
        lines.append(
            f"seconds, {source}{note}; predicted: iteration by fluid simulation; speed-up over the first policy"
        )
    if not summary.valid:
        lines += ["verdict: INVALID", *(f"  - {reason}" for reason in summary.reasons)]
    else:
        lines.append(f"verdict: {'simulated' if simulated else 'valid'}")
    return "\n".join([title, *lines])


def _aligned(rows: Sequence[Sequence[str]], left_columns: int) -> list[str]:
    """Rows of text in columns, a line below the first."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            text.ljust(width) if i < left_columns else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines
