"""Experiments that a benchmark measures once and keeps, so that the same command goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from echelon.benchmarks import Say
from echelon.experiment.schema import Experiment
from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, InputError, PolicyError, RunError
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest
from results.analysis.summary import Summary, read_summary

Execute = Callable[[Experiment, Path, Say], tuple[int, Summary]]
"""Carries out an experiment into a folder that is new, or goes on with the one that was begun there."""
Enough = Callable[[Summary], bool]
"""Whether what an experiment that has ended found is all that is wanted of it."""


def every_policy_valid(summary: Summary) -> bool:
    """Whether there is a valid run of every policy."""
    return bool(summary.results) and all(result.valid_runs for result in summary.results)


def measured(experiment: Experiment, parent: Path, say: Say, execute: Execute, enough: Enough) -> Path | None:
    """The run folder of `experiment` in `parent`: one that is there, complete or gone on with, or a new one.

    None if it came to nothing. RunError if it was interrupted.
    """
    root = newest(experiment, parent)
    if root is not None and complete(root, enough):
        say(f"{experiment.name}: measured before, in {root}")
        return root
    root = root or _fresh(experiment.name, parent)
    parent.mkdir(parents=True, exist_ok=True)
    say(f"{experiment.name}: {root}")
    try:
        code, summary = execute(experiment, root, say)
    except (RunError, PolicyError) as error:
        say(f"{experiment.name}: not measured: {error}")
        return None
    if code == EXIT_INTERRUPTED:
        raise RunError("interrupted; the same command goes on with what is not measured yet")
    if code == EXIT_FAILED:
        say(f"{experiment.name}: {summary.reasons[0] if summary.reasons else f'failed; see {root}'}")
    return root if summary.runs else None


def newest(experiment: Experiment, parent: Path) -> Path | None:
    """The folder in which this very experiment was begun last; None if the last one of its name is another."""
    earlier = _numbered(experiment.name, parent)
    if not earlier:
        return None
    try:
        manifest = read_manifest(RunFolder(earlier[-1]).manifest)
    except InputError:
        return None
    return earlier[-1] if manifest.experiment == experiment.source else None


def complete(root: Path, enough: Enough) -> bool:
    """Whether the experiment in `root` came to its end with `enough`."""
    folder = RunFolder(root)
    if folder.failure.exists() or not folder.seal.exists():
        return False
    try:
        return enough(read_summary(root / "summary.json"))
    except InputError:
        return False


def _fresh(name: str, parent: Path) -> Path:
    earlier = _numbered(name, parent)
    number = int(earlier[-1].suffix[1:]) + 1 if earlier else 1
    return parent / f"{name}.{number}"


def _numbered(name: str, parent: Path) -> list[Path]:
    found = [path for path in parent.glob(f"{name}.*") if path.suffix[1:].isdecimal()]
    return sorted(found, key=lambda path: int(path.suffix[1:]))
