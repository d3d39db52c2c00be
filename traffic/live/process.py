"""What all process groups of one process share: its connections, the threads that serve them, and what is noted of the program."""

from __future__ import annotations

import atexit
import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from echelonflow.errors import RunError
from echelonflow.records.live_part import PART_VARIABLE, read_part
from echelonflow.records.observed import Ordered, write_observed
from traffic.live.anysource import AnySource
from traffic.live.early import Early
from traffic.live.engine import Engine
from traffic.live.exchange import Exchange
from traffic.live.link import Link
from traffic.live.mesh import connect_all
from traffic.live.observed import observed
from traffic.live.observing import Iteration, Observer, Operation, Part
from traffic.live.performance import Performance
from traffic.live.priority import take_short_turns
from traffic.live.running import OnDone

OBSERVE_VARIABLE = "ECHELON_OBSERVE"
"""A file into which what this process was seen to do is written when it ends."""
DRAIN_LIMIT_S = 60.0
"""For what a job scheduler has under way when a run is to begin."""
MOST_ITERATIONS = 1000
"""So many are kept, the first ones, where they are asked for."""


class Outstanding:
    """Exchanges that have not ended."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def counting(self, on_done: OnDone) -> OnDone:
        """One more has begun; returns what it is to call when it ends."""
        with self._changed:
            self._count += 1

        def ended(error: Exception | None) -> None:
            on_done(error)
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

        return ended

    def wait(self) -> None:
        """Wait until all have ended (RunError where that takes too long)."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._count, DRAIN_LIMIT_S):
                raise RunError(f"{self._count} exchanges before the run had not ended after {DRAIN_LIMIT_S:.0f} s")


class Process:
    """One rank of a job. The first group that a process makes has all ranks; groups within it use the same connections."""

    _only: ClassVar[Process | None] = None

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        connections = connect_all(store, rank, size, timeout)
        names = {other: f"rank {other} at {c.getpeername()[0]}" for other, c in connections.items()}
        self.rank, self.size = rank, size
        self.observer = Observer()
        self.ordered: Ordered | None = None
        """By what job scheduler, where one puts in order what the program sends."""
        self._carried = Outstanding()
        path = os.environ.get(PART_VARIABLE)
        part = None if path is None else read_part(Path(path))
        self._observed_path = os.environ.get(OBSERVE_VARIABLE) if part is None else part.observed
        self._performance = None if part is None or part.plan is None else Performance(part, self.observer)
        send_buffer_bytes = None if self._performance is None else self._performance.send_buffer_bytes
        early = Early()
        links = {other: Link(each, other, early, send_buffer_bytes) for other, each in connections.items()}
        self.engine = Engine(links, names, early, f"rank {rank}")
        if self._performance is not None:
            take_short_turns()
            self._performance.attach(self.engine)
        self._groups: set[int] = set()
        self._iterations: list[Iteration] = []
        self.observer.on_iteration = self._iterated
        self.observer.watch_optimizers()
        atexit.register(self.close)

    @classmethod
    def of(cls, store: Any, rank: int, size: int, timeout: timedelta) -> Process:
        """The one of this process; made, and connected with all others, for its first group (RunError)."""
        if cls._only is None:
            cls._only = cls(store, rank, size, timeout)
        return cls._only

    @classmethod
    def current(cls) -> Process | None:
        """The one of this process, if there is one."""
        return cls._only

    def join(self, group: object) -> None:
        """A group uses it."""
        self._groups.add(id(group))

    def leave(self, group: object) -> None:
        """A group is no more; with the last one, connections are closed."""
        self._groups.discard(id(group))
        if not self._groups:
            self.close()

    def submit(self, operation: Operation, part: Part, exchange: Exchange, on_done: OnDone) -> None:
        """Carry out an exchange: by flows that are declared, if they are, or else by the links that nobody schedules."""
        if self._performance is not None and self._performance.submit(operation, part, exchange, on_done):
            return
        self.engine.submit(part.key, exchange, self._carried.counting(on_done) if operation.unit else on_done)

    def submit_any(self, awaited: AnySource) -> None:
        """Receive a message from whoever sends one first. No flow that is declared carries it, as nobody knows whose it will be."""
        self.engine.submit_any(awaited)

    def _iterated(self, iteration: Iteration) -> None:
        if self._observed_path and len(self._iterations) < MOST_ITERATIONS:
            self._iterations.append(iteration)
        if self._performance is not None:
            if self._performance.begins_next:
                self._carried.wait()  # for what no declared flow carries, and the next iteration needs
            self._performance.iterated()

    def close(self) -> None:
        """Take leave of all other ranks, and write what was seen where that is asked for."""
        if type(self)._only is not self:
            return
        type(self)._only = None
        atexit.unregister(self.close)
        if self._performance is not None:
            self._performance.close()
        self.engine.close()
        if self._observed_path:
            write_observed(Path(self._observed_path), observed(self.rank, self.size, self._iterations, self.ordered))
