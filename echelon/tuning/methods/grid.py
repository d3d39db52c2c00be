"""Grid search: all combinations of evenly spaced sizes, in an order drawn by the seed.

The order is by chance so that a search that is stopped early has looked everywhere.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from echelon.tuning.methods._told import Told
from echelon.tuning.space import Point, Space

SUMMARY = "evenly spaced sizes, in an order drawn by the seed"
_MOST_FINER = 8


def build(space: Space, *, samples: int, seed: int) -> GridSearch:
    """A grid of `samples` points at least, about as many sizes of partitions as credits."""
    return GridSearch(space, seed, samples)


@dataclass
class GridSearch(Told):
    """The points of a grid; of a finer one when all are tried."""

    samples: int

    def ask(self) -> Point:
        """The first point of the grid that is not tried yet."""
        tried = {point for point, _ in self.points}
        for finer in range(_MOST_FINER):
            left = [point for point in self._points(self.samples << finer) if point not in tried]
            if left:
                return left[0]
        return self.any_point()  # every byte of a tiny space was tried

    def _points(self, samples: int) -> list[Point]:
        columns = _sizes(*self.space.partition_bytes, math.ceil(math.sqrt(samples)))
        rows = _sizes(*self.space.credit_bytes, math.ceil(samples / len(columns)))
        found = list(dict.fromkeys(self.space.point(across, up) for across in columns for up in rows))
        random.Random(f"{self.seed} {samples}").shuffle(found)
        return found


def _sizes(low: int, high: int, number: int) -> list[float]:
    """Places of `number` sizes in a range, its ends among them; one where it has a single size."""
    return [0.5] if low == high or number == 1 else [place / (number - 1) for place in range(number)]
