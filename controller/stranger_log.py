"""What is logged of strangers, sparingly: who knocks a thousand times a second must not fill the disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES_PER_S = 5.0
MOST_LINES_AT_ONCE = 50


class Sparing(logging.Filter):
    """Lets so many records through, without tracebacks; the next one says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._allowed = float(MOST_LINES_AT_ONCE)
        self._seen_s = clock()
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be logged."""
        now_s = self._clock()
        self._allowed = min(self._allowed + (now_s - self._seen_s) * LINES_PER_S, MOST_LINES_AT_ONCE)
        self._seen_s = now_s
        if self._allowed < 1:
            self._left_out += 1
            return False
        self._allowed -= 1
        record.exc_info = None
        if self._left_out:
            record.msg, record.args = f"{record.getMessage()} ({self._left_out} more like it were not logged)", ()
            self._left_out = 0
        return True


log = logging.getLogger("controller.strangers")
log.addFilter(Sparing())
