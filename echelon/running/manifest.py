"""Where a result came from: versions, machine, code revision, the experiment as read."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from echelon.experiment.schema import Experiment
from echelonflow.model.dag import job_to_dict

_PACKAGES = ("numpy", "scipy", "mininet", "ryu", "os-ken", "eventlet", "scapy", "matplotlib")


def manifest(experiment: Experiment, backend: str, machine: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a run of `experiment`; `machine` holds what only the backend knows."""
    return {
        "name": experiment.name,
        "title": experiment.title,
        "backend": backend,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "experiment_file": experiment.path.name,
        "experiment": experiment.source,
        "policies": list(experiment.policies),
        "repeats": experiment.repeats,
        "seed": experiment.seed,
        "time_unit_s": experiment.time_unit_s,
        "jobs": [job_to_dict(job) for job in experiment.jobs],
        "trace": _trace(experiment),
        "notes": [note.to_dict() for note in experiment.notes],
        "network": experiment.network.to_dict(),
        "link_capacity_Bps": dict(
            zip((link.name for link in experiment.network.links), experiment.network.capacity_Bps, strict=True)
        ),
        "limits": experiment.limits.to_dict(),
        "congestion_control": experiment.emulation.congestion_control if backend == "emulation" else None,
        "framework": experiment.emulation.framework if backend == "emulation" else None,
        "git": git_revision(),
        "versions": versions(),
        "machine": {"cpus": os.cpu_count(), **machine},
    }


def _trace(experiment: Experiment) -> dict[str, Any] | None:
    trace = experiment.trace
    return None if trace is None else {"file": trace.name, "coflows": trace.coflows, "flows": trace.flows}


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
