"""Jobs that end in mid-run as planned, since a host of theirs crashes."""

from __future__ import annotations

import math
from collections.abc import Mapping

ENDS_TOGETHER_S = 1.0
"""How much sooner than planned a connection of a job may be lost that a crash is about to end."""


class PlannedEnds:
    """When jobs end: `ends_s` has seconds since the run's zero, by job. Before `begin` there is no such time."""

    def __init__(self, ends_s: Mapping[str, float]) -> None:
        self._ends_s = dict(ends_s)
        self._zero_s = math.inf
        self._ended: set[str] = set()

    def begin(self, zero_s: float) -> None:
        """The run's zero is known."""
        self._zero_s = zero_s

    @property
    def next_s(self) -> float:
        """When the next job ends; infinite if none does."""
        return min((self._zero_s + end_s for end_s in self._ends_s.values()), default=math.inf)

    def due(self, now_s: float) -> list[str]:
        """Jobs that end by now, and have not been noted."""
        return [job for job, end_s in self._ends_s.items() if now_s >= self._zero_s + end_s]

    def explain_loss(self, job: str, now_s: float) -> bool:
        """Whether a connection of `job` may be lost by now, since it is about to end."""
        return job in self._ends_s and now_s >= self._zero_s + self._ends_s[job] - ENDS_TOGETHER_S

    def note(self, job: str) -> None:
        """The job has ended."""
        del self._ends_s[job]
        self._ended.add(job)

    def has_ended(self, job: str) -> bool:
        """Whether the end of `job` has been noted."""
        return job in self._ended
