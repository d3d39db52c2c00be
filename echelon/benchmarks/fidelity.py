"""What packets say against what agents and controller logged, on gpt2-pipeline.yaml."""

from __future__ import annotations

import statistics
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import emulate, percentile, validity
from echelon.experiment import schema
from echelon.places import EXPERIMENTS
from echelonflow.errors import RunError
from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import read_outcome
from results.analysis.read_run import last_marks
from results.analysis.valid_rows import rows

IN_FORCE_S = 0.015
"""A mark younger than this need not be on packets yet."""
FILE = EXPERIMENTS / "gpt2-pipeline.yaml"
MARKED = "echelonflow"


def run(repeat: int, say: Say) -> list[Figure]:
    """gpt2-pipeline.yaml, `repeat` times each policy: finish times, bytes, marks, latency, prediction."""
    folder = emulate(schema.load(FILE, {"repeats": repeat}), say)
    flows = rows(folder, "flows")
    if all(flow["policy"] != MARKED for flow in flows):
        raise RunError(f"no run of {MARKED} is valid, so that nothing tells when its packets left; see {folder}")
    apart_ms = [abs(float(f["finish_s"]) - float(f["pcap_finish_s"])) * 1e3 for f in flows]
    equal_bytes = sum(f["size_bytes"] == f["pcap_bytes"] for f in flows)
    decided_s = _decided_s(folder)
    settled = [f for f in flows if float(f["pcap_finish_s"]) - decided_s[_key(f)] >= IN_FORCE_S]
    equal_marks = sum(f["dscp"] == f["pcap_dscp"] for f in settled)
    # Where a flow starts behind no other, its first packet leaves as soon as the decision is known.
    first_ms = [(float(f["pcap_start_s"]) - float(f["release_s"])) * 1e3 for f in flows if f["policy"] == MARKED]
    figures = [
        _limited("flow finish, packets against agents' log, median", statistics.median(apart_ms), 2.0),
        _limited("the same, 99th percentile", percentile(apart_ms, 0.99), 10.0),
        Figure(
            "flows whose bytes in packets are those asked for",
            f"{equal_bytes} of {len(flows)}",
            "all",
            equal_bytes == len(flows),
        ),
        Figure(
            f"flows whose last packet bears the DSCP decided last ({len(flows) - len(settled)} left out: it was "
            f"decided in their last {IN_FORCE_S * 1e3:g} ms)",
            f"{equal_marks} of {len(settled)}",
            "all",
            equal_marks == len(settled),
        ),
        _limited("release at agent to first marked packet, median (echelonflow)", statistics.median(first_ms), 15.0),
        Figure("the same, 99th percentile", f"{percentile(first_ms, 0.99):.2f} ms", "", None),
    ]
    return [*figures, *_against_prediction(folder), validity(folder)]


def _key(flow: dict[str, str]) -> tuple[str, str, str, str, str]:
    return flow["policy"], flow["repeat"], flow["job"], flow["iteration"], flow["flow"]


def _decided_s(folder: Path) -> dict[tuple[str, str, str, str, str], float]:
    """When the last mark of every flow was decided, in the run's time."""
    found = {}
    for files in RunFolder(folder).runs():
        run = read_outcome(files.outcome)
        for (job, iteration, flow), (_, decided_s) in last_marks(read_decisions(files.decisions)).items():
            found[run.policy, str(run.repeat), job, str(iteration), flow] = decided_s
    return found


def _against_prediction(folder: Path) -> list[Figure]:
    """Exposed communication, emulated against fluid, by policy: median over iterations and repeats."""
    apart: dict[str, list[float]] = {}
    for row in rows(folder, "iterations"):
        exposed_s, duration_s = float(row["exposed_s"]), float(row["duration_s"])
        predicted_s = float(row["predicted_s"]) - (duration_s - exposed_s)
        apart.setdefault(row["policy"], []).append(exposed_s / predicted_s - 1)
    return [
        Figure(
            f"{policy}: exposed communication against fluid",
            f"{statistics.median(values):+.1%}",
            "within 6%",
            abs(statistics.median(values)) <= 0.06,
        )
        for policy, values in apart.items()
    ]


def _limited(what: str, value_ms: float, limit_ms: float) -> Figure:
    return Figure(what, f"{value_ms:.2f} ms", f"under {limit_ms:g} ms", value_ms < limit_ms)
