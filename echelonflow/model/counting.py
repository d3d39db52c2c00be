"""Which iterations of a run count: all, those while all jobs run and have warmed up, or those between two moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

WARM_UP = 2
"""Iterations of each job that do not count in steady state, where nobody says how many."""

Counted = Mapping[str, range]
"""By job, the numbers of its iterations that count, one after the other."""


class Counting(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. With a `warm_up` it is the steady state, else what lies between two moments of the run."""

    warm_up: int | None = None
    """First iterations of each job that are left out; counting begins when every job has ended its own."""
    from_s: float = 0.0
    """Iterations that began before do not count; seconds since the run's zero."""
    until_s: float | None = None
    """Nor do those that ended later; None where there is no such moment."""

    @property
    def is_all(self) -> bool:
        """Whether every iteration counts."""
        return self == Counting()

    @property
    def words(self) -> str:
        """What counts, as a sentence's part."""
        if self.warm_up is not None:
            begun = f" after the first {self.warm_up} of every job," if self.warm_up else ""
            return f"iterations{begun} until the first job ends"
        if self.is_all:
            return "all iterations"
        until = "" if self.until_s is None else f" until {self.until_s:g} s"
        return f"iterations from {self.from_s:g} s on{until}"

    def counted(self, starts_s: Mapping[str, float], ends_s: Mapping[str, Sequence[float]]) -> Counted:
        """The iterations that count; jobs without any are left out.

        `starts_s` is when each job's first iteration began, `ends_s` when its iterations ended, in order. Only those jobs
        matter that ended one: of others nobody knows when they would have warmed up.
        """
        known = {job: ends for job, ends in ends_s.items() if len(ends)}
        begin_s, end_s = self.bounds_s(known)
        found = {}
        for job, ends in known.items():
            begins = [starts_s[job], *ends[:-1]]
            kept = [
                k for k, each in enumerate(zip(begins, ends, strict=True)) if begin_s <= each[0] and each[1] <= end_s
            ]
            if kept:
                found[job] = range(kept[0], kept[-1] + 1)
        return found

    def bounds_s(self, ends_s: Mapping[str, Sequence[float]]) -> tuple[float, float]:
        """From when to when iterations count that begin and end in between, in seconds since the run's zero."""
        if self.warm_up is None:
            return self.from_s, math.inf if self.until_s is None else self.until_s
        if not ends_s or any(len(each) < max(self.warm_up, 1) for each in ends_s.values()):
            return math.inf, -math.inf
        warm = [each[self.warm_up - 1] for each in ends_s.values()] if self.warm_up else [-math.inf]
        return max(warm), min(each[-1] for each in ends_s.values())


ALL = Counting()
"""Every iteration counts."""
STEADY = Counting(warm_up=WARM_UP)
"""The steady state, as who does not say otherwise gets it."""
