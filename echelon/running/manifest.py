"""Where a result came from: versions, machine, code revision, the experiment as read."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import msgspec

from echelon.experiment.schema import Experiment
from echelonflow.records.folder import policy_labels
from echelonflow.records.manifest import Manifest, Resumption, TraceFacts
from echelonflow.records.placed_job import PlacedJob

_PACKAGES = ("numpy", "scipy", "mininet", "ryu", "os-ken", "eventlet", "scapy", "matplotlib")


def manifest(experiment: Experiment, backend: Literal["emulation", "fluid"], machine: dict[str, Any]) -> Manifest:
    """The manifest of a run of `experiment`; `machine` holds what only the backend knows."""
    emulated = backend == "emulation"
    network, trace = experiment.network, experiment.trace
    return Manifest(
        name=experiment.name,
        title=experiment.title,
        backend=backend,
        started=_now(),
        experiment_file=experiment.path.name,
        experiment=experiment.source,
        experiment_folder=str(experiment.path.parent.absolute()),
        policies=experiment.policies,
        stretch=experiment.stretch,
        against=experiment.against,
        labels=policy_labels(experiment.policies),
        repeats=experiment.repeats,
        seed=experiment.seed,
        time_unit_s=experiment.time_unit_s,
        jobs=tuple(map(PlacedJob.of, experiment.jobs)),
        trace=None if trace is None else TraceFacts(trace.name, trace.coflows, trace.flows),
        notes=experiment.notes,
        faults=experiment.faults,
        network=network,
        link_capacity_Bps=dict(zip((link.name for link in network.links), network.capacity_Bps, strict=True)),
        counting=experiment.counting,
        limits=experiment.limits.to_dict(),
        congestion_control=experiment.emulation.congestion_control if emulated else None,
        framework=experiment.emulation.framework if emulated else None,
        decisions=experiment.emulation.decisions if emulated else None,
        git=git_revision(),
        versions=versions(),
        machine={"cpus": os.cpu_count(), **machine},
        sealed=True,
    )


def resumed(earlier: Manifest) -> Manifest:
    """The manifest of an experiment that goes on now."""
    return msgspec.structs.replace(earlier, resumed=(*earlier.resumed, Resumption(_now(), git_revision())))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of Python, the kernel and the packages that matter, where installed."""
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_revision() -> str | None:
    """Revision of the code, "+changes" where the work tree differs from it, None outside a checkout."""
    here = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
