"""Bandwidth of all_reduce between four training processes on loopback: our process group's against Gloo's.

Both by turns, each time in fresh processes with one thread each. A bandwidth is the tensor's bytes over the median time of an
all_reduce on rank 0. Shares are of turns that follow each other. Needs PyTorch: scripts/setup.sh --live.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._live_ranks import require_torch, run_ranks
from echelonflow.child_process import module_argv

RANKS = 4
SIZES_MB = (1, 64)
GOAL = 0.8
"""Of Gloo's bandwidth, with the largest tensor."""
LIMIT_S = 120.0
OURS, GLOO = "echelon", "gloo"
_MB = 10**6


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` turns of both (InputError where there is no PyTorch, RunError where a rank fails)."""
    require_torch("live-collectives")
    figures = []
    for size_mb in SIZES_MB:
        found: dict[str, list[float]] = {GLOO: [], OURS: []}
        for turn in range(repeat):
            for backend, mine in found.items():
                mine.append(size_mb / all_reduce_s(backend, size_mb * _MB))
            say(
                f"{size_mb} MB, {turn + 1} of {repeat}: "
                + ", ".join(f"{b} {each[-1]:.0f} MB/s" for b, each in found.items())
            )
        shares = [ours / gloo for ours, gloo in zip(found[OURS], found[GLOO], strict=True)]
        words = ", ".join(f"{backend} {statistics.median(each):.0f} MB/s" for backend, each in found.items())
        figures += [
            Figure(f"all_reduce of {size_mb} MB, {RANKS} ranks, loopback", words, "reported", None),
            Figure(
                f"share of Gloo's bandwidth, {size_mb} MB",
                f"{statistics.median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%})",
                f"reported (goal {GOAL:.0%})" if size_mb == max(SIZES_MB) else "reported",
                None,
            ),
        ]
    return figures


def all_reduce_s(backend: str, size_bytes: int) -> float:
    """Median seconds of an all_reduce of so many bytes between fresh processes."""
    with tempfile.TemporaryDirectory(prefix="echelon-collectives-") as folder:
        argv = [*module_argv("traffic.live.timing"), backend, str(size_bytes)]
        said = run_ranks(argv, RANKS, Path(folder), f"the all_reduce by {backend}", LIMIT_S)
    times_s: list[float] = json.loads(said[0].splitlines()[-1])
    return statistics.median(times_s)
