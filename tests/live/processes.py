"""Ranks of a training program as processes on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_S = 120


def start(folder, ranks, *argv, module="traffic.live", **environment):
    """Start `ranks` processes of a module, or a script, which print into rank<r>.txt."""
    started = []
    for rank in range(ranks):
        settings = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "ECHELON_STORE": str(folder / "store"),
            "OMP_NUM_THREADS": "1",
            **{name: value.format(rank=rank) for name, value in environment.items()},
        }
        with (folder / f"rank{rank}.txt").open("wb") as output:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", module, *map(str, argv)],
                    stdout=output,
                    stderr=output,
                    env=settings,
                    cwd=ROOT,
                )
            )
    return started


def printed(folder, rank):
    return (folder / f"rank{rank}.txt").read_text()


def end(processes):
    """Wait for all; returns their exit codes."""
    try:
        return [process.wait(LIMIT_S) for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
