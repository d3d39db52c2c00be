"""Keys of an order that are remembered from one iteration to the next.

Iterations repeat, so what a group or a stage was ordered by when it appeared in one iteration orders it in the next
ones too (the EchelonFlow paper, section 5, lets decisions be made at events or at intervals, and reused). What is
remembered belongs to the *template*: job and place in the job, whatever the iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from echelonflow.fill import quantised
from echelonflow.snapshot import Floats, Ints, Snapshot
from echelonflow.state import stable_id
from echelonflow.urgency import running_maximum

_ITERATION = stable_id(0, 1, 0)
_ITERATIONS = stable_id(1, 0, 0) - _ITERATION
"""The bits of a stable id that count iterations."""
_ABSENCES = 2.0
"""A job that has nothing in flight for so many times its longest absence so far has departed."""


@dataclass(slots=True)
class _Job:
    """What was seen of a job."""

    alone_s: float
    seen_s: float
    longest_absence_s: float = math.inf


class OrderMemory:
    """What one policy remembers in one run.

    A key is computed when its template is met for the first time, and again, for the templates in flight, where

    - a job arrives or departs (or the ids of jobs have come to mean others): then all is forgotten;
    - it is older than `interval_s`, or time went back (another run);
    - the template has *drifted*: in a new iteration it appears later after its reference time than it did when its key
      was computed, or sooner, by more than `drift` times its group's time alone.
    """

    def __init__(self, drift: float, interval_s: float) -> None:
        self._drift = drift
        self._interval_s = interval_s
        self._jobs: dict[int, _Job] = {}
        self._decisions = 0
        self._recomputations = 0
        self._forget()

    def counters(self) -> Mapping[str, int]:
        """Decisions so far, and for how many of them keys were computed."""
        return {"decisions": self._decisions, "recomputations": self._recomputations}

    def keys_s(self, snapshot: Snapshot, compute: Callable[[], Floats], *, by_group: bool) -> Floats:
        """The key of each flow in seconds, remembered or from `compute` (one per flow, equal within a stage or group).

        `by_group` says that the template is the group; else it is the flow. Within a group no flow gets a key
        smaller than one that is due before it.
        """
        self._decisions += 1
        self._watch_jobs(snapshot)
        groups, group = snapshot.groups, snapshot.group
        ids = groups.id[group] if by_group else snapshot.flow_id
        template, iteration = ids & ~_ITERATIONS, ids & _ITERATIONS
        lateness = (snapshot.now_s - (groups.reference_s[group] if by_group else snapshot.ideal_finish_s)) / (
            groups.alone_s[group]
        )
        place = np.minimum(np.searchsorted(self._template, template), len(self._template) - 1)
        known = self._template[place] == template
        age_s = snapshot.now_s - self._made_s[place]
        old = (age_s < 0) | (age_s > self._interval_s)
        again = iteration > self._iteration[place]
        stale = ~known | old | (again & (np.abs(lateness - self._lateness[place]) > self._drift))
        self._iteration[place[known]] = np.maximum(self._iteration[place[known]], iteration[known])
        key_s = self._key_s[place]
        if stale.any():
            self._recomputations += 1
            key_s = np.where(stale, compute(), key_s)
            self._learn(template[stale], key_s[stale], lateness[stale], iteration[stale], snapshot.now_s)
        return _in_order_of_ideal_finish(snapshot, key_s)

    def _forget(self) -> None:
        # One entry that no template has spares every look-up the case of none.
        self._template: Ints = np.array([-1], np.int64)
        self._key_s: Floats = np.zeros(1)
        self._lateness: Floats = np.zeros(1)
        self._iteration: Ints = np.zeros(1, np.int64)
        self._made_s: Floats = np.zeros(1)

    def _learn(self, template: Ints, key_s: Floats, lateness: Floats, iteration: Ints, now_s: float) -> None:
        """Put entries in, sorted by template, in place of those that were there."""
        merged = np.concatenate((template, self._template))
        self._template, rows = np.unique(merged, return_index=True)  # the first of equals: the new one
        self._key_s = np.concatenate((key_s, self._key_s))[rows]
        self._lateness = np.concatenate((lateness, self._lateness))[rows]
        self._iteration = np.concatenate((iteration, self._iteration))[rows]
        self._made_s = np.concatenate((np.full(len(template), now_s), self._made_s))[rows]

    def _watch_jobs(self, snapshot: Snapshot) -> None:
        now_s = snapshot.now_s
        changed = False
        for name, alone_s in zip(snapshot.jobs.id.tolist(), snapshot.jobs.alone_s.tolist(), strict=True):
            job = self._jobs.get(name)
            if job is None or job.alone_s != alone_s or job.seen_s > now_s:
                changed = True
                self._jobs[name] = _Job(alone_s, now_s)
                continue
            absence_s = now_s - job.seen_s
            known_s = job.longest_absence_s
            job.longest_absence_s = absence_s if known_s == math.inf else max(known_s, absence_s)
            job.seen_s = now_s
        gone = [name for name, job in self._jobs.items() if now_s - job.seen_s > _ABSENCES * job.longest_absence_s]
        for name in gone:
            del self._jobs[name]
        if changed or gone:
            self._forget()


def _in_order_of_ideal_finish(snapshot: Snapshot, key_s: Floats) -> Floats:
    rows = np.lexsort((snapshot.flow_id, quantised(snapshot.ideal_finish_s), snapshot.group))
    ordered = np.empty_like(key_s)
    ordered[rows] = running_maximum(key_s[rows], snapshot.group[rows])
    return ordered
