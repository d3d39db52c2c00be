"""yardsticks.json: what every run of an experiment is held against: its jobs alone, and what no scheduler can beat."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from echelonflow.codec import Document

BoundKind = Literal["batch", "steady", "alone"]
"""What bounds the mean iteration time: the whole batch with all its orders, or the pace that the jobs can keep up together
for long. Or it is each job alone, which is the cheapest and the weakest."""


class Yardsticks(msgspec.Struct, frozen=True, kw_only=True):
    """All in seconds."""

    alone_s: dict[str, tuple[float, ...]] = msgspec.field(default_factory=dict)
    """How long each iteration of a job takes that has the network to itself, under fair sharing; by job."""
    bound_s: float | None = None
    """What the mean over jobs of their mean iteration times cannot be below; None where nobody found out."""
    bound_kind: BoundKind | None = None


NO_YARDSTICKS = Yardsticks()
"""Nothing is known."""


def write_yardsticks(path: Path, yardsticks: Yardsticks) -> None:
    """Write yardsticks.json."""
    _DOCUMENT.write(path, yardsticks)


def read_yardsticks(path: Path) -> Yardsticks | None:
    """Read yardsticks.json; None where there is none, InputError where it is malformed."""
    return _DOCUMENT.read(path) if path.exists() else None


_DOCUMENT = Document("echelon-yardsticks", 1, Yardsticks)
