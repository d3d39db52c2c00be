"""What the simulated runs of a trace of Coflows left, by Coflow (coflow-runs.json)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from echelonflow.codec import Document
from echelonflow.errors import InputError
from echelonflow.model.coflow_trace import CoflowTrace, TraceRecord


class CoflowRun(msgspec.Struct, frozen=True):
    """One policy's run: when each Coflow ended, in the order of the columns; `events` counts the simulator's steps."""

    policy: str
    repeat: int
    events: int
    finish_s: tuple[float, ...]


class CoflowRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of the trace's Coflows, of one length, and the runs; times in seconds from the trace's zero."""

    coflow_id: tuple[int, ...]
    arrival_s: tuple[float, ...]
    width: tuple[int, ...]
    """Flows of each Coflow."""
    size_bytes: tuple[float, ...]
    longest_bytes: tuple[float, ...]
    """Size of each Coflow's largest flow."""
    runs: tuple[CoflowRun, ...]


def write_coflow_runs(path: Path, trace: CoflowTrace, records: Sequence[TraceRecord]) -> None:
    """Write what the runs of `trace` left to `path`."""
    longest_bytes = np.zeros(trace.coflows)
    np.maximum.at(longest_bytes, trace.coflow, trace.size_bytes)
    runs = CoflowRuns(
        coflow_id=tuple(trace.coflow_id.tolist()),
        arrival_s=tuple(trace.arrival_s.tolist()),
        width=tuple(np.bincount(trace.coflow, minlength=trace.coflows).tolist()),
        size_bytes=tuple(np.bincount(trace.coflow, weights=trace.size_bytes, minlength=trace.coflows).tolist()),
        longest_bytes=tuple(longest_bytes.tolist()),
        runs=tuple(CoflowRun(r.policy, r.repeat, r.events, tuple(r.finish_s.tolist())) for r in records),
    )
    _DOCUMENT.write(path, runs)


def read_coflow_runs(path: Path) -> CoflowRuns:
    """Read coflow-runs.json (InputError, naming it, where it is malformed or holds no run)."""
    found = _DOCUMENT.read(path)
    columns = (found.coflow_id, found.arrival_s, found.width, found.size_bytes, found.longest_bytes)
    lengths = {len(column) for column in (*columns, *(run.finish_s for run in found.runs))}
    if not found.runs or len(lengths) != 1 or lengths == {0}:
        raise InputError(f"{path}: needs a run, and columns of one length; lengths are {sorted(lengths)}")
    if not all(0 <= number < _MOST for number in (*found.coflow_id, *found.width)):
        raise InputError(f"{path}: has a number or a width that no Coflow has")
    if not all(
        0 <= value < _MOST for column in (*columns[1:], *(run.finish_s for run in found.runs)) for value in column
    ):
        raise InputError(f"{path}: has a time or a size that no Coflow has")
    return found


_MOST = 1 << 53
"""Above every number, width, time and size in a trace; up to here floats tell integers apart."""
_DOCUMENT = Document("echelon-coflow-runs", 1, CoflowRuns, {0: lambda data, _: data})
