"""Ranks of a training program as processes on loopback, with one thread each."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from echelonflow.errors import InputError, RunError


def require_torch(benchmark: str) -> None:
    """Raise InputError with the remedy where PyTorch is not installed, which `benchmark` needs."""
    if importlib.util.find_spec("torch") is None:
        raise InputError(f"{benchmark} needs PyTorch; install it by: scripts/setup.sh --live")


def run_ranks(argv: Sequence[str], ranks: int, folder: Path, what: str, limit_s: float) -> list[str]:
    """Run so many processes to their ends; returns what each printed. RunError, which names `what` and the rank, where one fails."""
    started = [_start(argv, rank, ranks, folder) for rank in range(ranks)]
    try:
        for rank, process in enumerate(started):
            if process.wait(limit_s):
                raise RunError(f"rank {rank} of {what} failed: {_said(folder, rank).strip().rpartition(chr(10))[2]}")
    except subprocess.TimeoutExpired:
        raise RunError(f"{what} did not end within {limit_s:g} s") from None
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait()
    return [_said(folder, rank) for rank in range(ranks)]


def _said(folder: Path, rank: int) -> str:
    return (folder / f"rank{rank}.txt").read_text(encoding="utf-8", errors="replace")


def _start(argv: Sequence[str], rank: int, ranks: int, folder: Path) -> subprocess.Popen[bytes]:
    settings = {
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "ECHELON_STORE": str(folder / "store"),
        "OMP_NUM_THREADS": "1",
    }
    with (folder / f"rank{rank}.txt").open("wb") as output:
        return subprocess.Popen(argv, env={**os.environ, **settings}, stdout=output, stderr=subprocess.STDOUT)
