"""Carries out a checked experiment: prediction, emulation in private worlds or simulation, analysis."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from echelon.experiment.extent import check_emulation
from echelon.experiment.rerun import rerun_data
from echelon.experiment.schema import Experiment
from echelon.running import attempts, capacity, place, resuming, simulated, space, worlds
from echelon.running.accuracy import courses
from echelon.running.bursts import allowing_for_bursts
from echelon.running.explaining import explain
from echelon.running.manifest import manifest, resumed
from echelon.running.outages import too_late, with_real_outages
from echelon.running.resuming import Begun
from echelon.running.simulated import predict
from echelon.running.stages import Asked
from echelon.running.yardsticks import yardsticks_of
from echelonflow.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_VALID,
    EchelonError,
    InputError,
    PolicyError,
    StorageError,
)
from echelonflow.files import write_whole
from echelonflow.model.network import Network
from echelonflow.model.units import parse_duration_s
from echelonflow.records.assignment import AssignedRun, Assignment, LiveProgram
from echelonflow.records.calibration import Calibration, read_calibration
from echelonflow.records.experiment_file import write_experiment_file
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest, write_manifest
from echelonflow.records.outcome import INTERRUPTED, read_outcome
from echelonflow.records.placed_job import PlacedJob
from echelonflow.records.progress import Analysing, Done, Interrupted, Predicting, Repeating, Report, Warned
from echelonflow.records.run_record import RunRecord
from echelonflow.records.runs import save_runs
from echelonflow.records.seal import write_seal
from echelonflow.records.yardsticks import write_yardsticks
from results.analysis.shown import Pictures
from results.folder import Reading, Summary, analyse, read
from traffic.agent.plan import check_observable

if TYPE_CHECKING:
    from testbed.moment import Moment

__all__ = ["INTERRUPTED", "Backend", "begin_or_go_on", "exit_code", "only_build", "predict", "resume", "run"]

Backend = Literal["emulation", "fluid"]


def run(
    experiment: Experiment,
    root: Path,
    backend: Backend,
    report: Report,
    *,
    pictures: Pictures = "few",
    again: int = 0,
    patience_s: float | None = None,
    watched: bool = False,
    programs: tuple[LiveProgram, ...] = (),
) -> tuple[int, Summary]:
    """Run `experiment` into the new folder `root`; returns the exit code and what was found.

    Where emulated runs do not count, up to `again` of each policy are made in their place. With `patience_s` the machine is
    looked at before runs are made, and a quieter spell is waited for as long as that at most. Where it is `watched`,
    emulated links are read while runs go on, and reported (`LinksCarried`). Jobs of `programs` are not replayed: these run. Raises InputError, and leaves
    no folder, if a policy cannot do its work on these jobs, the folder is in use, or this machine cannot emulate. What
    fails later is in the folder and in the exit code, and what was finished is analysed.
    """
    return _Order(experiment, root, backend, report, None, pictures, again, patience_s, watched, programs).carry_out()


def resume(
    begun: Begun,
    report: Report,
    *,
    pictures: Pictures = "few",
    again: int = 0,
    patience_s: float | None = None,
    watched: bool = False,
) -> tuple[int, Summary]:
    """Go on with an experiment where it stopped: what is finished is kept, what failed or is missing is done.

    In the place of what does not count, up to `again` runs of each policy are made. Returns what `run` returns.
    """
    changed = resuming.changes(begun.manifest)
    if changed is not None:
        report(Warned(changed))
    backend = begun.manifest.backend
    order = _Order(begun.experiment, begun.root, backend, report, begun, pictures, again, patience_s, watched)
    return order.carry_out()


def begin_or_go_on(
    experiment: Experiment, root: Path, report: Report, *, pictures: Pictures = "few", again: int = 0
) -> tuple[int, Summary]:
    """Emulate `experiment` into `root`, where it may have been begun before; otherwise as `run`."""
    if RunFolder(root).manifest.exists():
        return resume(resuming.begun(root, experiment), report, pictures=pictures, again=again)
    return run(experiment, root, "emulation", report, pictures=pictures, again=again)


@dataclasses.dataclass(frozen=True)
class _Order:
    """What is to be done, and where; `begun` is None for an experiment that is new."""

    experiment: Experiment
    root: Path
    backend: Backend
    report: Report
    begun: Begun | None
    pictures: Pictures
    again: int
    patience_s: float | None
    watched: bool = False
    programs: tuple[LiveProgram, ...] = ()

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
                summary = self._emulate(folder, predictions).write(pictures=self.pictures)
                return exit_code(folder.root, summary), summary
        with place.opened(self.root, again=self.begun is not None) as folder:
            self._note_end(folder, self._simulate(folder))
            self.report(Analysing())
            summary = analyse(folder.root, pictures=self.pictures, jobs=experiment.jobs)
            return exit_code(folder.root, summary), summary

    def _begin(self, folder: RunFolder, machine: dict[str, Any]) -> None:
        """The manifest first: what has none was never begun."""
        if self.begun is None:
            write_manifest(folder.manifest, manifest(self.experiment, self.backend, machine))
            write_experiment_file(folder.experiment, rerun_data(self.experiment), self.backend)
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
        failure = simulated.simulate_jobs(self.experiment, folder, self.report)
        if failure != INTERRUPTED:  # who interrupts does not wait; going on finds them out
            write_yardsticks(folder.yardsticks, yardsticks_of(self.experiment))
        return failure

    def _emulate(self, folder: RunFolder, predictions: Mapping[str, RunRecord]) -> Reading:
        """Emulate the runs that are not finished, in rounds, until none is missing or no more may be made again."""
        experiment = self.experiment
        begun = dict.fromkeys(experiment.policies, experiment.repeats)
        if self.begun is not None:
            begun = self.begun.manifest.runs_given()
        given, all_runs = begun, attempts.runs_of(experiment, predictions, begun)
        runs = all_runs if self.begun is None else resuming.left(all_runs, folder)
        from echelon.running.patience import Patience

        patience = None if self.patience_s is None else Patience(self.patience_s, self.report)
        paths = [] if patience is None else courses(predictions, experiment.jobs, experiment.limits)
        with _Machine() as machine:
            facts = machine.ready() if runs else {}
            if runs and patience is not None:
                facts = {**facts, **_seen(patience.before_runs(paths))}
            for words in self._warnings(folder, len(runs)):
                self.report(Warned(words))
            self._begin(folder, facts)
            resuming.discard(runs, experiment.network.hosts, folder)
            write_yardsticks(folder.yardsticks, yardsticks_of(experiment))
            others = _predicted(dict.fromkeys(predictions, experiment), begun, first=1)
            save_runs(folder.prediction, [*predictions.values(), *others])
            while True:
                failure = self._round(folder, runs, before=len(all_runs) - len(runs)) if runs else None
                found = self._read(folder, failure)
                now = attempts.given_next(found.summary.runs, experiment.repeats, given, begun, self.again)
                if failure is not None or now == given:
                    return found
                machine.ready()
                try:
                    _note_given(folder, now)
                except StorageError as error:
                    self.report(Warned(f"{error}; no run is made again"))
                    return found
                given, all_runs = now, attempts.runs_of(experiment, predictions, now)
                runs = resuming.added(all_runs, folder)
                words = attempts.told(found.summary.runs, experiment.policies, experiment.repeats, len(runs))
                self.report(Repeating(words))
                if patience is not None:
                    patience.before_runs(paths)

    def _warnings(self, folder: RunFolder, runs: int) -> Iterator[str]:
        if runs:
            found = (
                capacity.warning(self.experiment.network, capacity.recall(capacity.store())),
                space.warning(folder.root, space.run_bytes(self.experiment.jobs), runs),
            )
            yield from (words for words in found if words is not None)

    def _round(self, folder: RunFolder, runs: tuple[AssignedRun, ...], *, before: int) -> str | None:
        """Emulate `runs`; returns None, or why not all were tried."""
        assignment = _assignment(self.experiment, runs, before=before, watched=self.watched)
        assignment = msgspec.structs.replace(assignment, programs=self.programs)
        return worlds.emulate(assignment, folder, self.report)

    def _read(self, folder: RunFolder, failure: str | None) -> Reading:
        """Seal what there is, and judge it."""
        self.report(Analysing())
        self._note_end(folder, failure)
        return read(folder.root)

    def _note_end(self, folder: RunFolder, failure: str | None) -> None:
        """Note why the experiment ended early, if it did, what was emulated in fact, and what every raw file is."""
        if failure is not None:
            try:
                write_whole(folder.failure, failure + "\n")
            except StorageError as error:  # whoever started us hears of both all the same
                self.report(Warned(f"{error} (it was to say: {failure})"))
        if self.backend == "emulation":
            real = with_real_outages(self.experiment, folder)
            allowed = allowing_for_bursts(real, folder, _calibration(folder))
            if allowed or real is not self.experiment or real.is_drawn:  # runs that were added have draws of their own
                self._predict_again(folder, {policy: allowed.get(policy, real) for policy in real.policies})
            try:
                explain(folder, Asked(real.jobs, real.network, real.realism, real.faults, real.counting))
            except EchelonError as error:  # runs are then judged as those that cannot be simulated
                self.report(Warned(f"{error}; what moved the runs' times is not known"))
        try:
            write_seal(folder)
        except StorageError as error:
            self.report(Warned(str(error)))

    def _predict_again(self, folder: RunFolder, allowed: Mapping[str, Experiment]) -> None:
        try:
            save_runs(folder.prediction, _predicted(allowed, read_manifest(folder.manifest).runs_given()))
        except PolicyError as error:  # it could before: what was emulated is not lost for that
            self.report(Warned(f"{error}; predictions are those of ideal links"))


def _predicted(experiments: Mapping[str, Experiment], runs: Mapping[str, int], first: int = 0) -> list[RunRecord]:
    """The prediction of each policy by its experiment: one for all its runs, or where anything is drawn one for each.

    Those before the repeat `first` are left out.
    """
    return [
        predict(experiment, policy, repeat)
        for policy, experiment in experiments.items()
        for repeat in range(first, runs[policy] if experiment.is_drawn else 1)
    ]


class _Machine(contextlib.ExitStack):
    """The machine, for one experiment at a time: it is taken when it is first needed, and kept to the end of the block."""

    def __init__(self) -> None:
        super().__init__()
        self._facts: dict[str, Any] | None = None

    def ready(self) -> dict[str, Any]:
        """Take the machine, unless that is done; returns what results depend on. InputError where it cannot emulate."""
        from testbed import preflight, world

        if self._facts is None:
            preflight.require()
            self.enter_context(world.machine_lock())
            self._facts = preflight.machine_facts()
        return self._facts


def _seen(moment: Moment | None) -> dict[str, str]:
    """For the manifest: what the machine was like before the first run."""
    return {} if moment is None else {"looked at before the first run": moment.words()}


def _note_given(folder: RunFolder, given: dict[str, int]) -> None:
    """Say in the manifest how many runs each policy is given; the seal of those before does not hold any more."""
    write_manifest(folder.manifest, msgspec.structs.replace(read_manifest(folder.manifest), attempts=given))
    folder.seal.unlink(missing_ok=True)


def _calibration(folder: RunFolder) -> Calibration | None:
    try:
        return read_calibration(folder.calibration)
    except InputError:  # the analysis names it
        return None


def exit_code(root: Path, summary: Summary) -> int:
    """Exit code that belongs to a run folder: interrupted, failed (in a run or altogether), invalid, or valid."""
    folder = RunFolder(root)
    if folder.failure.exists():
        interrupted = folder.failure.read_text(encoding="utf-8", errors="replace").strip() == INTERRUPTED
        return EXIT_INTERRUPTED if interrupted else EXIT_FAILED
    if summary.valid:  # runs that failed were made again
        return EXIT_VALID
    return EXIT_FAILED if any(_failed(run.outcome) for run in folder.runs()) else EXIT_INVALID


def _failed(outcome: Path) -> bool:
    try:
        return not read_outcome(outcome).completed
    except InputError:  # what cannot be read is named by the analysis
        return True


def _assignment(experiment: Experiment, runs: tuple[AssignedRun, ...], *, before: int, watched: bool) -> Assignment:
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
        decisions=emulation.decisions,
        progress_interval_s=parse_duration_s(emulation.progress_interval),
        confirm_rules=emulation.confirm_rules,
        watched=watched,
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
