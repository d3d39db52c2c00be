"""When links are read while a run goes on, for who watches it: once a second, and never for a notable share of the time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from echelonflow.errors import RunError
from echelonflow.records.progress import LinksCarried
from testbed.class_meter import Carried

log = logging.getLogger("emulator")
EVERY_S = 1.0
MOST_SHARE = 0.005
"""Of a processor: where a reading takes long, as on a large network, readings are fewer."""

TellLinks = Callable[[LinksCarried], None]


class LinkReadings:
    """Has `read` say what links have carried, and `tell`s it; `now_s` is the monotonic clock."""

    def __init__(
        self, read: Callable[[], Carried], tell: TellLinks, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._tell = tell
        self._now_s = now_s
        self._due_s = now_s()
        self._failed = False

    def look(self) -> None:
        """Read if that is due. What cannot be read is left out from then on, and the log says why: the run goes on."""
        began_s = self._now_s()
        if self._failed or began_s < self._due_s:
            return
        try:
            carried = self._read()
        except RunError as error:
            self._failed = True
            log.warning("links are not read any more: %s", error)
            return
        self._tell(LinksCarried(began_s, carried))
        self._due_s = began_s + max(EVERY_S, (self._now_s() - began_s) / MOST_SHARE)
