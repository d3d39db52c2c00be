"""What was varied in runs that are compared, and what policies come to at each value, over all else."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from echelonflow.errors import InputError
from echelonflow.model.units import parse_duration_s, parse_rate_bps, parse_size_bytes
from results.analysis.across import Across, Comparisons
from results.analysis.across_measures import MEASURES

BACKEND = "backend"
"""The axis that tells simulated runs from those on packets, where there are both."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Something that was varied: its path in the experiment file, and its values in their order, as texts."""

    path: str
    values: Sequence[str]


def axes_of(rows: Sequence[Across]) -> list[Axis]:
    """Everything that differs between `rows` but for policies and jobs."""
    paths = list(rows[0].settings) if rows else []
    if len({row.backend for row in rows}) > 1:
        paths.append(BACKEND)
    return [Axis(path, in_order([value_at(row, path) for row in rows])) for path in paths]


def value_at(row: Across, path: str) -> str:
    """What a row has on the axis of `path`."""
    return row.settings.get(path, row.backend)


def in_order(values: Sequence[str]) -> list[str]:
    """Different values in the order of the quantities that they are, else in that in which they came."""
    different = list(dict.fromkeys(values))
    for parse in (float, parse_rate_bps, parse_size_bytes, parse_duration_s):
        keys = _keys(different, parse)
        if keys is not None:
            return sorted(different, key=keys.__getitem__)
    return different


def _keys(values: Sequence[str], parse: Callable[[str], Any]) -> dict[str, float] | None:
    try:
        return {value: float(parse(value)) for value in values}
    except (ValueError, InputError):
        return None


@dataclass(frozen=True, slots=True)
class Drawable:
    """What pictures show of comparisons: ratios to the policy that others are compared with, or values where there are none."""

    words: str
    """What a number is, with its unit."""
    is_ratio: bool
    more_is_better: bool
    policies: Sequence[str]
    """Those that there is a number of."""
    numbers: Sequence[tuple[Across, float]]
    """Positive ones, each with its row."""

    @staticmethod
    def of(found: Comparisons) -> Drawable:
        """The ratios, else the measure that they would be of."""
        measure = MEASURES[found.measure]
        ratios = [(row, row.ratio.mean) for row in found.rows if row.ratio is not None]
        if ratios:
            return Drawable._of(f"{measure.words} over that of {found.against}", found.measure, ratios, is_ratio=True)
        estimates = [(row, getattr(row, found.measure)) for row in found.rows]
        known = [(row, estimate.median) for row, estimate in estimates if estimate is not None and estimate.median > 0]
        return Drawable._of(measure.titled, found.measure, known, is_ratio=False)

    @staticmethod
    def _of(words: str, measure: str, numbers: Sequence[tuple[Across, float]], *, is_ratio: bool) -> Drawable:
        policies = list(dict.fromkeys(row.policy for row, _ in numbers))
        return Drawable(words, is_ratio, MEASURES[measure].more_is_better, policies, numbers)

    def means(self, *axes: Axis | None) -> dict[tuple[str, ...], float]:
        """Geometric means by policy and the values on `axes`, over all else; an axis that is None stands for the jobs."""
        found: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for row, number in self.numbers:
            places = [row.job if axis is None else value_at(row, axis.path) for axis in axes]
            key = (row.policy, *places)
            found[key].append(math.log(number))
        return {key: math.exp(sum(logs) / len(logs)) for key, logs in found.items()}
