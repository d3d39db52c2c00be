"""What all process groups of one process share: its connections, the thread that serves them, and what is noted of the program."""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from echelonflow.records.observed import write_observed
from traffic.live.engine import Engine
from traffic.live.link import Link
from traffic.live.mesh import connect_all
from traffic.live.observed import observed
from traffic.live.observing import Iteration, Observer

OBSERVE_VARIABLE = "ECHELON_OBSERVE"
"""A file into which what this process was seen to do is written when it ends."""
MOST_ITERATIONS = 1000
"""So many are kept, the first ones."""


class Process:
    """One rank of a job. The first group that a process makes has all ranks; groups within it use the same connections."""

    _only: ClassVar[Process | None] = None

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        connections = connect_all(store, rank, size, timeout)
        names = {other: f"rank {other} at {c.getpeername()[0]}" for other, c in connections.items()}
        self.rank, self.size = rank, size
        self.observer = Observer()
        self.engine = Engine({other: Link(connection) for other, connection in connections.items()}, names)
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

    def join(self, group: object) -> None:
        """A group uses it."""
        self._groups.add(id(group))

    def leave(self, group: object) -> None:
        """A group is no more; with the last one, connections are closed."""
        self._groups.discard(id(group))
        if not self._groups:
            self.close()

    def _iterated(self, iteration: Iteration) -> None:
        if len(self._iterations) < MOST_ITERATIONS:
            self._iterations.append(iteration)

    def close(self) -> None:
        """Take leave of all other ranks, and write what was seen where that is asked for."""
        self.engine.close()
        path = os.environ.get(OBSERVE_VARIABLE)
        if path:
            write_observed(Path(path), observed(self.rank, self.size, self._iterations))
        if type(self)._only is self:
            type(self)._only = None
        atexit.unregister(self.close)
