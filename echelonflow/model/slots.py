"""When iterations of a job may begin: what holding back goes by, in simulations and at agents. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

ROUNDING = 1e-9
"""Of a slot: who is early by no more than that is in time."""


@dataclass(frozen=True, slots=True)
class Slots:
    """An iteration may begin at `first_s`, and every `every_s` before and after; seconds from the run's zero.

    Who is late by `tolerance_s` at most begins at once. Who is later than that waits for the next slot.
    """

    first_s: float
    every_s: float
    tolerance_s: float = 0.0

    def begin_s(self, now_s: float) -> float:
        """When an iteration begins that could begin now."""
        late_s = math.fmod(now_s - self.first_s, self.every_s)
        late_s += self.every_s if late_s < 0 else 0.0
        early_s = self.every_s - late_s
        return now_s if late_s <= self.tolerance_s or early_s <= ROUNDING * self.every_s else now_s + early_s


@dataclass(slots=True)
class HeldIterations:
    """The iterations of one job: the step that could begin first says when all of an iteration's first steps may."""

    slots: Slots | None = None
    """None: nothing is held back."""
    held: int = 0
    """Iterations that had to wait."""
    held_s: float = 0.0
    """How long they had to, together."""
    _begin_s: dict[int, float] = field(default_factory=dict)

    def begin_s(self, iteration: int, now_s: float) -> float:
        """When a first step of an iteration begins that could begin now."""
        if iteration not in self._begin_s:
            begin_s = now_s if self.slots is None else self.slots.begin_s(now_s)
            if begin_s > now_s:
                self.held += 1
                self.held_s += begin_s - now_s
            self._begin_s = {later: at_s for later, at_s in self._begin_s.items() if later >= iteration - 1}
            self._begin_s[iteration] = begin_s
        return max(self._begin_s[iteration], now_s)
