"""Columns of tables that are printed, and how values stand in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from echelonflow.tables import text_table
from results.analysis.statistics import Estimate

MISSING = "-"
Row = TypeVar("Row")


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


@dataclass(frozen=True, slots=True)
class PrintedColumn(Generic[Row]):
    """A column of a printed table: its head, what it means, and its text for a row."""

    head: str
    unit: str
    meaning: str
    text: Callable[[Row], str]


def printed(columns: Sequence[PrintedColumn[Row]], rows: Sequence[Row], align: str) -> str:
    """The table of `rows`, in lines of text; `align` as `text_table` has it."""
    texts = [[column.text(row) for column in columns] for row in rows]
    return text_table([column.head for column in columns], texts, align=align)
