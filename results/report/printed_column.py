"""Columns of tables that are printed, and how values stand in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from echelonflow.tables import text_table
from results.analysis.statistics import Estimate

MISSING = "-"
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """In what times are printed."""

    name: str
    words: str
    of_a_second: float
    """How many of it are a second."""


SECONDS = TimeUnit("s", "seconds", 1.0)
_UNITS = (SECONDS, TimeUnit("ms", "milliseconds", 1e3), TimeUnit("us", "microseconds", 1e6))
_LEAST_PRINTED = 0.1
"""Of three decimals: what is smaller has fewer than three digits."""


def unit_for(times_s: Iterable[float | None]) -> TimeUnit:
    """The largest unit in which the shortest of these times still has three digits; times of 0, or that are missing, do not count."""
    least_s = min((time_s for time_s in times_s if time_s is not None and time_s > 0), default=1.0)
    return next((unit for unit in _UNITS if least_s * unit.of_a_second >= _LEAST_PRINTED), _UNITS[-1])


def format_seconds(value_s: float | None, unit: TimeUnit = SECONDS, *, signed: bool = False) -> str:
    """A time with three decimals, a dash where there is none."""
    if value_s is None:
        return MISSING
    return f"{value_s * unit.of_a_second:{'+' if signed else ''}.3f}"


def format_estimate(found: Estimate | None, unit: TimeUnit = SECONDS, *, signed: bool = False) -> str:
    """Median and interval, such as "8.510 [8.480, 8.550]"; no interval from a single run."""
    if found is None:
        return MISSING
    median, low, high = (format_seconds(one, unit, signed=signed) for one in (found.median, found.low, found.high))
    return median if found.low is None or found.high is None else f"{median} [{low}, {high}]"


def format_share(value: float | None) -> str:
    """A signed difference in per cent."""
    return MISSING if value is None else f"{value:+.1%}"


@dataclass(frozen=True, slots=True)
class PrintedColumn(Generic[Row]):
    """A column of a printed table: its head, what it means, and its text for a row in a unit of time."""

    head: str
    unit: str
    meaning: str
    text: Callable[[Row, TimeUnit], str]


def plain(head: str, unit: str, meaning: str, text: Callable[[Row], str]) -> PrintedColumn[Row]:
    """A column that is no time."""
    return PrintedColumn(head, unit, meaning, lambda row, _: text(row))


def timed(
    head: str, meaning: str, value: Callable[[Row], Estimate | float | None], *, signed: bool = False
) -> PrintedColumn[Row]:
    """A column of times, `signed` where they are differences; in seconds, or the unit of the table."""

    def text(row: Row, unit: TimeUnit) -> str:
        found = value(row)
        if isinstance(found, Estimate):
            return format_estimate(found, unit, signed=signed)
        return format_seconds(found, unit, signed=signed)

    return PrintedColumn(head, "s", meaning, text)


def printed(columns: Sequence[PrintedColumn[Row]], rows: Sequence[Row], align: str, unit: TimeUnit = SECONDS) -> str:
    """The table of `rows`, in lines of text, times in `unit`; `align` as `text_table` has it."""
    texts = [[column.text(row, unit) for column in columns] for row in rows]
    return text_table([column.head for column in columns], texts, align=align)
