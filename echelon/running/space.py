"""How much a run leaves on the disk, estimated from what it sends: said before it starts, not found out after hours."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.model.dag import Job, Transfer
from echelonflow.model.units import format_size

_CAPTURED_SHARE = 0.25
"""Of the bytes that are sent. Both ends keep 112 bytes (16 of them its header) of every packet, and packets may carry no
more than 1460 bytes of payload; acknowledgements come to that. Measured, with segmentation offload: 0.07."""
_FLOW_BYTES = 4_000
"""In logs of agents and controller, for each flow and iteration."""
_RUN_BYTES = 400_000
"""What any run leaves, however little it sends."""
_FOLDER_BYTES = 4_000_000
"""Pictures, report and logs of an experiment."""


def run_bytes(jobs: Sequence[Job]) -> int:
    """At most what the captures and logs of one run of `jobs` take."""
    total = float(_RUN_BYTES)
    for job in jobs:
        for step in job.dag.steps:
            if isinstance(step, Transfer) and job.placement[step.src_rank] != job.placement[step.dst_rank]:
                total += job.iterations * (step.size_bytes * _CAPTURED_SHARE + _FLOW_BYTES)
    return round(total)


def warning(root: Path, run: int, runs: int) -> str | None:
    """What to say where `runs` runs, each of `run` bytes, may not fit on the disk of `root`; None where they do.

    InputError where not even one fits.
    """
    free = shutil.disk_usage(_existing(root)).free
    if free < run + _FOLDER_BYTES:
        raise InputError(
            f"{root}: {format_size(free)} are free, and one run may take {format_size(run + _FOLDER_BYTES)}; "
            "free some space there, or name a folder on another disk with --out"
        )
    needed = runs * run + _FOLDER_BYTES
    if free >= needed:
        return None
    return (
        f"{root}: {format_size(free)} are free, and {runs} runs may take {format_size(needed)}; "
        "should the disk fill up, what was finished is kept, and --resume goes on"
    )


def _existing(path: Path) -> Path:
    """The nearest folder above that is there."""
    return path if path.exists() or path == path.parent else _existing(path.absolute().parent)
