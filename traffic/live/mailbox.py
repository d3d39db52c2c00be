"""What other threads ask of a thread that waits in a poll set."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable


class Mailbox:
    """Actions for one thread. It waits for `fileno` to be readable, and then carries them out in order by `empty`.

    Once it is closed there is no such thread any more, and whoever puts something in carries it out himself. An action finds out by itself
    that it comes too late.
    """

    def __init__(self) -> None:
        self._actions: deque[Callable[[], None]] = deque()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        """Held where the bell is rung or closed: its number may be somebody else's afterwards."""
        self._is_closed = False

    def fileno(self) -> int:
        return self._bell

    def put(self, action: Callable[[], None]) -> None:
        """Ask for something, from any thread."""
        self._actions.append(action)
        with self._lock:
            if not self._is_closed:
                os.eventfd_write(self._bell, 1)
                return
        self._carry_out()

    def empty(self) -> None:
        """Carry out all that is there."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        self._carry_out()

    def _carry_out(self) -> None:
        while True:
            try:
                action = self._actions.popleft()
            except IndexError:  # which looking before would not rule out: after the end, two threads may be at it
                return
            action()

    def close(self) -> None:
        """The thread ends."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._bell)
        self._carry_out()
