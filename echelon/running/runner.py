"""Carries out a checked experiment: prediction, emulation in private worlds or simulation, analysis."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any, Literal

from echelon.experiment.extent import check_emulation
from echelon.experiment.schema import Experiment
from echelon.running import capacity, place, resuming, simulated, space, worlds
from echelon.running.manifest import manifest, resumed
from echelon.running.outages import too_late, with_real_outages
from echelon.running.resuming import Begun
from echelon.running.simulated import predict
from echelonflow.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_VALID,
    InputError,
    PolicyError,
    StorageError,
)
from echelonflow.files import write_whole
from echelonflow.model.network import Network
from echelonflow.model.units import parse_duration_s
from echelonflow.records.assignment import AssignedRun, Assignment
from echelonflow.records.calibration import Calibration, read_calibration
from echelonflow.records.folder import RunFolder, policy_labels, run_label
from echelonflow.records.manifest import write_manifest
from echelonflow.records.outcome import INTERRUPTED, read_outcome
from echelonflow.records.placed_job import PlacedJob
from echelonflow.records.progress import Analysing, Done, Interrupted, Predicting, Report, Warned
from echelonflow.records.run_record import RunRecord
from echelonflow.records.runs import save_runs
from echelonflow.records.seal import write_seal
from results.folder import Summary, analyse
from traffic.agent.plan import check_observable

__all__ = ["INTERRUPTED", "Backend", "exit_code", "only_build", "predict", "resume", "run"]

Backend = Literal["emulation", "fluid"]


def run(
    experiment: Experiment, root: Path, backend: Backend, report: Report, *, pictures: bool = True
) -> tuple[int, Summary]:
    """Run `experiment` into the new folder `root`; returns the exit code and what was found.

    Raises InputError, and leaves no folder, if a policy cannot do its work on these jobs, the folder is in use, or this
    machine cannot emulate. What fails later is in the folder and in the exit code, and what was finished is analysed.
    """
    return _Order(experiment, root, backend, report, None, pictures).carry_out()


def resume(begun: Begun, report: Report, *, pictures: bool = True) -> tuple[int, Summary]:
    """Go on with an experiment where it stopped: what is finished is kept, what failed or is missing is done.

    Returns the exit code and what was found, as `run` does.
    """
    changed = resuming.changes(begun.manifest)
    if changed is not None:
        report(Warned(changed))
    return _Order(begun.experiment, begun.root, begun.manifest.backend, report, begun, pictures).carry_out()


@dataclasses.dataclass(frozen=True)
class _Order:
    """What is to be done, and where; `begun` is None for an experiment that is new."""

    experiment: Experiment
    root: Path
    backend: Backend
    report: Report
    begun: Begun | None
    pictures: bool

    def carry_out(self) -> tuple[int, Summary]:
        experiment = self.experiment
        if self.backend == "emulation":
            if experiment.trace is not None:
                raise InputError(
                    f"{experiment.path}: a trace of Coflows ({experiment.trace.flows} flows) is simulated, not emulated; "
                    "add --backend fluid, or describe the jobs behind it by a paradigm"
                )
            check_emulation(experiment.network, experiment.jobs, experiment.repeats, len(experiment.policies))
            for job in experiment.jobs:
                check_observable(job)
            self.report(Predicting())
            predictions = {name: predict(experiment, name) for name in experiment.policies}
            for words in too_late(experiment.faults, predictions):
                self.report(Warned(words))
            with place.opened(self.root, again=self.begun is not None) as folder:
                return self._analysed(folder, self._emulate(folder, predictions))
        with place.opened(self.root, again=self.begun is not None) as folder:
            return self._analysed(folder, self._simulate(folder))

    def _begin(self, folder: RunFolder, machine: dict[str, Any]) -> None:
        """The manifest first: what has none was never begun."""
        if self.begun is None:
            write_manifest(folder.manifest, manifest(self.experiment, self.backend, machine))
        else:
            write_manifest(folder.manifest, resumed(self.begun.manifest))
            for path in (folder.failure, folder.seal):
                path.unlink(missing_ok=True)
            place.remove_parts_of_files(folder)
        place.make_parts(folder)

    def _simulate(self, folder: RunFolder) -> str | None:
        self._begin(folder, {})
        if self.experiment.trace is not None:
            return simulated.simulate_coflows(self.experiment, self.experiment.trace, folder, self.report)
        return simulated.simulate_jobs(self.experiment, folder, self.report)

    def _emulate(self, folder: RunFolder, predictions: dict[str, RunRecord]) -> str | None:
        """Emulate the runs that are not finished; returns None, or why not all were tried."""
        from testbed import preflight, world

        all_runs = runs_of(self.experiment, predictions)
        runs = all_runs if self.begun is None else resuming.left(all_runs, folder)
        if not runs:
            self._begin(folder, {})
            return None
        preflight.require()
        assignment = _assignment(self.experiment, runs, before=len(all_runs) - len(runs))
        for words in (
            capacity.warning(self.experiment.network, capacity.recall(capacity.store())),
            space.warning(folder.root, assignment.run_bytes, len(runs)),
        ):
            if words is not None:
                self.report(Warned(words))
        with world.machine_lock():
            self._begin(folder, preflight.machine_facts())
            resuming.discard(runs, self.experiment.network.hosts, folder)
            save_runs(folder.prediction, list(predictions.values()))
            return worlds.emulate(assignment, folder, self.report)

    def _analysed(self, folder: RunFolder, failure: str | None) -> tuple[int, Summary]:
        """Note why the experiment ended early, if it did, and make tables, pictures and the report of what there is."""
        if failure is not None:
            try:
                write_whole(folder.failure, failure + "\n")
            except StorageError as error:  # whoever started us hears of both all the same
                self.report(Warned(f"{error} (it was to say: {failure})"))
        if self.backend == "emulation":
            self.report(Analysing())
            allowed = _allowing_for_bursts(with_real_outages(self.experiment, folder), _calibration(folder))
            if allowed is not self.experiment:
                self._predict_again(folder, allowed)
        try:
            write_seal(folder)
        except StorageError as error:
            self.report(Warned(str(error)))
        summary = analyse(folder.root, pictures=self.pictures)
        return exit_code(folder.root, summary), summary

    def _predict_again(self, folder: RunFolder, allowed: Experiment) -> None:
        try:
            save_runs(folder.prediction, [predict(allowed, name) for name in allowed.policies])
        except PolicyError as error:  # it could before: what was emulated is not lost for that
            self.report(Warned(f"{error}; predictions are those of ideal links"))


def _calibration(folder: RunFolder) -> Calibration | None:
    try:
        return read_calibration(folder.calibration)
    except InputError:  # the analysis names it
        return None


def _allowing_for_bursts(experiment: Experiment, calibration: Calibration | None) -> Experiment:
    """The experiment as links were emulated: what they pass at once after an idle spell is known only then.

    Measured over the idle spells of an iteration it is no trifle: 20 ms made `gpt2-pipeline.yaml` 7 % shorter.
    """
    if calibration is None or experiment.realism.burst_s > 0:
        return experiment
    realism = dataclasses.replace(experiment.realism, burst_s=calibration.last.burst_s)
    return dataclasses.replace(experiment, realism=realism)


def exit_code(root: Path, summary: Summary) -> int:
    """Exit code that belongs to a run folder: interrupted, failed (in a run or altogether), invalid, or valid."""
    folder = RunFolder(root)
    if folder.failure.exists():
        interrupted = folder.failure.read_text(encoding="utf-8", errors="replace").strip() == INTERRUPTED
        return EXIT_INTERRUPTED if interrupted else EXIT_FAILED
    if any(_failed(run.outcome) for run in folder.runs()):
        return EXIT_FAILED
    return EXIT_VALID if summary.valid else EXIT_INVALID


def _failed(outcome: Path) -> bool:
    try:
        return not read_outcome(outcome).completed
    except InputError:  # what cannot be read is named by the analysis
        return True


def runs_of(experiment: Experiment, predictions: dict[str, RunRecord]) -> tuple[AssignedRun, ...]:
    """All runs, repeat by repeat, the policies of a repeat in an order drawn by the seed.

    Policies take turns so that a machine that slows down in the course of an hour slows all of them.
    """
    runs: list[AssignedRun] = []
    labels = policy_labels(experiment.policies)
    for repeat in range(experiment.repeats):
        turn = list(experiment.policies)
        random.Random(experiment.seed * 1_000_003 + repeat).shuffle(turn)
        for policy in turn:
            label = run_label(labels[policy], repeat)
            runs.append(
                AssignedRun(len(runs), policy, label, repeat, experiment.enforcer_of(policy), predictions[policy].end_s)
            )
    return tuple(runs)


def _assignment(experiment: Experiment, runs: tuple[AssignedRun, ...], *, before: int) -> Assignment:
    emulation = experiment.emulation
    return Assignment(
        network=experiment.network,
        jobs=tuple(map(PlacedJob.of, experiment.jobs)),
        runs=runs,
        before=before,
        run_bytes=space.run_bytes(experiment.jobs),
        faults=experiment.faults,
        datapath=emulation.datapath,
        tso=emulation.tso,
        congestion_control=emulation.congestion_control,
        framework=emulation.framework,
        progress_interval_s=parse_duration_s(emulation.progress_interval),
        max_link_error=experiment.limits.max_link_error,
    )


def only_build(network: Network, folder: RunFolder) -> str | None:
    """Bring `network` up, connected to its controller, and down again; None, or why that failed."""
    from testbed import world

    place.make_parts(folder)
    with world.machine_lock():
        ended = worlds.in_world(Assignment(network=network, calibrate=False), folder, lambda _: None)
    if isinstance(ended, Interrupted):
        return INTERRUPTED
    return None if isinstance(ended, Done) else ended.reason
