"""Whole runs as JSON: what the simulator did (runs.json) or predicts of what is measured (prediction.json).

Steps are named once for all runs, and what happened in every iteration is in columns, whose rows belong together by their place.
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
from echelonflow.records.blame import Blame
from echelonflow.records.link_load import LinkLoad
from echelonflow.records.run_columns import ComputeColumns, ComputeStep, FlowColumns, FlowStep
from echelonflow.records.run_record import Admitted, DecisionRecord, RunRecord


class _Computes(msgspec.Struct):
    steps: list[ComputeStep] | None
    """None where they are those of the run before: an experiment's runs are of the same steps."""
    step: list[int]
    iteration: list[int]
    start_s: list[float]
    finish_s: list[float]
    late_s: list[float]


class _Flows(msgspec.Struct):
    steps: list[FlowStep] | None
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
    blame: tuple[Blame, ...] = ()
    links: tuple[LinkLoad, ...] = ()
    admitted: dict[str, Admitted] = {}
    began: dict[str, float] = {}
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
    columns = [(ComputeColumns.of(run.computes), FlowColumns.of(run.flows)) for run in runs]
    before = [(ComputeColumns(()), FlowColumns(())), *columns]
    written = [_written(run, *own, *its) for run, own, its in zip(runs, columns, before, strict=False)]
    _DOCUMENT.write(path, _Runs(written))


def load_runs(path: Path) -> list[RunRecord]:
    """Read what `save_runs` wrote (InputError, naming the file, if it is something else)."""
    found: list[RunRecord] = []
    computes, flows = ComputeColumns(()), FlowColumns(())
    try:
        for run in _DOCUMENT.read(path).runs:
            record, computes, flows = _read(run, computes, flows)
            found.append(record)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    return found


def _written(
    run: RunRecord, c: ComputeColumns, f: FlowColumns, computes_before: ComputeColumns, flows_before: FlowColumns
) -> _Run:
    ready_s = [None if math.isnan(at_s) else at_s for at_s in f.ready_s.tolist()]
    return _Run(
        run.policy,
        run.repeat,
        _Computes(
            None if c.steps == computes_before.steps else list(c.steps),
            c.step.tolist(), c.iteration.tolist(), c.start_s.tolist(), c.finish_s.tolist(), c.late_s.tolist(),
        ),
        _Flows(
            None if f.steps == flows_before.steps else list(f.steps),
            f.step.tolist(), f.iteration.tolist(), f.release_s.tolist(), f.start_s.tolist(), f.finish_s.tolist(),
            ready_s if any(s is not None for s in ready_s) else None,
        ),
        list(run.decisions),
        run.counters,
        run.blame,
        run.links,
        run.admitted,
        run.began,
        _digest(run, c, f),
    )  # fmt: skip


def _read(
    run: _Run, computes_before: ComputeColumns, flows_before: FlowColumns
) -> tuple[RunRecord, ComputeColumns, FlowColumns]:
    c, f = run.computes, run.flows
    computes = ComputeColumns(computes_before.steps if c.steps is None else c.steps)
    flows = FlowColumns(flows_before.steps if f.steps is None else f.steps)
    ready_s = [math.nan] * len(f.step) if f.ready_s is None else [math.nan if s is None else s for s in f.ready_s]
    computes.extend(_places(c.step, computes.steps), c.iteration, c.start_s, c.finish_s, c.late_s)
    flows.extend(_places(f.step, flows.steps), f.iteration, f.release_s, f.start_s, f.finish_s, ready_s)
    found = RunRecord(
        run.policy, run.repeat, computes, flows, run.decisions, run.counters, run.blame, run.links, run.admitted,
        run.began,
    )  # fmt: skip
    if run.digest is not None and run.digest != _digest(found, computes, flows):
        raise ValueError(f"the run of {run.policy} is not as it was written: its digest is another one")
    return found, computes, flows


def _digest(run: RunRecord, computes: ComputeColumns, flows: FlowColumns) -> str:
    words: tuple[Any, ...] = (run.policy, run.repeat, computes.steps, flows.steps, run.decisions, run.counters)
    if run.blame or run.links:  # which older runs do not have
        words = (*words, run.blame, run.links)
    found = hashlib.sha256(msgspec.json.encode(words))
    if run.admitted:  # which runs from before there was a queue do not have
        found.update(msgspec.json.encode(run.admitted))
    if run.began:  # nor those from before jobs came after others
        found.update(msgspec.json.encode(run.began))
    for columns in (computes, flows):
        for column in (columns.step, columns.iteration, *map(columns.times_s, columns.TIMES)):
            found.update(column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes())
    return found.hexdigest()


def _places(step: Sequence[int], steps: Sequence[object]) -> Sequence[int]:
    """`step` as it is (ValueError where it points beyond what is there)."""
    least, most = min(step, default=0), max(step, default=-1)
    if least < 0 or most >= len(steps):
        raise ValueError(f"tells of step {least if least < 0 else most} of {len(steps)}")
    return step
