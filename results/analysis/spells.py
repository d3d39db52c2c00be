"""Spells of a run in which its machine was others': the host took processors away, other programs did, or all were busy."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from echelonflow.records.outcome import LoadWindow, RunOutcome

TAKEN_SHARE = 0.1
"""Of all processors, from which on they count as taken. Clocks count in hundredths of a second, so that two processors
that nobody else uses may show 4 % in half a second."""
ALL_BUSY_SHARE = 0.98
"""From here on somebody waits for a processor."""
Spell = tuple[float, float]
"""From when to when, in seconds since the run's zero."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Shares of all processors (0 to 1) that the host and other programs had."""

    stolen: float
    others: float


def taken_spells(run: RunOutcome) -> list[Spell]:
    """The spells in which others had the machine, in order; none where it was not sampled."""
    if run.load is None or run.zero_monotonic_s is None:
        return []
    zero_s = run.zero_monotonic_s
    return [
        (window.begin_s - zero_s, window.end_s - zero_s)
        for window in _believable(run.load.windows)
        if window.stolen + window.others >= TAKEN_SHARE or window.busy >= ALL_BUSY_SHARE
    ]


def within_any(spells: Sequence[Spell], at_s: float) -> bool:
    """Whether a moment lies in one of some spells, which are in order."""
    place = bisect.bisect_right(spells, at_s, key=lambda spell: spell[0])
    return bool(place) and spells[place - 1][0] <= at_s <= spells[place - 1][1]


def taken_while_late(run: RunOutcome, late: Iterable[tuple[float, float]]) -> Taken | None:
    """What others had while steps were late, given as (moment in run time, seconds late): the mean by lateness.

    None where nothing was late, or nobody looked.
    """
    if run.load is None or run.zero_monotonic_s is None or not run.load.windows:
        return None
    windows = _believable(run.load.windows)
    stolen = others = weight = 0.0
    for at_s, late_s in late:
        window = _window_at(windows, at_s + run.zero_monotonic_s)
        if window is not None and late_s > 0:
            stolen += window.stolen * late_s
            others += window.others * late_s
            weight += late_s
    return Taken(stolen / weight, others / weight) if weight else None


def _believable(windows: Sequence[LoadWindow]) -> list[LoadWindow]:
    """The windows in order whose shares are shares."""
    found = [w for w in windows if all(0 <= share <= 1 for share in (w.busy, w.stolen, w.others))]
    return sorted(found, key=lambda window: window.begin_s)


def _window_at(windows: Sequence[LoadWindow], monotonic_s: float) -> LoadWindow | None:
    place = bisect.bisect_right(windows, monotonic_s, key=lambda window: window.begin_s)
    return windows[place - 1] if place and monotonic_s <= windows[place - 1].end_s else None
