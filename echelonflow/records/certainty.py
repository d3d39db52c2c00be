"""How far a training program repeats itself, from the lesson to whoever reads its runs (certainty.json)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from echelonflow.codec import Document
from echelonflow.records.phases import Phase


class Certainty(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is sent, by whom and in what order is the same in all iterations that are `alike`."""

    iterations: int
    alike: int
    """The last ones, which do the same on all ranks."""
    spread: float
    """Half the interquartile range of what a rank computes in an iteration, over the median; of the rank and phase where it is largest."""
    phases: tuple[Phase, ...] = ()
    """The jobs that it is, where it changes in mid-run; empty where only what it does in the end counts."""

    @property
    def first_alike(self) -> int:
        """From which iteration on, counted from 0, all do the same to the end."""
        return self.iterations - self.alike

    def __str__(self) -> str:
        alike = f"the last {self.alike} of {self.iterations} iterations are alike"
        if self.phases:
            parts = ", ".join(f"{each.first + 1} to {each.end} ({each.job})" for each in self.phases)
            alike = f"of {self.iterations} iterations these are alike: {parts}"
        return (
            f"{alike}; what a rank computes in one varies by "
            f"{self.spread:.1%} (half the interquartile range, of the rank where it varies most)"
        )


def write_certainty(path: Path, certainty: Certainty) -> None:
    """Write how certain a lesson is."""
    _DOCUMENT.write(path, certainty)


def read_certainty(path: Path) -> Certainty:
    """Read it (InputError, naming the file, where it is missing or malformed)."""
    return _DOCUMENT.read(path)


_DOCUMENT = Document("echelon-certainty", 1, Certainty)
