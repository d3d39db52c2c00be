"""Carries out a checked experiment: prediction, emulation in a private world, analysis."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from controller.deadline import deadline
from echelon.experiment.schema import Experiment
from echelon.running import capacity
from echelon.running.manifest import manifest
from echelonflow.errors import EXIT_FAILED, EXIT_INVALID, EXIT_VALID, InputError, RunError
from echelonflow.model.coflow_trace import CoflowTrace, TraceRecord
from echelonflow.model.dag import job_to_dict
from echelonflow.model.network import Network
from echelonflow.model.units import parse_duration_s
from echelonflow.records.folder import RunFolder
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import policies, user_file
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot
from results.coflows import save_coflow_runs
from results.folder import Summary, analyse
from results.record_json import save_runs
from simulator.fluid import simulate
from simulator.trace import simulate_trace

Report = Callable[[dict[str, Any]], None]
"""Is told of progress: {"stage": ..., ...}."""

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
    experiment: Experiment, root: Path, backend: str, report: Report, *, pictures: bool = True
) -> tuple[int, Summary]:
    """Run `experiment` into the new folder `root`; returns the exit code and what was found.

    Raises InputError before anything is started if a policy cannot do its work on these jobs, the folder
    is in use, or this machine cannot emulate.
    """
    if experiment.trace is not None:
        return _run_trace(experiment, experiment.trace, root, backend, report, pictures=pictures)
    report({"stage": "predicting"})
    predictions = {name: predict(experiment, name) for name in experiment.policies}
    machine: dict[str, Any] = {}
    if backend == "emulation":
        from testbed import preflight

        preflight.require()
        machine = preflight.machine_facts()
        too_much = capacity.warning(experiment.network, capacity.recall(capacity.store()))
        if too_much is not None:
            report({"stage": "warning", "reason": too_much})
    folder = _create(root)
    folder.manifest.write_text(json.dumps(manifest(experiment, backend, machine), indent=1))
    save_runs(folder.root / "prediction.json", list(predictions.values()))
    if backend == "fluid":
        save_runs(folder.root / "runs.json", list(predictions.values()))
        return EXIT_VALID, analyse(folder.root, pictures=pictures)
    failure = _emulate(experiment, folder, predictions, report)
    if failure is not None:
        folder.failure.write_text(failure + "\n")
    report({"stage": "analysing"})
    summary = analyse(folder.root, pictures=pictures)
    return exit_code(folder.root, summary), summary


def exit_code(root: Path, summary: Summary) -> int:
    """Exit code that belongs to a finished run folder."""
    if RunFolder(root).failure.exists():
        return EXIT_FAILED
    return EXIT_VALID if summary.valid else EXIT_INVALID


def predict(experiment: Experiment, policy: str) -> RunRecord:
    """The fluid simulation of the experiment under one policy.

    PolicyError if it fails, or if a user's policy file thinks for longer than the controller would let it.
    """
    return simulate(experiment.jobs, experiment.network, _loaded(policy), realism=experiment.realism)


def _loaded(policy: str) -> Policy:
    """The policy called so; one in a user's file may think no longer than the controller would let it."""
    if not user_file.is_named(policy):
        return policies.load(policy)
    with deadline(policy):
        loaded = policies.load(policy)

    def bounded(snapshot: Snapshot) -> Allocation:
        with deadline(policy):
            return loaded(snapshot)

    return dataclasses.replace(loaded, _allocate=bounded)


def _run_trace(
    experiment: Experiment, trace: CoflowTrace, root: Path, backend: str, report: Report, *, pictures: bool
) -> tuple[int, Summary]:
    """Simulate the experiment's Coflows under every policy, once: nothing in it is random."""
    if backend != "fluid":
        raise InputError(
            f"{experiment.path}: a trace of Coflows ({trace.flows} flows) is simulated, not emulated; "
            "add --backend fluid, or describe the jobs behind it by a paradigm"
        )
    records = [_simulated(experiment, trace, policy, report) for policy in experiment.policies]
    folder = _create(root)
    folder.manifest.write_text(json.dumps(manifest(experiment, backend, {}), indent=1))
    save_coflow_runs(folder.root, trace, records)
    return EXIT_VALID, analyse(folder.root, pictures=pictures)


def _simulated(experiment: Experiment, trace: CoflowTrace, policy: str, report: Report) -> TraceRecord:
    last_s = float(trace.arrival_s.max())
    said_s = time.monotonic()

    def progress(now_s: float) -> None:
        nonlocal said_s
        if time.monotonic() >= said_s + _SAY_EVERY_S:
            said_s = time.monotonic()
            report({"stage": "simulating", "policy": policy, "now_s": now_s, "last_s": last_s})

    report({"stage": "simulating", "policy": policy, "now_s": 0.0, "last_s": last_s})
    return simulate_trace(trace, experiment.network, _loaded(policy), on_progress=progress, realism=experiment.realism)


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
    for path in (folder.root, folder.logs, folder.pcap, folder.root / "raw"):
        path.mkdir(parents=True, exist_ok=True)


def _runs(experiment: Experiment, predictions: dict[str, RunRecord]) -> list[dict[str, Any]]:
    """All runs, repeat by repeat, the policies of a repeat in an order drawn by the seed.

    Policies take turns so that a machine that slows down in the course of an hour slows all of them.
    """
    runs: list[dict[str, Any]] = []
    for repeat in range(experiment.repeats):
        turn = list(experiment.policies)
        random.Random(experiment.seed * 1_000_003 + repeat).shuffle(turn)
        for policy in turn:
            runs.append(
                {
                    "run_index": len(runs),
                    "policy": policy,
                    "repeat": repeat,
                    "enforcer": experiment.enforcer_of(policy),
                    "expected_s": max(c.finish_s for c in predictions[policy].computes),
                }
            )
    return runs


def _emulate(
    experiment: Experiment, folder: RunFolder, predictions: dict[str, RunRecord], report: Report
) -> str | None:
    """Run the emulation to its end; returns None, or why it failed. Interrupts end it, and keep what there is."""
    emulation = experiment.emulation
    orders = {
        "jobs": [job_to_dict(job) for job in experiment.jobs],
        "runs": _runs(experiment, predictions),
        "calibrate": True,
        "datapath": emulation.datapath,
        "tso": emulation.tso,
        "congestion_control": emulation.congestion_control,
        "framework": emulation.framework,
        "progress_interval_s": parse_duration_s(emulation.progress_interval),
        "max_link_error": experiment.limits.max_link_error,
    }
    return _in_world(orders, experiment.network, folder, report)


def only_build(network: Network, folder: RunFolder) -> str | None:
    """Bring `network` up, connected to its controller, and down again; None, or why that failed."""
    _make_parts(folder)
    orders = {
        "jobs": [], "runs": [], "calibrate": False, "datapath": "auto", "tso": None, "congestion_control": "cubic",
        "framework": "ryu", "progress_interval_s": 0.05, "max_link_error": 1.0,
    }  # fmt: skip
    return _in_world(orders, network, folder, lambda _: None)


def _in_world(orders: dict[str, Any], network: Network, folder: RunFolder, report: Report) -> str | None:
    from testbed import world

    folder.orders.write_text(json.dumps(orders))
    folder.network.write_text(json.dumps(network.to_dict()))
    failure: str | None = "the emulation ended without saying why; see logs/inside.log"
    with world.machine_lock():
        inside = world.spawn(
            [sys.executable, "-m", "echelon.running.emulator", str(folder.root)], folder.logs / "inside.log"
        )
        try:
            assert inside.stdout is not None
            for line in inside.stdout:
                progress = _parse(line)
                if progress is None:
                    continue
                report(progress)
                if progress["stage"] in ("done", "invalid"):
                    failure = None
                elif progress["stage"] in ("failed", "interrupted"):
                    failure = str(progress.get("reason", progress["stage"]))
        except KeyboardInterrupt:
            failure = INTERRUPTED
            report({"stage": "interrupted"})
        finally:
            _end(inside)
    return failure


def _parse(line: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError):
        progress = json.loads(line)
        if isinstance(progress, dict) and "stage" in progress:
            return progress
    return None


def _end(inside: subprocess.Popen[bytes]) -> None:
    """End the world: ask, wait for it to write its records, then let the kernel end all of it."""
    if inside.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            inside.send_signal(signal.SIGINT)
    try:
        inside.wait(10.0)
    except subprocess.TimeoutExpired:
        inside.kill()
        inside.wait()
    except KeyboardInterrupt:
        inside.kill()
        inside.wait()
        raise RunError("interrupted twice; the emulation was ended at once") from None
