"""What a search was told so far, and the chance that it draws from: the same in all methods, so that they can be compared."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from echelon.tuning.space import Point, Space


@dataclass
class Told:
    """The base of a search: keeps what it is told. For one seed, all methods begin with the same random points."""

    space: Space
    seed: int
    points: list[tuple[Point, float | None]] = field(default_factory=list, init=False)

    def tell(self, point: Point, value_s: float | None) -> None:
        """Keep what came of a point."""
        self.points.append((point, value_s))

    @property
    def measured(self) -> list[tuple[Point, float]]:
        """The points whose value could be found out."""
        return [(point, value_s) for point, value_s in self.points if value_s is not None]

    @property
    def learned(self) -> list[tuple[Point, float]]:
        """The same, and those whose value could not: they count as the worst that was found, so that a search goes elsewhere."""
        worst_s = max((value_s for _, value_s in self.measured), default=0.0)
        return [(point, worst_s if value_s is None else value_s) for point, value_s in self.points]

    def draw(self, what: str = "") -> random.Random:
        """Chance for the next point."""
        return random.Random(f"{self.seed} {len(self.points)} {what}")

    def any_point(self) -> Point:
        """The next point by chance alone."""
        return self.space.any_point(self.draw())
