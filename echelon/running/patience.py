"""Looks at the machine before runs are made, says what accuracy it can give, and waits for a quieter spell if asked to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from echelon.running import accuracy
from echelon.running.accuracy import Course
from echelonflow.records.progress import Looking, Report, Waiting, Warned
from testbed import moment
from testbed.moment import Moment

EVERY_S = 5.0
"""Between two looks, each of which keeps the machine busy for a second or two."""


@dataclass
class Patience:
    """How long is waited in all, over all rounds of runs."""

    left_s: float
    report: Report
    look: Callable[[], Moment] = moment.probe
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    told: bool = field(default=False, init=False)
    """Whether the machine was said not to be accurate enough: once is enough."""

    def before_runs(self, paths: Sequence[Course]) -> Moment | None:
        """Look at the machine, and wait while it is not accurate enough for runs with these critical paths.

        When patience ends, runs are made all the same: each is judged by what it measures of itself, and what does not
        count is made again. Returns what was seen last; None where there is nothing to look for.
        """
        if not paths or (self.told and self.left_s <= 0):
            return None
        self.report(Looking())
        seen = self.look()
        if accuracy.enough(seen, paths):
            return seen
        begin_s = self.clock()
        waits = self.left_s > 0
        if not self.told:
            remedy = "waiting for a quieter spell" if waits else accuracy.remedies(seen, paths)
            self.report(Warned(f"{accuracy.said(seen, paths)}: {remedy}"))
        self.told = True
        while self.left_s > 0:
            self.report(Waiting(*accuracy.worst(seen, paths), seen.words(), self.left_s))
            self.sleep(min(EVERY_S, self.left_s))
            seen = self.look()
            now_s = self.clock()
            self.left_s -= now_s - begin_s
            begin_s = now_s
            if accuracy.enough(seen, paths):
                self.report(Warned(f"it is quieter now ({seen.words()}): going on"))
                return seen
        if waits:
            self.report(Warned(f"no quieter spell came ({seen.words()}): going on all the same"))
        return seen
