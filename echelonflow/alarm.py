"""Bounds how long a block of code may take."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def alarm(limit_s: float, error: Exception) -> Iterator[None]:
    """Raise `error` inside the block after `limit_s` of wall-clock time; for the main thread only.

    The alarm interrupts Python code, also between two calls of numpy. One call into C is not interrupted: the error
    comes when it returns.
    """

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
