"""Where jobs are, by what was heard of their flows: what is released and ended, in the iterations that still matter.

A part of what the coordinator knows, for whoever looks ahead. Kept of each job that told its graph are the iterations from
`KEPT` before the last one that has ended: what is computed after their flows may still go on. Earlier ones are over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats
from echelonflow.wire import graph as graphs
from echelonflow.wire.messages import JobGraph

KEPT = 2
MOST_STEPS = 1_000_000
"""Of the graphs of all jobs."""
MOST_WAITS = 4_000_000
"""Dependencies that all graphs name."""


class JobNow(msgspec.Struct, frozen=True, eq=False):
    """One job at a moment: times of its flows from iteration `first` on, in rows of iterations, by index of flow.

    Not a number: not yet, as far as is known, or no flow of the network. Seconds since the run's zero.
    """

    job: str
    first: int
    rows: int
    release_s: Floats
    finish_s: Floats
    sent_bytes: Floats
    """Of flows in flight; otherwise 0."""
    last: int
    """The last iteration that has ended; the one before the first if none has."""
    ended_s: float
    """When that was."""


@dataclass(slots=True)
class _Row:
    """One iteration of a job."""

    release_s: Floats
    finish_s: Floats
    finished: int = 0


@dataclass(slots=True)
class _Window:
    graph: JobGraph
    flows: int
    """Over the network, of one iteration."""
    width: int
    ended: int = -1
    rows: dict[int, _Row] = field(default_factory=dict)


class FlowWindows:
    """The windows of all jobs that told their graphs. What others release or end is of no account."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}
        self._steps = 0
        self._waits = 0

    def tell(self, graph: JobGraph) -> bool:
        """A job says what it waits for; whether that is new. Raises InputError for what makes no sense, or differs."""
        known = self._windows.get(graph.job)
        if known is not None:
            if known.graph != graph:
                raise InputError(f"job {graph.job!r} has told its graph already, and another one")
            return False
        if self._steps + len(graph.steps) > MOST_STEPS or self._waits + graphs.waits(graph) > MOST_WAITS:
            raise InputError(
                f"graph of job {graph.job!r}: more than {MOST_STEPS:,} steps of all jobs, or {MOST_WAITS:,} that wait for each other"
            )
        graphs.check(graph)
        flows = [step.flow for step in graph.steps if step.flow >= 0]
        self._windows[graph.job] = _Window(graph, len(flows), max(flows, default=-1) + 1)
        self._steps += len(graph.steps)
        self._waits += graphs.waits(graph)
        return True

    def graph(self, job: str) -> JobGraph | None:
        """What a job waits for; None where it has not said."""
        window = self._windows.get(job)
        return None if window is None else window.graph

    def withdraw(self, job: str) -> None:
        """Forget a job."""
        window = self._windows.pop(job, None)
        if window is not None:
            self._steps -= len(window.graph.steps)
            self._waits -= graphs.waits(window.graph)

    def release(self, job: str, iteration: int, index: int, now_s: float) -> None:
        """A flow is released."""
        row = self._row(job, iteration, index)
        if row is not None:
            row.release_s[index] = now_s

    def finish(self, job: str, iteration: int, index: int, now_s: float) -> None:
        """A flow has ended. With its last flow an iteration has, and those before it."""
        row = self._row(job, iteration, index)
        if row is None:
            return
        row.finish_s[index] = now_s
        row.finished += 1
        window = self._windows[job]
        if row.finished >= window.flows and iteration > window.ended:
            window.ended = iteration
            for over in [each for each in window.rows if each < iteration - KEPT]:
                del window.rows[over]

    def now(self, job: str, last: int, ended_s: float, sent_bytes: dict[tuple[int, int], float]) -> JobNow:
        """Where a job is that told its graph. `sent_bytes` of its flows in flight, by iteration and index."""
        window = self._windows[job]
        first = min(window.rows, default=max(last, 0))
        rows = max(window.rows, default=first) + 1 - first
        release_s, finish_s = (np.full((rows, window.width), np.nan) for _ in range(2))
        sent = np.zeros((rows, window.width))
        for iteration, row in window.rows.items():
            release_s[iteration - first], finish_s[iteration - first] = row.release_s, row.finish_s
        for (iteration, index), size_bytes in sent_bytes.items():
            sent[iteration - first, index] = size_bytes
        return JobNow(job, first, rows, release_s.ravel(), finish_s.ravel(), sent.ravel(), last, ended_s)

    def _row(self, job: str, iteration: int, index: int) -> _Row | None:
        """None for what no graph names, and for iterations that are over."""
        window = self._windows.get(job)
        if window is None or index >= window.width or iteration < window.ended - KEPT:
            return None
        row = window.rows.get(iteration)
        if row is None:
            row = window.rows[iteration] = _Row(np.full(window.width, np.nan), np.full(window.width, np.nan))
        return row
