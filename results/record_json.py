"""Run records as JSON: what the simulator predicts, kept beside what was measured."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from echelonflow.errors import InputError
from echelonflow.records.run_record import ComputeRecord, DecisionRecord, FlowRecord, RunRecord

SCHEMA = "echelon-runs"
VERSION = 1


def save_runs(path: Path, runs: Sequence[RunRecord]) -> None:
    """Write `runs` to `path` as one JSON document; `load_runs` reads it back unchanged."""
    body = {"schema": SCHEMA, "version": VERSION, "runs": [dataclasses.asdict(run) for run in runs]}
    path.write_text(json.dumps(body, separators=(",", ":"), allow_nan=False) + "\n", encoding="utf-8")


def load_runs(path: Path) -> list[RunRecord]:
    """Read what `save_runs` wrote (InputError, naming the file, if it is something else)."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body["schema"] != SCHEMA or body["version"] != VERSION:
            raise InputError(f"{path}: is not {SCHEMA} of version {VERSION}")
        return [_run(data) for data in body["runs"]]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: does not hold run records: {error!r}") from error


def decision_from_dict(data: dict[str, Any]) -> DecisionRecord:
    """One decision from its JSON form (TypeError where fields are missing or unknown)."""
    changed = tuple((job, iteration, flow, dscp, rate) for job, iteration, flow, dscp, rate in data.get("changed", ()))
    return DecisionRecord(**{**data, "changed": changed})


def _run(data: dict[str, Any]) -> RunRecord:
    return RunRecord(
        policy=data["policy"],
        repeat=data["repeat"],
        computes=[ComputeRecord(**compute) for compute in data["computes"]],
        flows=[FlowRecord(**flow) for flow in data["flows"]],
        decisions=[decision_from_dict(decision) for decision in data["decisions"]],
        counters=dict(data.get("counters", {})),
    )
