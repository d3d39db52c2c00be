"""Local search, as an example of a method of tuning: points near the best so far."""

from __future__ import annotations

from dataclasses import dataclass

from echelon.tuning.methods._told import Told
from echelon.tuning.space import Point, Space

SUMMARY = "points near the best so far"
NEAR = 0.1


def build(space: Space, *, samples: int, seed: int, first: int = 3) -> NeighbourSearch:
    """The first points are by chance."""
    return NeighbourSearch(space, seed, first)


@dataclass
class NeighbourSearch(Told):
    """Points near the best so far."""

    first: int

    def ask(self) -> Point:
        """The next of them."""
        if len(self.measured) < self.first:
            return self.any_point()
        best, _ = min(self.measured, key=lambda told: told[1])
        draw = self.draw("near")
        across, up = (place + draw.gauss(0, NEAR) for place in self.space.place(best))
        return self.space.point(across, up)
