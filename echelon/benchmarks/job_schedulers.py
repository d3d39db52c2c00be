"""Job schedulers against fifo, DDP, linear scaling and the ideal overlap bound, tuned and untuned; and beside network policies.

Simulates every model on every architecture, number of workers and bandwidth, alone (`_job_scheduler_cells.py`), on all
processors. Then come the files in experiments/job-schedulers/ with several jobs: every job scheduler under every network
policy. With `--emulated`, the others of those files are run on packets, job schedulers in turns. Beside `--out` it leaves
cells.jsonl, matrix.jsonl and emulated.jsonl. Interrupted, the same command goes on, and what is there is not made again;
another `--out` begins anew. `--only 'vgg-16-ring-*'` takes those whose names fit. `python -m
echelon.documents.job_schedulers_page` makes docs/job-schedulers.md of it.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks import _job_scheduler_emulated as on_packets
from echelon.benchmarks import _job_scheduler_matrix as matrix
from echelon.benchmarks._job_scheduler_cells import CELLS, Cell, Key, all_keys, measure, read_cells
from echelon.benchmarks._job_scheduler_figures import figures
from echelonflow.child_process import pool
from echelonflow.codec import Log
from echelonflow.errors import InputError
from echelonflow.files import write_whole

CELLS_FILE, MATRIX_FILE, EMULATED_FILE = "cells.jsonl", "matrix.jsonl", "emulated.jsonl"
_SAID_EVERY_S = 10.0


def run(repeat: int, say: Say, folder: Path, only: Sequence[str] = (), *, emulated: bool = False) -> list[Figure]:
    """The grid, the matrix, and with `emulated` the files with one job on packets, `repeat` turns of each.

    InputError if `only` fits nothing.
    """
    keys = [key for key in all_keys() if fits(key.name, only)]
    shared = [path for path in matrix.files() if fits(path.stem, only)]
    alone = [path for path in on_packets.files() if emulated and fits(path.stem, only)]
    if not (keys or shared or alone):
        raise InputError(f"--only {' '.join(only)}: fits no setting such as {all_keys()[0].name}, and no file")
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    if keys:
        found += figures(grid(keys, folder / CELLS_FILE, say))
    if shared:
        found += matrix.figures(matrix.measured(shared, folder / MATRIX_FILE, say))
    if alone:
        found += on_packets.figures(on_packets.measured(alone, folder, repeat, say))
    return found


def fits(name: str, only: Sequence[str]) -> bool:
    """Whether a name fits one of the patterns; without patterns every name does."""
    return not only or any(fnmatch.fnmatchcase(name, pattern) for pattern in only)


def grid(keys: Sequence[Key], path: Path, say: Say) -> list[Cell]:
    """The cells of these keys: those in the log at `path`, and the others, which go there as soon as each is there."""
    there = {cell.key: cell for cell in read_cells(path)}
    left = [key for key in keys if key not in there]
    say(f"{len(keys) - len(left)} of {len(keys)} settings are simulated")
    begun_s = said_s = time.monotonic()
    with pool() as several:
        under_way = [several.submit(measure, key) for key in left]
        try:
            for number, done in enumerate(as_completed(under_way), start=1):
                cell = done.result()
                there[cell.key] = cell
                append(CELLS, path, list(there.values()))
                if time.monotonic() >= said_s + _SAID_EVERY_S:
                    said_s = time.monotonic()
                    left_s = (said_s - begun_s) / number * (len(left) - number)
                    say(f"{number} of {len(left)} simulated; the others take about {left_s:.0f} s")
        finally:
            several.shutdown(wait=False, cancel_futures=True)
    return [there[key] for key in keys]


def append(log: Log[Cell], path: Path, cells: Sequence[Cell]) -> None:
    """Write the log anew, whole or not at all, so that whoever is interrupted keeps what is there."""
    write_whole(path, log.header + b"".join(map(log.line, cells)))
