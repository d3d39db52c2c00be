"""Going on with an experiment that stopped: whether it is the same one, and what is left to do."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelon.running.manifest import git_revision, manifest, versions
from echelonflow.codec import builtins
from echelonflow.errors import InputError
from echelonflow.records.agent_log import read_agent_log
from echelonflow.records.assignment import AssignedRun
from echelonflow.records.calibration import Calibration, read_calibration
from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import Manifest, read_manifest
from echelonflow.records.outcome import RunOutcome, read_outcome
from echelonflow.records.plain_files import check_plain
from echelonflow.records.plan import read_plan
from echelonflow.records.seal import broken, seal_or_none

_SAME = ("name", "backend", "network", "jobs", "trace", "faults", "policies", "repeats", "seed", "limits", "experiment")
"""Fields of the manifest that have to agree. The last is the whole file as read; the others name what differs better."""


@dataclass(frozen=True)
class Begun:
    """An experiment that was begun in `root`."""

    root: Path
    manifest: Manifest
    experiment: Experiment


def begun(root: Path, given: Experiment | None = None) -> Begun:
    """The experiment that was begun in `root`, of which `given` is another reading.

    Raises InputError where nothing was begun there, where files that it names have changed, and where `given` is another
    experiment.
    """
    if not RunFolder(root).manifest.exists():
        raise InputError(f"{root}: no experiment was begun there (it has no manifest.json); begin it without --resume")
    check_plain(root)
    earlier = read_manifest(RunFolder(root).manifest)
    experiment = given or _rebuilt(root, earlier)
    now = manifest(experiment, earlier.backend, {})
    differing = [field for field in _SAME if _plain(getattr(now, field)) != _plain(getattr(earlier, field))]
    if differing:
        what = "the file given" if given is not None else "what its files hold now"
        raise InputError(
            f"{root}: was begun with another experiment: {', '.join(differing)} differ from {what}; "
            "name a new folder with --out"
        )
    return Begun(root, earlier, experiment)


def changes(earlier: Manifest) -> str | None:
    """What has changed in code and libraries since the experiment was begun, in words; None if nothing has."""
    found = []
    if earlier.git != git_revision():
        found.append(f"the code (revision {earlier.git or 'unknown'}, now {git_revision() or 'unknown'})")
    now = versions()
    names = sorted({*earlier.versions, *now})
    found += [
        f"{name} ({earlier.versions.get(name, 'none')}, now {now.get(name, 'none')})"
        for name in names
        if earlier.versions.get(name) != now.get(name)
    ]
    if not found:
        return None
    return f"changed since the experiment was begun: {', '.join(found)}; runs before and after may not be comparable"


def left(runs: Sequence[AssignedRun], folder: RunFolder) -> tuple[AssignedRun, ...]:
    """Those of `runs` that are not finished, in order, with indices above all that were used for runs that are kept.

    What speaks for a run by its index (a calibration) goes on to do so.
    """
    changed = [path.split("/") for path in _changed(folder)]  # as a seal says them, which may say anything
    labels = {parts[1] for parts in changed if parts[0] == folder.raw.name and len(parts) > 1}
    captures = {parts[-1] for parts in changed if parts[0] == folder.pcap.name}
    kept = {
        run.label: outcome
        for run in runs
        if run.label not in labels
        and (outcome := _finished(run, folder)) is not None
        and not captures & {capture.file for capture in outcome.captures.values()}
    }
    calibration = _calibration(folder)
    if calibration is None:  # nothing speaks for the links of the runs that were made
        kept = {}
        folder.calibration.unlink(missing_ok=True)
    return _numbered([run for run in runs if run.label not in kept], kept.values(), calibration)


def added(runs: Sequence[AssignedRun], folder: RunFolder) -> tuple[AssignedRun, ...]:
    """Those of `runs` of which there is nothing yet, in order, with indices as `left` gives them: what is there is kept."""
    there, todo = [], []
    for run in runs:
        outcome = folder.run(run.label).outcome
        if outcome.exists():
            there.append(read_outcome(outcome))
        else:
            todo.append(run)
    return _numbered(todo, there, _calibration(folder))


def _calibration(folder: RunFolder) -> Calibration | None:
    try:
        return read_calibration(folder.calibration)
    except InputError:
        return None


def _numbered(
    runs: Sequence[AssignedRun], kept: Iterable[RunOutcome], calibration: Calibration | None
) -> tuple[AssignedRun, ...]:
    used = [outcome.run_index for outcome in kept]
    used += [] if calibration is None else [attempt.first_run for attempt in calibration.attempts]
    first = max(used, default=-1) + 1
    return tuple(msgspec.structs.replace(run, run_index=first + number) for number, run in enumerate(runs))


def discard(runs: Sequence[AssignedRun], hosts: Sequence[str], folder: RunFolder) -> None:
    """Remove what earlier tries of `runs` left."""
    for run in runs:
        files = folder.run(run.label)
        if files.root.exists():
            shutil.rmtree(files.root)
        for host in hosts:
            folder.capture(run.label, host).unlink(missing_ok=True)


def _rebuilt(root: Path, earlier: Manifest) -> Experiment:
    if earlier.experiment is None or earlier.experiment_folder is None:
        raise InputError(f"{root}: was made before experiments could be resumed; name a new folder with --out")
    path = Path(earlier.experiment_folder) / (earlier.experiment_file or "experiment.yaml")
    return schema.check(earlier.experiment, path)


def _plain(value: Any) -> Any:
    """`value` as JSON would give it back."""
    return msgspec.json.decode(msgspec.json.encode(builtins(value)))


def _changed(folder: RunFolder) -> list[str]:
    """Raw files that are not what they were when the experiment ended, by their paths in the folder."""
    seal, _ = seal_or_none(folder)
    return [] if seal is None else list(broken(folder, seal))


def _finished(run: AssignedRun, folder: RunFolder) -> RunOutcome | None:
    """How a run ended that is complete and readable; None for any other."""
    files = folder.run(run.label)
    try:
        outcome = read_outcome(files.outcome)
        if not outcome.completed or (outcome.policy, outcome.repeat) != (run.policy, run.repeat):
            return None
        read_plan(files.plan)
        read_decisions(files.decisions)
        for host in outcome.captures:
            folder.capture(run.label, host).stat()
            files.agent(host).stat()
            for _ in read_agent_log(files.agent(host)):
                pass
    except (InputError, OSError):
        return None
    return outcome
