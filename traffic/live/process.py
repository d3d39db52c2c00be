"""What all process groups of one process share: its connections, the thread that serves them, and what is noted of the program."""

from __future__ import annotations

import atexit
from datetime import timedelta
from typing import Any, ClassVar

from traffic.live.engine import Engine
from traffic.live.link import Link
from traffic.live.mesh import connect_all
from traffic.live.observing import Observer


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

    def close(self) -> None:
        """Take leave of all other ranks."""
        self.engine.close()
        if type(self)._only is self:
            type(self)._only = None
        atexit.unregister(self.close)
