"""Simulated cells on all processors of this machine, by worker processes that stay.

A worker loads the compiled kernels once and goes from cell to cell. It is given several at a time, as many as take some
tenths of a second by what was measured so far. It keeps each cell itself as soon as it has ended. So a worker that dies
costs the cell that it was at, and another worker takes its place.
"""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from echelon.sweeps.fluid import Computer, Wanted
from echelon.sweeps.plan import Sweep
from echelonflow.child_process import end_with
from echelonflow.errors import StorageError
from echelonflow.records.cells import Cell, keep_cell, read_cell

_BATCH_S = 0.25
"""A worker is given as many cells at a time as take about this long."""
_MOST_IN_BATCH = 200
_BATCHES_AHEAD = 2
"""Batches that a worker has at most, the one at which it is included: it never waits for the next."""
_TELL_S = 0.1
"""A worker tells what has ended at most this often: every telling wakes the main process, which has work of its own."""
_LOOK_S = 1.0
_MOST_DEATHS = 3
"""A cell that so many workers died of has failed."""

Told = tuple[list[Cell], str | None]
"""Cells that have ended and are kept, and why no more can be kept, if so."""
MakeComputer = Callable[[], Computer]


def on_this_machine(sweep: Sweep, wanted: Sequence[Wanted], cells: Path, workers: int) -> Iterator[list[Cell]]:
    """Compute every cell of `wanted` on so many workers; what has ended, as `Pool.run` has it."""
    make = functools.partial(Computer, sweep.data, sweep.path, sweep.policies)
    with Pool(make, cells, workers) as pool:
        yield from pool.run(wanted)


@dataclass(eq=False)
class _Worker:
    """One process, our end of its pipe, and the cells that it has and has not told of."""

    process: Any
    pipe: Connection
    waiting: deque[Wanted] = field(default_factory=deque)


class Pool:
    """So many workers; a context manager, which ends them."""

    def __init__(self, make: MakeComputer, cells: Path, workers: int) -> None:
        self._make = make
        self._cells = cells
        # A fork has everything loaded. Elsewhere than on Linux libraries of the system do not bear it.
        self._context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self._count = workers
        self._workers: list[_Worker] = []
        self._cell_s: float | None = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()

    def run(self, wanted: Sequence[Wanted]) -> Iterator[list[Cell]]:
        """Compute all of `wanted`; what has ended since the last time, or nothing, about once a second at least.

        Cells are kept before they are told. Raises StorageError where that is not possible.
        """
        todo, deaths = deque(wanted), Counter[str]()
        self._workers = [self._started() for _ in range(min(self._count, len(todo)))]
        while todo or any(worker.waiting for worker in self._workers):
            for worker in self._workers:
                self._fill(worker, todo)
            ended: list[Cell] = []
            for pipe in wait([worker.pipe for worker in self._workers if worker.waiting], _LOOK_S):
                worker = next(each for each in self._workers if each.pipe is pipe)
                try:
                    cells, refused = worker.pipe.recv()
                except (EOFError, OSError):
                    ended += self._replace(worker, todo, deaths)
                    continue
                for _ in cells:
                    worker.waiting.popleft()
                ended += cells
                if refused is not None:
                    raise StorageError.told(refused)
            self._learn(ended)
            yield ended

    def _started(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._make, self._cells, os.getpid()), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _fill(self, worker: _Worker, todo: deque[Wanted]) -> None:
        """Give a worker its next cells, if it has fewer than it may."""
        size = self._batch(len(todo))
        if not todo or len(worker.waiting) > (_BATCHES_AHEAD - 1) * size:
            return
        batch = [todo.popleft() for _ in range(min(size, len(todo)))]
        worker.waiting.extend(batch)
        with contextlib.suppress(OSError):  # it has died, and what it has waits for whoever looks at its pipe
            worker.pipe.send(batch)

    def _batch(self, left: int) -> int:
        """Cells in a batch: few at first and at the end, so that all workers end together."""
        if self._cell_s is None:
            return 1
        size = math.ceil(_BATCH_S / max(self._cell_s, 1e-6))
        return max(1, min(size, _MOST_IN_BATCH, left // (2 * _BATCHES_AHEAD * self._count)))

    def _learn(self, ended: Sequence[Cell]) -> None:
        for cell in ended:
            self._cell_s = cell.took_s if self._cell_s is None else 0.9 * self._cell_s + 0.1 * cell.took_s

    def _replace(self, worker: _Worker, todo: deque[Wanted], deaths: Counter[str]) -> list[Cell]:
        """Put another worker in the place of one that has died; what that one had kept, and cells that failed by it."""
        worker.process.join()
        worker.pipe.close()
        ended: list[Cell] = []
        again: list[Wanted] = []
        for wanted in worker.waiting:
            kept = read_cell(self._cells / wanted.name)
            if kept is not None and not (kept.failed and again):
                ended.append(kept)
                continue
            if not again:  # the one that it was at
                deaths[wanted.name] += 1
            again.append(wanted)
        if again and deaths[again[0].name] >= _MOST_DEATHS:
            ended.append(self._failed(again.pop(0), worker.process.exitcode))
        todo.extendleft(reversed(again))
        self._workers[self._workers.index(worker)] = self._started()
        return ended

    def _failed(self, wanted: Wanted, exit_code: int | None) -> Cell:
        how = f"was killed (signal {-exit_code})" if exit_code and exit_code < 0 else f"ended with {exit_code}"
        cell = Cell(
            name=wanted.name, backend="fluid", policy=wanted.policy, seed=wanted.seed, settings=dict(wanted.settings),
            reasons=(f"its process {how}, {_MOST_DEATHS} times; is there memory enough?",), failed=True,
            ended=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )  # fmt: skip
        keep_cell(self._cells, cell)
        return cell


def _work(pipe: Connection, make: MakeComputer, cells: Path, parent: int) -> None:
    """A worker's life: compute what comes through the pipe, keep each cell, tell of it."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the main one decides
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    computer = make()
    while True:
        try:
            batch: list[Wanted] = pipe.recv()
        except (EOFError, OSError):
            return
        ended: list[Cell] = []
        told_s = time.monotonic()
        for wanted in batch:
            cell = computer.compute(wanted)
            if os.getppid() != parent:
                os._exit(1)
            try:
                keep_cell(cells, cell)
            except StorageError as error:
                pipe.send((ended, str(error)))
                return
            ended.append(cell)
            if time.monotonic() - told_s > _TELL_S:
                pipe.send((ended, None))
                ended, told_s = [], time.monotonic()
        if ended:
            pipe.send((ended, None))
