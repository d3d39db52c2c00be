"""What a reader of results must know of the jobs of an experiment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class JobNotes:
    """What a reader of results must know of a job: its scale in both clocks, and warnings."""

    job: str
    facts: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
