"""Which iterations of a training program are those of a job: the program may do something else from some iteration on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Phase(msgspec.Struct, frozen=True):
    """Iterations of a program that are alike, which are those of `job`: `iterations` of them, from `first` on, counted from 0."""

    job: str
    first: int
    iterations: int

    @property
    def end(self) -> int:
        """The first iteration after it."""
        return self.first + self.iterations


class InPhase(NamedTuple):
    """An iteration of a program: the number of its phase, and which iteration of that phase's job it is."""

    phase: int
    iteration: int


def in_phase(phases: Sequence[Phase], iteration: int) -> InPhase | None:
    """Where an iteration of a program is; None for one that is of no phase, and counts for nothing."""
    for number, phase in enumerate(phases):
        if phase.first <= iteration < phase.end:
            return InPhase(number, iteration - phase.first)
    return None


def counted_before(phases: Sequence[Phase], iteration: int) -> int:
    """How many iterations that count a program makes before its `iteration`."""
    return sum(min(max(iteration - phase.first, 0), phase.iterations) for phase in phases)


def phase_job(program: str, number: int) -> str:
    """What the job of a phase is called, of phases numbered from 0: the first has the program's name."""
    return program if not number else f"{program}.{number + 1}"
