"""Runs of several folders side by side: what each was run with, and what came of it, in one list.

Folders may be those of runs and of sweeps. What differs between their experiments is found by comparing them path by path,
so that nobody takes two networks for one. A path names jobs by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelonflow.errors import InputError
from echelonflow.files import exists
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import Manifest, read_manifest
from echelonflow.records.sweeps import SWEEP, SweepRecord, read_sweep
from echelonflow.spelling import in_one_line
from results.analysis.cells import damaged_cells, found_cells
from results.analysis.run_figures import job_numbers, link_shares_of, run_numbers
from results.analysis.summary import read_summary

_NO_PARAMETER = ("name", "title", "policies", "against", "repeats", "seed", "sweep", "time_unit")
"""Keys of an experiment that are no conditions of a run, or stand in columns of their own."""
FOLDER = "folder"
"""The column that tells folders apart where nothing else does."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One job in one run: of one policy, under known conditions."""

    settings: tuple[tuple[str, str], ...]
    """What differs between the runs that are compared: path and value, as texts."""
    backend: str
    policy: str
    seed: int
    repeat: int
    """Number of the run among those of its policy and seed, counted from 0: pairs agree in both."""
    job: str
    valid: bool
    reason: str
    figures: Mapping[str, float | None]
    """By name; seconds where the name says so."""


@dataclass(frozen=True)
class Gathered:
    """All runs of some folders."""

    observations: Sequence[Observation]
    policies: Sequence[str]
    """In the order in which they were found."""
    against: str | None
    """The policy that the first folder compares with."""
    missing: int
    """Cells that sweeps were to have and have not."""
    damaged: int = 0
    """Those of them whose folder is there, and cannot be read."""


@dataclass(frozen=True)
class _Condition:
    """What runs have in common that were made under the same conditions: every value of their experiment, by path."""

    folder: str
    backend: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class _Run:
    condition: _Condition
    policy: str
    seed: int
    repeat: int
    valid: bool
    reason: str
    jobs: Mapping[str, Mapping[str, float | None]]
    together: Mapping[str, float | None]


@dataclass(frozen=True)
class _Folder:
    runs: Sequence[_Run]
    jobs: Sequence[str]
    policies: Sequence[str]
    against: str | None
    missing: int = 0
    damaged: int = 0


def gather(folders: Sequence[Path]) -> Gathered:
    """The runs of `folders`; InputError where one is no folder of runs or of a sweep, or their jobs are not the same."""
    read = {str(folder): _read(folder) for folder in folders}
    first, *others = read.items()
    for name, folder in others:
        if set(folder.jobs) != set(first[1].jobs):
            raise InputError(
                f"{name} has jobs {', '.join(folder.jobs)}, and {first[0]} has {', '.join(first[1].jobs)}: "
                "only runs of the same jobs can be compared; name folders whose jobs have the same names"
            )
    runs = [run for folder in read.values() for run in folder.runs]
    if not runs:
        raise InputError(f"{first[0]}: holds no run that has ended; there is nothing to compare yet")
    conditions = list({id(run.condition): run.condition for run in runs}.values())
    told_apart = _told_apart(conditions)
    if _same_twice(runs, told_apart):
        told_apart = [FOLDER, *told_apart]
    found = []
    for run in runs:
        settings = tuple((path, _value(run.condition, path)) for path in told_apart)
        for job, figures in (run.jobs or {"": {}}).items():
            found.append(
                Observation(
                    settings,
                    run.condition.backend,
                    run.policy,
                    run.seed,
                    run.repeat,
                    job,
                    run.valid and bool(job),
                    run.reason,
                    {**figures, **run.together},
                )
            )
    policies = list(dict.fromkeys(policy for folder in read.values() for policy in folder.policies))
    against = next((folder.against for folder in read.values() if folder.against), None)
    missing, damaged = (sum(getattr(folder, name) for folder in read.values()) for name in ("missing", "damaged"))
    return Gathered(found, policies, against, missing, damaged)


def _read(folder: Path) -> _Folder:
    if exists(folder / SWEEP):
        return _of_sweep(folder, read_sweep(folder))
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    files = RunFolder(folder)
    try:
        manifest = read_manifest(files.manifest)
    except InputError as error:
        raise InputError(f"{folder}: is neither the folder of a run nor of a sweep ({error})") from None
    return _of_run(folder, manifest)


def _of_run(folder: Path, manifest: Manifest) -> _Folder:
    if manifest.trace is not None:
        raise InputError(
            f"{folder}: holds runs of a trace of Coflows, which are not compared; its report has their table"
        )
    try:
        summary = read_summary(folder / "summary.json")
    except InputError as error:
        raise InputError(f"{error}; make it anew: echelon report {folder}") from None
    condition = _Condition(str(folder), manifest.backend, _flat(manifest.experiment or {}))
    names = [job.name for job in manifest.jobs]
    shares = link_shares_of(folder / "links.csv")
    runs = [
        _Run(
            condition, run.policy, manifest.seed, run.repeat, run.valid, "; ".join(run.reasons),
            {job: job_numbers(figures, run.measures.get(job)) for job, figures in run.jobs.items()},
            run_numbers(run.together, shares.get((run.policy, run.repeat), ()), run.control),
        )
        for run in summary.runs
    ]  # fmt: skip
    return _Folder(runs, names, manifest.policies, manifest.against)


def _of_sweep(folder: Path, record: SweepRecord) -> _Folder:
    base = _flat(record.experiment)
    names = _job_names(record.experiment)
    conditions = [
        _Condition(str(folder), record.backend, {**base, **_flat_point(point, names)}) for point in record.points
    ]
    found = found_cells(folder, record)
    runs = [
        _Run(
            conditions[planned.point], planned.policy, planned.seed, 0, cell.valid, "; ".join(cell.reasons),
            cell.jobs, cell.together,
        )
        for planned in record.cells
        if (cell := found.get(planned.name)) is not None
    ]  # fmt: skip
    jobs = list(dict.fromkeys(job for run in runs for job in run.jobs)) or names
    missing = len(record.cells) - len(runs)
    return _Folder(runs, jobs, record.policies, record.against, missing, len(damaged_cells(folder, record, found)))


def _told_apart(conditions: Sequence[_Condition]) -> list[str]:
    """Paths at which not all conditions have the same value, in the order in which they are found."""
    paths = dict.fromkeys(path for condition in conditions for path in condition.values)
    return [path for path in paths if len({condition.values.get(path) for condition in conditions}) > 1]


def _same_twice(runs: Sequence[_Run], paths: Sequence[str]) -> bool:
    """Whether two folders have a run of the same policy and seed under conditions that `paths` do not tell apart."""
    seen: dict[object, str] = {}
    for run in runs:
        values = tuple(run.condition.values.get(path) for path in paths)
        key = (values, run.condition.backend, run.policy, run.seed, run.repeat)
        if seen.setdefault(key, run.condition.folder) != run.condition.folder:
            return True
    return False


def _value(condition: _Condition, path: str) -> str:
    return condition.folder if path == FOLDER else condition.values.get(path, "")


def _flat(experiment: Mapping[str, Any]) -> dict[str, str]:
    """Every value of an experiment as text, by its path."""
    kept = {key: value for key, value in experiment.items() if key not in _NO_PARAMETER}
    return dict(_leaves(kept, ""))


def _leaves(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for place, part in enumerate(value):
            named = part.get("name") if isinstance(part, dict) else None
            yield from _leaves(part, f"{where}.{named or place}")
    else:
        yield where, in_one_line(value)


def _flat_point(point: Mapping[str, Any], jobs: Sequence[str]) -> dict[str, str]:
    """The same of the values of a point, jobs by their names."""
    found: dict[str, str] = {}
    for path, value in point.items():
        first, dot, rest = path.partition(".")
        number, _, end = rest.partition(".")
        if first == "jobs" and dot and number.isdecimal() and int(number) < len(jobs):
            path = f"jobs.{jobs[int(number)]}.{end}".rstrip(".")  # noqa: PLW2901
        found.update(_leaves(value, path))
    return found


def _job_names(experiment: Mapping[str, Any]) -> list[str]:
    jobs = experiment.get("jobs")
    named = [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []
    return [str(job.get("name")) for job in named]
