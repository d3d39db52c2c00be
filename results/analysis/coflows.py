"""Completion times of a simulated trace's Coflows: raw records, and the figures made of them.

Figures as in the Coflow papers: the average and three percentiles of completion times, each also over that of the first
policy. There are averages over Varys's four kinds of Coflows, too (section 7: short if no flow has 5 MB, narrow if
there are at most 50).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.records.coflow_runs import read_coflow_runs
from echelonflow.records.manifest import Manifest
from results.analysis.columns import write_csv
from results.analysis.rows import RunKey

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
class CoflowKind:
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
    kinds: tuple[CoflowKind, ...]
    """One object for each kind of Coflow that the trace has. Computed."""


def load_trace_runs(path: Path) -> list[TraceRun]:
    """The runs in coflow-runs.json at `path`; InputError where the file is malformed."""
    kept = read_coflow_runs(path)
    coflow_id, width = np.array(kept.coflow_id, np.int64), np.array(kept.width, np.int64)
    arrival_s, size_bytes, longest_bytes = map(np.array, (kept.arrival_s, kept.size_bytes, kept.longest_bytes))
    return [
        TraceRun(run.policy, run.repeat, coflow_id, arrival_s, np.array(run.finish_s), width, size_bytes, longest_bytes)
        for run in kept.runs
    ]


def judge_trace(runs: Sequence[TraceRun], manifest: Manifest) -> list[str]:
    """Where the runs of a trace are not what the manifest says, or cannot be; empty if they are."""
    reasons, facts = [], manifest.trace
    found, coflows, flows = [run.policy for run in runs], len(runs[0].coflow_id), int(runs[0].width.sum())
    if sorted(found) != sorted(manifest.policies):
        reasons.append(f"coflow-runs.json holds the policies {', '.join(found)}, not those of manifest.json")
    if facts is not None and (facts.coflows, facts.flows) != (coflows, flows):
        reasons.append(
            f"coflow-runs.json holds {coflows} Coflows of {flows} flows, not {facts.coflows} of {facts.flows} "
            "as manifest.json says"
        )
    if len(set(runs[0].coflow_id.tolist())) < coflows:
        reasons.append("coflow-runs.json numbers two Coflows alike")
    if not (runs[0].longest_bytes > 0).all() or not (runs[0].longest_bytes <= runs[0].size_bytes).all():
        reasons.append("coflow-runs.json has a Coflow whose longest flow is longer than all of it, or nothing")
    early = [run.policy for run in runs if not (run.completion_s > 0).all()]
    if early:
        reasons.append(f"coflow-runs.json has Coflows that end before they arrive, under {', '.join(early)}")
    return reasons


def coflow_results(runs: Sequence[TraceRun]) -> tuple[CoflowResult, ...]:
    """The figures of each run, normalised to the first."""
    first = _figures(runs[0].completion_s)
    found = []
    for run in runs:
        figures = _figures(run.completion_s)
        ratios = tuple(map(_ratio, figures, first))
        found.append(CoflowResult(run.policy, len(run.coflow_id), *figures, ratios, _kinds(run, runs[0])))
    return tuple(found)


def _ratio(ours: float, theirs: float) -> float:
    """One figure over another; infinite over none, which only a garbled record has."""
    return ours / theirs if theirs else math.inf


def _figures(completion_s: Floats) -> tuple[float, float, float, float]:
    median_s, p95_s, p99_s = (float(np.percentile(completion_s, q)) for q in (50, 95, 99))
    return float(completion_s.mean()), median_s, p95_s, p99_s


def _kinds(run: TraceRun, first: TraceRun) -> tuple[CoflowKind, ...]:
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
        CoflowKind(name, int(masks[name].sum()), ours_s, _ratio(ours_s, theirs_s))
        for name, (ours_s, theirs_s) in averages.items()
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
