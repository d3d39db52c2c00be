"""Completion times of a simulated trace's Coflows: raw records, and the figures made of them.

Figures as in the Coflow papers: the average and three percentiles of completion times, each also over that of the first
policy. There are averages over Varys's four kinds of Coflows, too (section 7: short if no flow has 5 MB, narrow if
there are at most 50).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from echelonflow.codec import read_json
from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.coflow_trace import CoflowTrace, TraceRecord
from results.columns import write_csv
from results.metrics import RunKey

RUNS_FILE = "coflow-runs.json"
FIGURES = ("average_s", "median_s", "p95_s", "p99_s")
SHORT_BYTES = 5e6
NARROW_FLOWS = 50


@dataclass(frozen=True, eq=False)
class TraceRun:
    """One policy's run of a trace; c rows each, times in seconds from the trace's zero."""

    policy: str
    repeat: int
    coflow_id: Ints
    arrival_s: Floats
    finish_s: Floats
    width: Ints
    """Flows of each Coflow."""
    size_bytes: Floats
    longest_bytes: Floats
    """Size of each Coflow's largest flow."""

    @property
    def completion_s(self) -> Floats:
        return self.finish_s - self.arrival_s


@dataclass(frozen=True, slots=True)
class CoflowRow(RunKey):
    """One Coflow of a simulated trace in one run."""

    coflow: int
    """Number of the Coflow. From the trace."""
    arrival_s: float
    """When all its flows may begin. From the trace."""
    finish_s: float
    """When its last flow ended. From the simulator."""
    cct_s: float
    """Coflow completion time: `finish_s` less `arrival_s`. Computed."""
    width: int
    """Number of its flows. From the trace."""
    size_bytes: float
    """Bytes of all its flows together. From the trace."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The Coflows of one of Varys's four kinds under one policy."""

    name: str
    """`short` if no flow has 5 MB, else `long`; `narrow` if it has at most 50 flows, else `wide`. Computed."""
    coflows: int
    """Number of Coflows of that kind. Computed."""
    average_s: float
    """Their average completion time. Computed."""
    normalised: float
    """That average over the first policy's. Computed."""


@dataclass(frozen=True, slots=True)
class CoflowResult:
    """Completion times of a trace's Coflows under one policy."""

    policy: str
    """Policy with its options. From the experiment file."""
    coflows: int
    """Number of Coflows. From the trace."""
    average_s: float
    """Average completion time. Computed."""
    median_s: float
    """Median completion time. Computed."""
    p95_s: float
    """95th percentile of completion times. Computed."""
    p99_s: float
    """99th percentile of completion times. Computed."""
    normalised: tuple[float, ...]
    """These four figures, each over that of the first policy. Computed."""
    kinds: tuple[Kind, ...]
    """One object for each kind of Coflow that the trace has. Computed."""


def save_coflow_runs(root: Path, trace: CoflowTrace, records: Sequence[TraceRecord]) -> None:
    """Write what the runs of `trace` left, by Coflow, into the run folder `root`."""
    longest_bytes = np.zeros(trace.coflows)
    np.maximum.at(longest_bytes, trace.coflow, trace.size_bytes)
    body = {
        "coflow_id": trace.coflow_id.tolist(),
        "arrival_s": trace.arrival_s.tolist(),
        "width": np.bincount(trace.coflow, minlength=trace.coflows).tolist(),
        "size_bytes": np.bincount(trace.coflow, weights=trace.size_bytes, minlength=trace.coflows).tolist(),
        "longest_bytes": longest_bytes.tolist(),
        "runs": [
            {"policy": r.policy, "repeat": r.repeat, "events": r.events, "finish_s": r.finish_s.tolist()}
            for r in records
        ],
    }
    (root / RUNS_FILE).write_text(json.dumps(body) + "\n", encoding="utf-8")


def load_coflow_runs(root: Path) -> list[TraceRun]:
    """The runs that `save_coflow_runs` wrote; InputError where the file is malformed."""
    path = root / RUNS_FILE
    body = read_json(path)
    try:
        coflow_id, width = (np.array(body[name], np.int64) for name in ("coflow_id", "width"))
        columns = {name: np.array(body[name], float) for name in ("arrival_s", "size_bytes", "longest_bytes")}
        found = [
            TraceRun(run["policy"], run["repeat"], coflow_id, finish_s=_finish(run), width=width, **columns)
            for run in body["runs"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is malformed: {error!r}") from error
    lengths = {len(column) for run in found for column in (run.finish_s, coflow_id, width, *columns.values())}
    if len(lengths) != 1 or lengths == {0}:
        raise InputError(f"{path}: is malformed: it needs a run, and columns of one length; lengths are {lengths}")
    return found


def _finish(run: dict[str, Any]) -> Floats:
    return np.array(run["finish_s"], float)


def coflow_results(runs: Sequence[TraceRun]) -> tuple[CoflowResult, ...]:
    """The figures of each run, normalised to the first."""
    first = _figures(runs[0].completion_s)
    found = []
    for run in runs:
        figures = _figures(run.completion_s)
        ratios = tuple(ours / theirs for ours, theirs in zip(figures, first, strict=True))
        found.append(CoflowResult(run.policy, len(run.coflow_id), *figures, ratios, _kinds(run, runs[0])))
    return tuple(found)


def _figures(completion_s: Floats) -> tuple[float, float, float, float]:
    median_s, p95_s, p99_s = (float(np.percentile(completion_s, q)) for q in (50, 95, 99))
    return float(completion_s.mean()), median_s, p95_s, p99_s


def _kinds(run: TraceRun, first: TraceRun) -> tuple[Kind, ...]:
    short, narrow = run.longest_bytes < SHORT_BYTES, run.width <= NARROW_FLOWS
    masks = {
        "short narrow": short & narrow,
        "long narrow": ~short & narrow,
        "short wide": short & ~narrow,
        "long wide": ~short & ~narrow,
    }
    averages = {
        name: (float(run.completion_s[mask].mean()), float(first.completion_s[mask].mean()))
        for name, mask in masks.items()
        if mask.any()
    }
    return tuple(
        Kind(name, int(masks[name].sum()), ours_s, ours_s / theirs_s) for name, (ours_s, theirs_s) in averages.items()
    )


def write_coflows(path: Path, runs: Sequence[TraceRun]) -> None:
    """Write coflows.csv: one line per run and Coflow."""
    rows = [
        CoflowRow(run.policy, run.repeat, *values)
        for run in runs
        for values in zip(
            run.coflow_id.tolist(),
            run.arrival_s.tolist(),
            run.finish_s.tolist(),
            run.completion_s.tolist(),
            run.width.tolist(),
            run.size_bytes.tolist(),
            strict=True,
        )
    ]
    write_csv(path, CoflowRow, rows)
