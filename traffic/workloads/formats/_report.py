"""What an importer hands back: the job's DAG, and an account of what became of everything that was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echelonflow.model.dag import JobDag
from echelonflow.model.units import format_size


@dataclass(frozen=True)
class Report:
    """The account of one import, for a person to read before trusting the job."""

    read: tuple[str, ...]
    """What was found in the files."""
    dropped: tuple[str, ...]
    """What was found and is not in the job, with the reason."""
    assumed: tuple[str, ...]
    """What the files do not say and was decided by an option or a default."""
    bytes_in: int
    """Payload bytes that the trace's communication puts on the network, by its closed form."""
    bytes_out: int
    """Payload bytes of the job's transfers, less what was added so that each has a byte; equal to `bytes_in`, which is checked."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "read": list(self.read),
            "dropped": list(self.dropped),
            "assumed": list(self.assumed),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }

    def lines(self) -> list[str]:
        """The report as lines of text."""
        return [
            *_listed("read", self.read),
            *_listed("dropped", self.dropped or ("nothing",)),
            *_listed("assumed", self.assumed or ("nothing",)),
            f"bytes    {self.bytes_in:,} in, {self.bytes_out:,} out ({format_size(self.bytes_out)} per iteration)",
        ]


@dataclass(frozen=True)
class Imported:
    """One iteration of a job, read from somebody else's files."""

    dag: JobDag
    report: Report


def _listed(title: str, entries: Sequence[str]) -> list[str]:
    return [f"{title if i == 0 else '':9}{entry}" for i, entry in enumerate(entries)]
