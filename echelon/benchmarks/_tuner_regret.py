"""How far a search stays above the best point of a surface that is known everywhere."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from echelon.tuning import methods
from echelon.tuning.space import Point, Space
from results.analysis.statistics import Estimate, estimate

Curve = tuple[float, ...]
"""Regret after each sample, as a share of the surface's least value."""


class Surface(msgspec.Struct, frozen=True):
    """Iteration times over a space: `values_s[i][k]` at the place (i, k) of an even grid of numbers from 0 to 1."""

    name: str
    space: Space
    values_s: tuple[tuple[float, ...], ...]

    def at(self, point: Point) -> float:
        """The time at a point, between the four places of the grid around it."""
        across, up = self.space.place(point)
        i, right = _cell(across, len(self.values_s))
        k, above = _cell(up, len(self.values_s[0]))
        near, far = self.values_s[i], self.values_s[min(i + 1, len(self.values_s) - 1)]
        beyond = min(k + 1, len(near) - 1)
        low = near[k] * (1 - above) + near[beyond] * above
        high = far[k] * (1 - above) + far[beyond] * above
        return low * (1 - right) + high * right

    @property
    def least_s(self) -> float:
        """Its minimum, which lies on the grid."""
        return min(map(min, self.values_s))

    @property
    def reach(self) -> float:
        """How much more the worst place takes than the best, as a share: what there is to gain by tuning."""
        return max(map(max, self.values_s)) / self.least_s - 1


def places(sizes: int, windows: int) -> list[tuple[int, int, float, float]]:
    """The places of a grid of so many sizes of partitions and of credits: (i, k, across, up)."""
    return [(i, k, i / (sizes - 1), k / (windows - 1)) for i in range(sizes) for k in range(windows)]


def _cell(share: float, places: int) -> tuple[int, float]:
    """The place of a grid at or before `share`, and how far `share` is on the way to the next."""
    at = share * (places - 1)
    place = min(int(at), places - 1)
    return place, at - place


def regrets(surface: Surface, method: str, samples: int, seed: int) -> Curve:
    """Let a method search the surface; how far the best of its first 1, 2, ... samples is above the minimum."""
    search = methods.begin(method, surface.space, samples=samples, seed=seed)
    found, best_s = [], float("inf")
    for _ in range(samples):
        point = search.ask()
        value_s = surface.at(point)
        search.tell(point, value_s)
        best_s = min(best_s, value_s)
        found.append(max(best_s / surface.least_s - 1, 0.0))
    return tuple(found)


@dataclass(frozen=True)
class Regrets:
    """Of one method on several surfaces: by surface, a curve for each seed."""

    method: str
    curves: Mapping[str, Sequence[Curve]]

    @cached_property
    def by_seed(self) -> list[Curve]:
        """For each seed, the mean over surfaces."""
        return [
            tuple(map(statistics.fmean, zip(*curves, strict=True)))
            for curves in zip(*self.curves.values(), strict=True)
        ]

    def means(self) -> list[tuple[float, float, float]]:
        """After each sample: the mean over seeds, and its 95 % interval (two seeds at least)."""
        return [interval(values) for values in zip(*self.by_seed, strict=True)]

    def less_than(self, other: Regrets) -> Estimate:
        """After the last sample, seed by seed: this one's mean regret less the other's."""
        pairs = zip(self.by_seed, other.by_seed, strict=True)
        found = estimate([ours[-1] - theirs[-1] for ours, theirs in pairs])
        assert found is not None
        return found


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval of two values at least."""
    found = estimate(values)
    assert found is not None and found.low is not None and found.high is not None  # noqa: PT018 -- two values at least
    return statistics.fmean(values), found.low, found.high
