"""Whole runs as JSON: what the simulator predicts, kept beside what was measured (prediction.json, runs.json)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from echelonflow.codec import Document
from echelonflow.records.run_record import RunRecord


class _Runs(msgspec.Struct):
    runs: list[RunRecord]


_DOCUMENT = Document("echelon-runs", 1, _Runs)


def save_runs(path: Path, runs: Sequence[RunRecord]) -> None:
    """Write `runs` to `path` as one JSON document; `load_runs` reads it back unchanged."""
    _DOCUMENT.write(path, _Runs(list(runs)))


def load_runs(path: Path) -> list[RunRecord]:
    """Read what `save_runs` wrote (InputError, naming the file, if it is something else)."""
    return _DOCUMENT.read(path).runs
