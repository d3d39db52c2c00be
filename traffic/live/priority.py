"""A thread that goes before others of its process."""

from __future__ import annotations

import contextlib
import os
import threading

NICE = -10
"""As the replay agent's: what it is told is to be done at once, while others compute."""


def go_first() -> None:
    """Have the calling thread go before the machine's other work, where that is allowed. Linux has priorities of threads."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
