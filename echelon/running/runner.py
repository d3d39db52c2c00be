"""Carries out a checked experiment: prediction, emulation in a private world, analysis."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import signal
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from echelon.experiment.schema import Experiment
from echelon.running import capacity
from echelon.running.manifest import manifest
from echelonflow.child_process import module_argv
from echelonflow.errors import EXIT_FAILED, EXIT_INVALID, EXIT_VALID, InputError, RunError
from echelonflow.model.coflow_trace import CoflowTrace, TraceRecord
from echelonflow.model.network import Network
from echelonflow.model.units import parse_duration_s
from echelonflow.records.assignment import AssignedRun, Assignment, write_assignment
from echelonflow.records.calibration import Calibration, read_calibration
from echelonflow.records.coflow_runs import write_coflow_runs
from echelonflow.records.folder import RunFolder, policy_labels, run_label
from echelonflow.records.manifest import write_manifest
from echelonflow.records.placed_job import PlacedJob
from echelonflow.records.progress import (
    Analysing,
    Broke,
    Done,
    Failed,
    Interrupted,
    Invalid,
    Predicting,
    Report,
    Simulating,
    Warned,
    parse_progress,
)
from echelonflow.records.run_record import RunRecord
from echelonflow.records.runs import save_runs
from echelonflow.scheduling import policies
from results.folder import Summary, analyse
from simulator.fluid import simulate
from simulator.trace import simulate_trace
from traffic.agent.plan import check_observable

Backend = Literal["emulation", "fluid"]
INTERRUPTED = "interrupted"
"""What failure.txt says of an experiment that was interrupted."""
_SAY_EVERY_S = 1.0


def default_folder(experiment: Experiment, parent: Path = Path("results/runs")) -> Path:
    """results/runs/<time>-<name>, not yet existing."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    folder, n = parent / f"{stamp}-{experiment.name}", 1
    while folder.exists():
        n += 1
        folder = parent / f"{stamp}-{experiment.name}-{n}"
    return folder


def run(
    experiment: Experiment, root: Path, backend: Backend, report: Report, *, pictures: bool = True
) -> tuple[int, Summary]:
    """Run `experiment` into the new folder `root`; returns the exit code and what was found.

    Raises InputError before anything is started if a policy cannot do its work on these jobs, the folder
    is in use, or this machine cannot emulate.
    """
    if experiment.trace is not None:
        return _run_trace(experiment, experiment.trace, root, backend, report, pictures=pictures)
    if backend == "emulation":
        for job in experiment.jobs:
            check_observable(job)
    report(Predicting())
    predictions = {name: predict(experiment, name) for name in experiment.policies}
    machine: dict[str, Any] = {}
    if backend == "emulation":
        from testbed import preflight

        preflight.require()
        machine = preflight.machine_facts()
        too_much = capacity.warning(experiment.network, capacity.recall(capacity.store()))
        if too_much is not None:
            report(Warned(too_much))
    folder = _create(root)
    write_manifest(folder.manifest, manifest(experiment, backend, machine))
    save_runs(folder.prediction, list(predictions.values()))
    if backend == "fluid":
        save_runs(folder.simulated_runs, list(predictions.values()))
        return EXIT_VALID, analyse(folder.root, pictures=pictures)
    failure = _emulate(experiment, folder, predictions, report)
    if failure is not None:
        folder.failure.write_text(failure + "\n")
    report(Analysing())
    allowed = _allowing_for_bursts(experiment, read_calibration(folder.calibration))
    if allowed is not experiment:
        save_runs(folder.prediction, [predict(allowed, name) for name in allowed.policies])
    summary = analyse(folder.root, pictures=pictures)
    return exit_code(folder.root, summary), summary


def _allowing_for_bursts(experiment: Experiment, calibration: Calibration | None) -> Experiment:
    """The experiment as links were emulated: what they pass at once after an idle spell is known only then.

    Measured over the idle spells of an iteration it is no trifle: 20 ms made `gpt2-pipeline.yaml` 7 % shorter.
    """
    if calibration is None or experiment.realism.burst_s > 0:
        return experiment
    realism = dataclasses.replace(experiment.realism, burst_s=calibration.last.burst_s)
    return dataclasses.replace(experiment, realism=realism)


def exit_code(root: Path, summary: Summary) -> int:
    """Exit code that belongs to a finished run folder."""
    if RunFolder(root).failure.exists():
        return EXIT_FAILED
    return EXIT_VALID if summary.valid else EXIT_INVALID


def predict(experiment: Experiment, policy: str) -> RunRecord:
    """The fluid simulation of the experiment under one policy.

    PolicyError if it fails, or if a user's policy file thinks for longer than the controller would let it.
    """
    with contextlib.closing(policies.load(policy)) as loaded:
        return simulate(
            experiment.jobs, experiment.network, loaded, realism=experiment.realism, faults=experiment.faults
        )


def _run_trace(
    experiment: Experiment, trace: CoflowTrace, root: Path, backend: Backend, report: Report, *, pictures: bool
) -> tuple[int, Summary]:
    """Simulate the experiment's Coflows under every policy, once: nothing in it is random."""
    if backend != "fluid":
        raise InputError(
            f"{experiment.path}: a trace of Coflows ({trace.flows} flows) is simulated, not emulated; "
            "add --backend fluid, or describe the jobs behind it by a paradigm"
        )
    records = [_simulated(experiment, trace, policy, report) for policy in experiment.policies]
    folder = _create(root)
    write_manifest(folder.manifest, manifest(experiment, backend, {}))
    write_coflow_runs(folder.coflow_runs, trace, records)
    return EXIT_VALID, analyse(folder.root, pictures=pictures)


def _simulated(experiment: Experiment, trace: CoflowTrace, policy: str, report: Report) -> TraceRecord:
    last_s = float(trace.arrival_s.max())
    said_s = time.monotonic()

    def progress(now_s: float) -> None:
        nonlocal said_s
        if time.monotonic() >= said_s + _SAY_EVERY_S:
            said_s = time.monotonic()
            report(Simulating(policy, now_s, last_s))

    report(Simulating(policy, 0.0, last_s))
    with contextlib.closing(policies.load(policy)) as loaded:
        return simulate_trace(trace, experiment.network, loaded, on_progress=progress, realism=experiment.realism)


def _create(root: Path) -> RunFolder:
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InputError(f"{root} exists and is not empty; name another folder with --out")
    folder = RunFolder(root.resolve())
    try:
        _make_parts(folder)
    except OSError as error:
        raise InputError(f"{root} cannot be made: {error.strerror}; name another folder with --out") from None
    return folder


def _make_parts(folder: RunFolder) -> None:
    for path in (folder.root, folder.logs, folder.pcap, folder.raw):
        path.mkdir(parents=True, exist_ok=True)


def _runs(experiment: Experiment, predictions: dict[str, RunRecord]) -> tuple[AssignedRun, ...]:
    """All runs, repeat by repeat, the policies of a repeat in an order drawn by the seed.

    Policies take turns so that a machine that slows down in the course of an hour slows all of them.
    """
    runs: list[AssignedRun] = []
    labels = policy_labels(experiment.policies)
    for repeat in range(experiment.repeats):
        turn = list(experiment.policies)
        random.Random(experiment.seed * 1_000_003 + repeat).shuffle(turn)
        for policy in turn:
            expected_s = max((c.finish_s for c in predictions[policy].computes), default=0.0)
            label = run_label(labels[policy], repeat)
            runs.append(AssignedRun(len(runs), policy, label, repeat, experiment.enforcer_of(policy), expected_s))
    return tuple(runs)


def _emulate(
    experiment: Experiment, folder: RunFolder, predictions: dict[str, RunRecord], report: Report
) -> str | None:
    """Run the emulation to its end; returns None, or why it failed. Interrupts end it, and keep what there is."""
    emulation = experiment.emulation
    assignment = Assignment(
        network=experiment.network,
        jobs=tuple(map(PlacedJob.of, experiment.jobs)),
        runs=_runs(experiment, predictions),
        faults=experiment.faults,
        datapath=emulation.datapath,
        tso=emulation.tso,
        congestion_control=emulation.congestion_control,
        framework=emulation.framework,
        progress_interval_s=parse_duration_s(emulation.progress_interval),
        max_link_error=experiment.limits.max_link_error,
    )
    return _in_world(assignment, folder, report)


def only_build(network: Network, folder: RunFolder) -> str | None:
    """Bring `network` up, connected to its controller, and down again; None, or why that failed."""
    _make_parts(folder)
    return _in_world(Assignment(network=network, calibrate=False), folder, lambda _: None)


def _in_world(assignment: Assignment, folder: RunFolder, report: Report) -> str | None:
    from testbed import world

    write_assignment(folder.assignment, assignment)
    failure: str | None = "the emulation ended without saying why; see logs/emulator.log"
    argv = module_argv("echelon.running.emulator", str(folder.root))
    with world.machine_lock():
        emulator = world.spawn(argv, folder.logs / "emulator.log")
        try:
            assert emulator.stdout is not None
            for line in emulator.stdout:
                progress = parse_progress(line)
                if progress is None:
                    continue
                report(progress)
                if isinstance(progress, Done | Invalid):
                    failure = None
                elif isinstance(progress, Failed | Broke):
                    failure = progress.reason
                elif isinstance(progress, Interrupted):
                    failure = INTERRUPTED
        except KeyboardInterrupt:
            failure = INTERRUPTED
            report(Interrupted())
        finally:
            _end(emulator)
    return failure


def _end(emulator: subprocess.Popen[bytes]) -> None:
    """End the world: ask, wait for it to write its records, then let the kernel end all of it."""
    if emulator.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            emulator.send_signal(signal.SIGINT)
    try:
        emulator.wait(10.0)
    except subprocess.TimeoutExpired:
        emulator.kill()
        emulator.wait()
    except KeyboardInterrupt:
        emulator.kill()
        emulator.wait()
        raise RunError("interrupted twice; the emulation was ended at once") from None
