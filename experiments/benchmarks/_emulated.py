"""What the emulated benchmarks share: running an experiment, reading its tables."""

from __future__ import annotations

import csv
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from echelonflow.errors import EXIT_VALID, RunError
from experiments import runner
from experiments.benchmarks import Say
from experiments.schema import Experiment


def emulate(experiment: Experiment, say: Say) -> Path:
    """Run `experiment` on the emulated network; its folder (RunError unless every run was valid)."""
    root = Path(tempfile.mkdtemp(prefix="bench-", dir=_parent()))

    def report(progress: dict[str, Any]) -> None:
        if progress["stage"] == "running":
            say(f"run {progress['run'] + 1} of {progress['of']}: {progress['policy']}")

    code, summary = runner.run(experiment, root, "emulation", report)
    if code != EXIT_VALID:
        raise RunError(f"the emulation was not valid ({'; '.join(summary.reasons) or 'failed'}); see {root}")
    return root


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    """The rows of one of a run folder's CSV tables."""
    with (folder / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def iteration_times_s(folder: Path) -> dict[str, list[float]]:
    """Durations of all iterations by policy, in order of repeat."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in sorted(rows(folder, "iterations"), key=lambda row: (int(row["repeat"]), int(row["iteration"]))):
        found[row["policy"]].append(float(row["duration_s"]))
    return found


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `values` lie."""
    return float(np.quantile(values, share))


def _parent() -> Path:
    parent = Path("results/runs")
    parent.mkdir(parents=True, exist_ok=True)
    return parent
