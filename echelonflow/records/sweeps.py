"""What a sweep was asked for (sweep.json), and which cells it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from echelonflow.codec import Document

SWEEP = "sweep.json"
CELLS = "cells"
TABLE = "cells.csv"
PARQUET = "cells.parquet"


class PlannedCell(msgspec.Struct, frozen=True):
    """One point, one policy, one seed."""

    name: str
    """Of its folder."""
    point: int
    """Place of its point in the sweep."""
    policy: str
    seed: int


class SweepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`experiment` is the experiment file as read, with what the command line set, but without its `sweep`."""

    name: str
    backend: Literal["fluid", "emulation"]
    experiment: dict[str, Any]
    experiment_file: str
    experiment_folder: str
    """Where the experiment file lay: names of files in it are relative to that."""
    over: dict[str, list[Any]]
    """What is swept, path to values, as it was asked for; `policies` and `seed` among them where they were."""
    listed: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Points that were listed one by one; each goes with every value of `over`."""
    points: list[dict[str, Any]]
    """Every point: path to value."""
    policies: list[str]
    seeds: list[int]
    against: str | None = None
    """The policy that others are compared with; None for the first."""
    started: str
    code: str
    """Digest of the code that computes cells."""
    git: str | None = None
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    cells: list[PlannedCell]


def write_sweep(folder: Path, record: SweepRecord) -> None:
    """Write sweep.json in the folder of a sweep."""
    _DOCUMENT.write(folder / SWEEP, record)


def read_sweep(folder: Path) -> SweepRecord:
    """Read it (InputError, naming it, where it is missing or malformed)."""
    return _DOCUMENT.read(folder / SWEEP)


_DOCUMENT = Document("echelon-sweep", 1, SweepRecord, compact=True)
