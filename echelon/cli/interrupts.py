"""Signals that end a program end an experiment in order, as Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

AS_CTRL_C = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt in the block; one that is ignored, as nohup has it, stays so."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in AS_CTRL_C}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
