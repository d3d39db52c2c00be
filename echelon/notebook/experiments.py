"""From a file or a description to an experiment, and from that to results."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from echelon.cli.display import Display
from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelon.notebook.results import Results, read_run
from echelon.notebook.sweeping import SweepResults, read_swept
from echelon.running import ownership, place, runner
from echelon.running.attempts import extra
from echelonflow.files import exists
from echelonflow.records.sweeps import SWEEP

DESCRIBED = "experiment.yaml"
"""What a description without a file is called in messages."""


def load(path: str | Path, /, **changes: Any) -> Experiment:
    """The experiment in a file, with other values for top-level keys: `load("pipeline.yaml", policies=["fair"])`.

    Where a change is a mapping, such as `network={"rate": "20 Mbit/s"}`, only the keys in it are replaced. Raises
    InputError with a line for every mistake.
    """
    return schema.load(Path(path), changes)


def build(description: Mapping[str, Any], folder: str | Path = ".") -> Experiment:
    """The experiment that a mapping describes, with the keys of an experiment file.

    Files that it names are relative to `folder`. Raises InputError with a line for every mistake.
    """
    return schema.check(dict(description), Path(folder) / DESCRIBED)


def with_changes(experiment: Experiment, /, **changes: Any) -> Experiment:
    """The same experiment with other values for top-level keys, as `load` takes them (InputError for mistakes)."""
    source = dict(experiment.source)
    for key, value in changes.items():
        before = source.get(key)
        source[key] = {**before, **value} if isinstance(value, dict) and isinstance(before, dict) else value
    return schema.check(source, experiment.path)


def simulate(experiment: Experiment, out: str | Path | None = None) -> Results:
    """Fluid simulation under every policy of the experiment.

    `out` is a new folder for tables and report; without it they are gone with the results. Raises InputError for a
    folder that is in use, and PolicyError where a policy cannot do its work.
    """
    if out is not None:
        return _carried_out(experiment, Path(out), "fluid", {})
    kept = tempfile.TemporaryDirectory(prefix="echelon-")
    return _carried_out(experiment, Path(kept.name) / experiment.name, "fluid", {"pictures": "none"}, kept)


def emulate(
    experiment: Experiment, out: str | Path | None = None, *, attempts: int | None = None, patience_s: float = 0.0
) -> Results:
    """The experiment on real packets, which takes root and Open vSwitch: its repeats of every policy.

    `out` is a new folder, by default one in results/runs/. `attempts` are the most runs of each policy, those that do
    not count included (default: half as many again as its repeats). For `patience_s` seconds at most a spell is waited
    for in which the machine is accurate enough. What goes on is told on standard error. Runs that failed or are
    invalid raise nothing: `results.valid` and `results.reasons` tell of them. Raises InputError where the machine
    cannot emulate.
    """
    effort = {"again": extra(attempts, experiment.repeats), "patience_s": patience_s}
    chosen = None if out is None else Path(out)
    with ownership.to_caller(chosen or place.RUNS), place.reserved(chosen, experiment.name) as root:
        return _carried_out(experiment, root, "emulation", effort)


def _carried_out(
    experiment: Experiment, root: Path, backend: runner.Backend, effort: Mapping[str, Any], kept: Any = None
) -> Results:
    with Display(experiment, Console(stderr=True), verbose=False) as display:
        runner.run(experiment, root, backend, display, **effort)
    return read_run(root, kept)


def read(folder: str | Path) -> Results | SweepResults:
    """What lies in a folder that `echelon run` or `echelon sweep` left (InputError where neither did)."""
    root = Path(folder)
    return read_swept(root) if exists(root / SWEEP) else read_run(root)
