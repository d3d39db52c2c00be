"""What all runs of a folder share, read once; what of it cannot be read is named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.model.dag import Job
from echelonflow.records.assignment import Assignment, read_assignment
from echelonflow.records.budget import ExplainedRun, read_budgets
from echelonflow.records.calibration import Calibration, read_calibration
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import Manifest, read_manifest
from echelonflow.records.network_file import read_network
from echelonflow.records.plain_files import check_plain
from echelonflow.records.run_record import RunRecord, as_begun
from echelonflow.records.runs import load_runs, save_runs
from echelonflow.records.seal import broken, read_seal
from echelonflow.records.yardsticks import NO_YARDSTICKS, Yardsticks, read_yardsticks
from results.analysis import contradictions
from results.analysis.asked import MOST_S, Asked, check_size, checked, named, strange_blame, strange_loads
from results.analysis.counted import counted_of, only
from results.analysis.figures import JobFigures, job_figures, mean_figures
from results.analysis.limits import Limits
from results.analysis.rows import IterationRow, RunRows, run_rows

_MOST_RUNS = 10_000_000
RunOf = tuple[str, int]
"""(policy, repeat)."""


@dataclass(frozen=True)
class Context:
    """What all runs of a folder share."""

    root: Path
    manifest: Manifest
    jobs: tuple[Job, ...]
    prediction: Mapping[RunOf, RunRecord] = field(default_factory=dict)
    """The fluid run of each policy and repeat; where nothing is drawn, of repeat 0 alone."""
    calibration: Calibration | None = None
    """What links were found to carry; None where they never were measured."""
    explained: Mapping[str, ExplainedRun] | None = None
    """Each run simulated again with what it measured, by label; None in folders from before that was done."""
    yardsticks: Yardsticks = NO_YARDSTICKS
    """What every run is held against; nothing in folders from before there were any."""
    assignment: Assignment | None = None
    """What the emulator had to do; None in simulations, and where it cannot be read."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Raw files that are not as they were sealed, and what happened to each."""
    wrong: tuple[str, ...] = ()
    """What cannot be read, or contradicts itself, of the files that all runs share."""

    @property
    def files(self) -> RunFolder:
        return RunFolder(self.root)

    @cached_property
    def limits(self) -> Limits:
        return Limits.with_changes(self.manifest.limits)

    @cached_property
    def measured_jobs(self) -> frozenset[str]:
        """Training programs whose computation is measured: what it takes in a run, its log alone says."""
        programs = () if self.assignment is None else self.assignment.programs
        return frozenset(job for program in programs if not program.profiled for job in program.jobs)

    @cached_property
    def predictions(self) -> Mapping[RunOf, RunRows]:
        """Rows of the fluid run of each policy and repeat that was predicted."""
        return {run: run_rows(record, as_begun(self.jobs, record)) for run, record in self.prediction.items()}

    def predicted(self, policy: str, repeat: int) -> Sequence[IterationRow]:
        """Iterations of the fluid run that a run of `policy` should be; none where it was not predicted."""
        return self._rows_predicted(policy, repeat).iterations

    def predicted_figures(self, policy: str, repeat: int) -> Mapping[str, JobFigures]:
        """Figures of each job in the fluid run that a run of `policy` should be; none where it was not predicted."""
        rows = self._rows_predicted(policy, repeat)
        record = self.prediction.get(self._predicted_as(policy, repeat))
        jobs = self.jobs if record is None else as_begun(self.jobs, record)
        return job_figures(only(rows, counted_of(rows.iterations, jobs, self.manifest.counting)), jobs)

    def predicted_means(self) -> Mapping[str, Mapping[str, JobFigures]]:
        """Figures of each job under each policy, over all repeats that were predicted."""
        found: dict[str, dict[str, list[JobFigures]]] = {}
        for policy, repeat in self.predictions:
            for job, figures in self.predicted_figures(policy, repeat).items():
                found.setdefault(policy, {}).setdefault(job, []).append(figures)
        return {policy: {job: mean_figures(each) for job, each in jobs.items()} for policy, jobs in found.items()}

    def _rows_predicted(self, policy: str, repeat: int) -> RunRows:
        return self.predictions.get(self._predicted_as(policy, repeat), RunRows())

    def _predicted_as(self, policy: str, repeat: int) -> RunOf:
        is_drawn = any(job.draws is not None for job in self.jobs)
        return policy, repeat if is_drawn else 0

    @property
    def policies(self) -> list[str]:
        return list(self.manifest.policies)

    def changed_in(self, run_label: str) -> list[str]:
        """In words, the raw files of a run that are not as they were sealed."""
        return [f"{name} {what}" for name, what in self.changed.items() if self._is_of(name, run_label)]

    @property
    def changed_elsewhere(self) -> list[str]:
        """The same of files that belong to no run that is there."""
        labels = [files.root.name for files in self.files.runs()]
        return [
            f"{name} {what}"
            for name, what in self.changed.items()
            if not any(self._is_of(name, run_label) for run_label in labels)
        ]

    @staticmethod
    def _is_of(name: str, run_label: str) -> bool:
        return name.startswith((f"raw/{run_label}/", f"pcap/{run_label}-"))


def open_folder(
    root: Path, predictions: Mapping[str, RunRecord] | None = None, given: Sequence[Job] | None = None
) -> Context:
    """What the runs in `root` share; `predictions` are kept there, in place of what was. `given` are the manifest's jobs.

    InputError where the manifest cannot be read: without it nothing says what the rest is. So, too, where there are links.
    """
    check_plain(root)
    files = RunFolder(root)
    manifest = read_manifest(files.manifest)
    try:
        jobs = tuple(placed.job() for placed in manifest.jobs) if given is None else tuple(given)
        check_size(jobs)
        _check(manifest)
        Limits.with_changes(manifest.limits)
    except InputError as error:
        raise InputError(f"{files.manifest}: {error}") from None
    wrong: list[str] = []
    changed = _changed(files, manifest, wrong)
    emulated = manifest.backend == "emulation"
    if predictions is not None:
        save_runs(files.prediction, list(predictions.values()))
        prediction: Mapping[RunOf, RunRecord] = {(run.policy, run.repeat): run for run in predictions.values()}
    else:
        prediction = _prediction(files, Asked(jobs), wrong) if manifest.trace is None else {}
    return Context(
        root=root,
        manifest=manifest,
        jobs=jobs,
        prediction=prediction,
        calibration=_calibration(files, wrong) if emulated else None,
        explained=_explained(files, Asked(jobs), wrong) if emulated else None,
        yardsticks=_yardsticks(files, wrong) if manifest.trace is None else NO_YARDSTICKS,
        assignment=_assignment(files, manifest, wrong) if emulated else None,
        changed=changed,
        wrong=tuple(wrong),
    )


def _check(manifest: Manifest) -> None:
    names = (manifest.name, *manifest.policies, *(job.name for job in manifest.jobs))
    if not all(name.isprintable() for name in names):
        raise InputError("a name of an experiment, policy or job holds characters that cannot be printed")
    if not manifest.policies or len(set(manifest.policies)) != len(manifest.policies):
        raise InputError("policies: names none, or one twice")
    if not 0 < manifest.stretch < math.inf:
        raise InputError(f"stretch is {manifest.stretch}, by which no time is stretched")
    if manifest.against is not None and manifest.against not in manifest.policies:
        raise InputError(f"against names {manifest.against!r}, which is none of the policies")
    if not 0 < manifest.repeats * len(manifest.policies) <= _MOST_RUNS:
        raise InputError(f"repeats is {manifest.repeats}, which no experiment has")
    if not sum(manifest.runs_given().values()) <= _MOST_RUNS:
        raise InputError(f"attempts is {manifest.attempts}, which no experiment has")
    if manifest.time_unit_s is not None and not 0 < manifest.time_unit_s < math.inf:
        raise InputError(f"time_unit_s is {manifest.time_unit_s}; a unit is positive")
    if not manifest.jobs and manifest.trace is None:
        raise InputError("names neither jobs nor a trace")
    if manifest.trace is not None and manifest.backend != "fluid":
        raise InputError("a trace of Coflows is simulated; backend says it was emulated")


def _changed(files: RunFolder, manifest: Manifest, wrong: list[str]) -> Mapping[str, str]:
    """Raw files that are not as they were sealed; a seal that is missing or unreadable is `wrong`."""
    if not files.seal.exists():
        if manifest.sealed:
            wrong.append("seal.json is missing: nothing says that raw files are as they were when the experiment ended")
        return {}
    try:
        return broken(files, read_seal(files.seal))
    except InputError as error:
        wrong.append(f"cannot be read: {error}")
        return {}


def _prediction(files: RunFolder, asked: Asked, wrong: list[str]) -> Mapping[RunOf, RunRecord]:
    if not files.prediction.exists():
        return {}
    try:
        runs = load_runs(files.prediction)
    except InputError as error:
        wrong.append(f"cannot be read: {error}")
        return {}
    found = {}
    for run in runs:
        try:
            found[run.policy, run.repeat] = checked(run, asked, f"{files.prediction}, {run.policy}")
        except InputError as error:
            wrong.append(f"cannot be read: {error}")
    return found


def _calibration(files: RunFolder, wrong: list[str]) -> Calibration | None:
    try:
        return read_calibration(files.calibration)
    except InputError as error:
        wrong.append(f"cannot be read: {error}")
        return None


def _yardsticks(files: RunFolder, wrong: list[str]) -> Yardsticks:
    try:
        found = read_yardsticks(files.yardsticks) or NO_YARDSTICKS
    except InputError as error:
        wrong.append(f"cannot be read: {error}")
        return NO_YARDSTICKS
    times_s = [each for job in found.alone_s.values() for each in job]
    if not all(0 <= each < MOST_S for each in (*times_s, found.bound_s or 0.0)):
        wrong.append(f"cannot be read: {files.yardsticks}: tells of times that cannot be")
        return NO_YARDSTICKS
    return found


def _explained(files: RunFolder, asked: Asked, wrong: list[str]) -> Mapping[str, ExplainedRun] | None:
    try:
        budgets = read_budgets(files.budget)
    except InputError as error:
        wrong.append(f"cannot be read: {error}")
        return {}
    if budgets is None:
        return None
    strange = [
        label
        for label, run in budgets.runs.items()
        if not all(0 <= s < MOST_S for s in run.times_s)
        or (run.ensemble is not None and not run.ensemble.is_whole)
        or strange_blame(run.blame, asked)
        or strange_loads(run.links)
    ]
    if strange:
        wrong.append(f"cannot be read: {files.budget}: tells of times that cannot be in {named(strange)}")
    return {label: run for label, run in budgets.runs.items() if label not in strange}


def _assignment(files: RunFolder, manifest: Manifest, wrong: list[str]) -> Assignment | None:
    """What was assigned, held against the manifest and the controller's own network; version 0 had none."""
    if manifest.network is not None and files.network.exists():
        try:
            if read_network(files.network) != manifest.network:
                wrong.append("manifest.json and network.json differ in the network")
        except InputError as error:
            wrong.append(f"cannot be read: {error}")
    if not files.assignment.exists():
        return None
    try:
        assignment = read_assignment(files.assignment)
    except InputError as error:
        wrong.append(f"cannot be read: {error}")
        return None
    wrong.extend(contradictions.of_experiment(manifest, assignment))
    return assignment
