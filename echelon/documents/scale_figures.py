"""Figures of docs/scale.md: what a policy takes over fair sharing, whom it serves, and how far from the bound it is."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from echelon.documents.scale_bounds import PointBound
from echelon.documents.scale_cells import ScaleCell
from echelon.documents.scale_points import Point
from echelon.study import compare
from echelonflow.errors import InputError
from results.analysis.statistics import ratio_of

BASIS = "fair"
LITERAL, DEFAULT = "echelonflow(order=tardiness,within=strict)", "echelonflow(order=due,within=strict)"
ROUNDED = 1e-5
"""Relative: kept figures are rounded, so that one that is lower by less is not below another."""
Ratio = tuple[float, float | None, float | None]
"""A geometric mean and its 95 % interval, which one value alone does not have."""


class Measured(Protocol):
    """One policy at one point, and what is measured there, a mean over jobs."""

    @property
    def gpus(self) -> int: ...
    @property
    def load(self) -> float: ...
    @property
    def point(self) -> Point: ...
    @property
    def policy(self) -> str: ...
    @property
    def mean_s(self) -> float: ...


def fed(cells: Iterable[ScaleCell]) -> list[ScaleCell]:
    """Those in which no job starves: of the others no mean iteration time is known."""
    return [cell for cell in cells if not cell.starves]


def policies(cells: Iterable[Measured]) -> list[str]:
    """All that were run, in the order in which they come."""
    return list(dict.fromkeys(cell.policy for cell in cells))


def ratio_over_basis(
    cells: Iterable[Measured], policy: str, *, gpus: int | None = None, load: float | None = None
) -> Ratio | None:
    """Geometric mean over points of what is measured, over that of the basis, and its interval; None where there is no point.

    Of one size and one load, where they are given.
    """
    values: dict[str, dict[Point, float]] = {BASIS: {}, policy: {}}
    for cell in cells:
        if cell.policy in values and gpus in (None, cell.gpus) and load in (None, cell.load):
            values[cell.policy][cell.point] = cell.mean_s
    basis = values[BASIS]
    return _geometric([value / basis[point] for point, value in values[policy].items() if point in basis])


def _geometric(ratios: Sequence[float]) -> Ratio | None:
    found = ratio_of(ratios)
    return None if found is None else (found.mean, found.low, found.high)


def text(found: Ratio | None) -> str:
    """A ratio as tables and sentences have it."""
    if found is None:
        return "-"
    mean, low, high = found
    return f"{mean:.3f}" if low is None or high is None else compare.text((mean, low, high))


def starved(cells: Sequence[ScaleCell], policy: str) -> tuple[int, int]:
    """In how many points a policy starves a job, and of how many."""
    mine = [cell for cell in cells if cell.policy == policy]
    return sum(cell.starves for cell in mine), len(mine)


def kinds(cells: Sequence[ScaleCell], policy: str, kind_of: Callable[[str, int], str]) -> dict[str, list[float]]:
    """By kind of job, its iteration times over those under the basis."""
    basis = {cell.point: cell for cell in cells if cell.policy == BASIS}
    found: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        other = basis.get(cell.point)
        if cell.policy != policy or other is None:
            continue
        for paradigm, ranks, mine_s, theirs_s in zip(
            cell.paradigms, cell.ranks, cell.iteration_s, other.iteration_s, strict=True
        ):
            if mine_s is not None and theirs_s is not None:
                found[kind_of(paradigm, ranks)].append(mine_s / theirs_s)
    return found


class Slowdowns(NamedTuple):
    """Of the jobs of one cell, over their least times alone."""

    mean: float
    worst: float


@dataclass(frozen=True)
class Below:
    """Which of the cells in which no job starves are below their bound."""

    cells: int
    below: list[ScaleCell]
    nearest: float
    """The least of mean iteration time or mean slowdown over its bound."""


class Bounds:
    """The bounds of all points; InputError for a point that has none."""

    def __init__(self, bounds: Iterable[PointBound]) -> None:
        self._of = {each.point: each for each in bounds}

    def of(self, cell: ScaleCell) -> PointBound:
        """What a cell is held against."""
        if cell.point not in self._of:
            raise InputError(
                f"{cell.gpus} GPUs, load {cell.load:g}, {cell.placement}: no bound is kept; "
                f"`python -m echelon.documents.scale_bounds {cell.gpus}` finds it"
            )
        return self._of[cell.point]

    def slowdowns(self, cell: ScaleCell) -> Slowdowns | None:
        """The mean and the worst slowdown of a cell's jobs; None where one starves."""
        times_s = [one_s for one_s in cell.iteration_s if one_s is not None]
        if cell.starves:
            return None
        each = [one_s / alone_s for one_s, alone_s in zip(times_s, self.of(cell).alone_s, strict=True)]
        return Slowdowns(statistics.fmean(each), max(each))

    def over_basis(self, cells: Sequence[ScaleCell], *, gpus: int, load: float) -> Ratio | None:
        """The bound of the mean iteration time over what this is under the basis: the geometric mean over points."""
        mine = [
            cell for cell in cells if (cell.policy, cell.gpus, cell.load) == (BASIS, gpus, load) and not cell.starves
        ]
        return _geometric([self.of(cell).mean_s / cell.mean_s for cell in mine])

    def above(self, cells: Sequence[ScaleCell], policy: str, load: float) -> float | None:
        """How far a policy's mean iteration time is above the bound: the geometric mean over points, less 1."""
        mine = [cell for cell in cells if (cell.policy, cell.load) == (policy, load) and not cell.starves]
        found = _geometric([cell.mean_s / self.of(cell).mean_s for cell in mine])
        return None if found is None else found[0] - 1.0

    def below(self, cells: Sequence[ScaleCell]) -> Below | None:
        """Which cells are below the bound of their mean iteration time or of their mean slowdown; None where all starve."""
        nearest: dict[int, float] = {}
        for number, cell in enumerate(cells):
            slowdowns = self.slowdowns(cell)
            if slowdowns is not None:
                bound = self.of(cell)
                nearest[number] = min(cell.mean_s / bound.mean_s, slowdowns.mean / bound.slowdown)
        if not nearest:
            return None
        below = [cells[number] for number, ratio in nearest.items() if ratio < 1.0 - ROUNDED]
        return Below(len(nearest), below, min(nearest.values()))

    def widest_gap(self, cells: Iterable[ScaleCell]) -> float:
        """The widest of all gaps between a bound and iteration times that links allow, as a share."""
        return max((self.of(cell).gap for cell in cells), default=0.0)
