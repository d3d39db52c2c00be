"""What the charts of a report show, as plain data: results/report/static/report.js draws it.

Each function makes one chart: a mapping that can be written as JSON, with its `kind`, which names what draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

Chart = dict[str, Any]
"""`kind`, and what that kind needs; times in seconds, rates in Mbit/s."""

DIGITS = 6
"""Significant ones of a number in a page: more could not be seen, and would make it large."""


def short(value: float | None) -> float | None:
    """A number with `DIGITS` significant digits; None for what is none."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")


def rounded(values: Iterable[float], digits: int) -> list[float]:
    """Times with so many digits behind the point, for a whole chart alike."""
    return [round(float(value), digits) for value in values]


def digits_for(span_s: float) -> int:
    """How many digits behind the point tell a ten-thousandth of a hundredth of `span_s` apart."""
    return max(0, DIGITS - math.floor(math.log10(span_s))) if span_s > 0 and math.isfinite(span_s) else DIGITS


def spread(count: int, most: int) -> list[int]:
    """Places of at most `most` of `count` things, evenly, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]
