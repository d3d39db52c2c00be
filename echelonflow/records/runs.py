"""Whole runs as JSON: what the simulator did (runs.json) or predicts of what is measured (prediction.json).

Steps are named once, and what happened in every iteration is in columns, whose rows belong together by their place.
Each run has a digest: a number that was changed since gives other results without a word. Version 1 had an object for every
computation and every flow, and no digest.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec

from echelonflow.codec import Document
from echelonflow.errors import InputError
from echelonflow.records.run_columns import ComputeColumns, ComputeStep, FlowColumns, FlowStep
from echelonflow.records.run_record import DecisionRecord, RunRecord


class _Computes(msgspec.Struct):
    steps: list[ComputeStep]
    step: list[int]
    iteration: list[int]
    start_s: list[float]
    finish_s: list[float]
    late_s: list[float]


class _Flows(msgspec.Struct):
    steps: list[FlowStep]
    step: list[int]
    iteration: list[int]
    release_s: list[float]
    start_s: list[float]
    finish_s: list[float]
    ready_s: list[float | None] | None
    """None where no flow was held back by its job."""


class _Run(msgspec.Struct):
    policy: str
    repeat: int
    computes: _Computes
    flows: _Flows
    decisions: list[DecisionRecord] = []
    counters: dict[str, int] = {}
    digest: str | None = None
    """SHA-256 of all of it; None in what was written before there was one."""


class _Runs(msgspec.Struct):
    runs: list[_Run]


def _in_columns(data: Any, _: Path) -> Any:
    """Version 2 of what version 1 held."""
    for run in data["runs"]:
        run["computes"] = _columns(run["computes"], ComputeStep, ("start_s", "finish_s", "late_s"))
        run["flows"] = _columns(run["flows"], FlowStep, ("release_s", "start_s", "finish_s", "ready_s"))
    return data


def _columns(rows: Sequence[dict[str, Any]], kind: type, times: Sequence[str]) -> dict[str, Any]:
    names = [field.name for field in fields(kind)]
    optional = {"late_s": 0.0, "ready_s": None}  # which the first records did not have
    places: dict[tuple[Any, ...], int] = {}
    step = [places.setdefault(tuple(row[name] for name in names), len(places)) for row in rows]
    found: dict[str, Any] = {
        name: [row.get(name, optional[name]) if name in optional else row[name] for row in rows] for name in times
    }
    steps = [dict(zip(names, values, strict=True)) for values in places]
    return {"steps": steps, "step": step, "iteration": [row["iteration"] for row in rows], **found}


_DOCUMENT = Document("echelon-runs", 2, _Runs, {1: _in_columns}, compact=True)


def save_runs(path: Path, runs: Sequence[RunRecord]) -> None:
    """Write simulated `runs` to `path` as one JSON document; `load_runs` reads it back unchanged.

    ValueError for runs on packets: they have records of their own.
    """
    _DOCUMENT.write(path, _Runs([_written(run) for run in runs]))


def load_runs(path: Path) -> list[RunRecord]:
    """Read what `save_runs` wrote (InputError, naming the file, if it is something else)."""
    try:
        return [_read(run) for run in _DOCUMENT.read(path).runs]
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def _written(run: RunRecord) -> _Run:
    computes, flows = ComputeColumns.of(run.computes), FlowColumns.of(run.flows)
    ready_s = [None if math.isnan(at_s) else at_s for at_s in flows.ready_s.tolist()]
    return _Run(
        run.policy,
        run.repeat,
        _Computes(
            list(computes.steps), computes.step.tolist(), computes.iteration.tolist(), computes.start_s.tolist(),
            computes.finish_s.tolist(), computes.late_s.tolist(),
        ),
        _Flows(
            list(flows.steps), flows.step.tolist(), flows.iteration.tolist(), flows.release_s.tolist(),
            flows.start_s.tolist(), flows.finish_s.tolist(), ready_s if any(s is not None for s in ready_s) else None,
        ),
        list(run.decisions),
        run.counters,
        _digest(run, computes, flows),
    )  # fmt: skip


def _read(run: _Run) -> RunRecord:
    computes, flows = ComputeColumns(run.computes.steps), FlowColumns(run.flows.steps)
    c, f = run.computes, run.flows
    ready_s = [math.nan] * len(f.step) if f.ready_s is None else [math.nan if s is None else s for s in f.ready_s]
    computes.extend(_places(c.step, c.steps), c.iteration, c.start_s, c.finish_s, c.late_s)
    flows.extend(_places(f.step, f.steps), f.iteration, f.release_s, f.start_s, f.finish_s, ready_s)
    found = RunRecord(run.policy, run.repeat, computes, flows, run.decisions, run.counters)
    if run.digest is not None and run.digest != _digest(found, computes, flows):
        raise ValueError(f"the run of {run.policy} is not as it was written: its digest is another one")
    return found


def _digest(run: RunRecord, computes: ComputeColumns, flows: FlowColumns) -> str:
    words = (run.policy, run.repeat, computes.steps, flows.steps, run.decisions, run.counters)
    found = hashlib.sha256(msgspec.json.encode(words))
    for columns in (computes, flows):
        for column in (columns.step, columns.iteration, *map(columns.times_s, columns.TIMES)):
            found.update(column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes())
    return found.hexdigest()


def _places(step: Sequence[int], steps: Sequence[object]) -> Sequence[int]:
    """`step` as it is (ValueError where it points beyond what is there)."""
    strange = next((place for place in step if not 0 <= place < len(steps)), None)
    if strange is not None:
        raise ValueError(f"tells of step {strange} of {len(steps)}")
    return step
