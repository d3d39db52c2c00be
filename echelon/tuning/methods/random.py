"""Random search: what every other method has to beat (Bergstra and Bengio, JMLR 2012)."""

from __future__ import annotations

from dataclasses import dataclass

from echelon.tuning.methods._told import Told
from echelon.tuning.space import Point, Space

SUMMARY = "points by chance, evenly by ratios"


def build(space: Space, *, samples: int, seed: int) -> RandomSearch:
    """Points by chance, however many there will be."""
    return RandomSearch(space, seed)


@dataclass
class RandomSearch(Told):
    """Points by chance."""

    def ask(self) -> Point:
        """The next of them."""
        return self.any_point()
