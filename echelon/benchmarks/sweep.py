"""A sweep of 1,000 simulated cells: its speed-up on all processors, against what plain busy loops get in the same run.

Two processors of a shared machine, or two threads of one core, are not twice one. So the speed-up of the sweep over one
worker is compared with that of loops that do nothing but count, measured before and after, in turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._experiments import said_wrong
from echelon.benchmarks._sweep_command import cells_of, ended, sweeping, write_experiment
from echelonflow.errors import EXIT_VALID, RunError

WORKERS = 2
SEEDS = 100
ITERATIONS = 3
LEAST_SHARE = 0.9
"""Of the speed-up of busy loops."""
_LOOP_STEPS = 60_000_000
_LOOP = "import sys\nn = int(sys.argv[1])\nwhile n:\n    n -= 1\n"


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` sweeps with one worker and with two, each between busy loops; medians."""
    if (os.cpu_count() or 1) < WORKERS:
        raise RunError(f"this machine has one processor, and the speed-up of {WORKERS} is measured")
    sweeps, loops, one_s = [], [], []
    with tempfile.TemporaryDirectory(prefix="echelon-sweep-") as name:
        file = write_experiment(Path(name) / "cells.yaml", ITERATIONS)
        for turn in range(repeat):
            before = loop_speed_up(WORKERS)
            single_s = sweep_s(file, Path(name) / f"one-{turn}", 1, SEEDS)
            several_s = sweep_s(file, Path(name) / f"two-{turn}", WORKERS, SEEDS)
            loops += [before, loop_speed_up(WORKERS)]
            sweeps.append(single_s / several_s)
            one_s.append(single_s)
            say(
                f"{turn + 1} of {repeat}: {single_s:.1f} s with one worker, {several_s:.1f} s with {WORKERS}: "
                f"{sweeps[-1]:.2f} times as fast; busy loops {before:.2f} before and {loops[-1]:.2f} after"
            )
    return figures(sweeps, loops, one_s, cells_of(SEEDS))


def figures(sweeps: Sequence[float], loops: Sequence[float], one_s: Sequence[float], cells: int) -> list[Figure]:
    """What was measured: speed-ups of sweeps and of loops, seconds with one worker, number of cells."""
    speed_up, of_loops = statistics.median(sweeps), statistics.median(loops)
    share = speed_up / of_loops
    per_cell_ms = statistics.median(one_s) / cells * 1e3
    return [
        Figure(f"{cells:,} cells on one worker, all of it", f"{per_cell_ms:.1f} ms a cell", "reported", None),
        Figure(f"speed-up of {WORKERS} plain busy loops", f"{of_loops:.2f}", "reported", None),
        Figure(
            f"speed-up of the sweep on {WORKERS} workers",
            f"{speed_up:.2f}, {share:.0%} of that",
            f"at least {LEAST_SHARE:.0%} of that",
            share >= LEAST_SHARE,
        ),
    ]


def sweep_s(file: Path, out: Path, workers: int, seeds: int) -> float:
    """Seconds that the whole command takes; RunError where it does not make every cell."""
    started_s = time.monotonic()
    code, said, wrong = ended(sweeping(file, out, seeds, "--workers", str(workers)))
    took_s = time.monotonic() - started_s
    if code != EXIT_VALID or said_wrong(wrong) or f"{cells_of(seeds)} made now" not in said:
        raise RunError(f"the sweep ended with {code}: {wrong.strip()[-500:]}")
    return took_s


def loop_speed_up(processes: int, steps: int = _LOOP_STEPS) -> float:
    """How many times as fast so many processes count to `steps` together as one does alone."""
    return loops_s([steps]) / loops_s([steps // processes] * processes)


def loops_s(steps: Sequence[int]) -> float:
    """Seconds until processes of their own have all counted, each to one of `steps`."""
    started_s = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-I", "-c", _LOOP, str(count)]) for count in steps]
    for process in running:
        process.wait()
    return time.monotonic() - started_s
