"""Orders that are remembered from one iteration to the next.

Iterations repeat, so the same flows of the same groups meet again, and what was decided then can be decided again
(the EchelonFlow paper, section 5). A *situation* is which flows are in flight, by job and by place in the job,
whatever the iteration: the template of an order. Its order is computed when it is met first, and taken from memory
when it is met again and looks the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.state import stable_id

MOST_SITUATIONS = 4096
"""For one more, the one that was first met longest ago is forgotten."""

_ITERATION = stable_id(0, 1, 0)
_ITERATIONS = stable_id(1, 0, 0) - _ITERATION
"""The bits of a stable id that count iterations."""


@dataclass(frozen=True, slots=True)
class _Order:
    """The places of a situation's flows, by template, and how the situation looked when they were computed."""

    rank: Ints
    look: Floats
    made_s: float


class OrderMemory:
    """What one policy remembers in one run.

    An order is computed again where

    - the situation has *drifted*: since then the share of some flow that is left has changed by more than `drift`, or
      its lateness has by more than `drift` times its group's time alone;
    - it is older than `interval_s`, or time went back (another run).

    A job that arrives or departs changes which flows are in flight, so the situations from then on are others. Groups
    of another shape or weight under the same ids make another situation too.
    """

    def __init__(self, drift: float, interval_s: float) -> None:
        self._drift = drift
        self._interval_s = interval_s
        self._orders: dict[bytes, _Order] = {}
        self._decisions = 0
        self._recomputations = 0

    def counters(self) -> Mapping[str, int]:
        """Decisions so far, and for how many of them the order was computed."""
        return {"decisions": self._decisions, "recomputations": self._recomputations}

    def rank(self, snapshot: Snapshot, compute: Callable[[], Ints]) -> Ints:
        """The place of each flow: remembered, or else from `compute`."""
        self._decisions += 1
        template = _templates(snapshot)
        rows = np.argsort(template)
        groups, group = snapshot.groups, snapshot.group[rows]
        situation = b"".join(a.tobytes() for a in (template[rows], groups.alone_s[group], groups.weight[group]))
        left = snapshot.remaining_bytes / (snapshot.remaining_bytes + snapshot.sent_bytes)
        late = (snapshot.now_s - snapshot.ideal_finish_s)[rows] / groups.alone_s[group]
        look = np.concatenate((left[rows], late))
        known = self._orders.get(situation)
        if known is not None and self._holds(known, look, snapshot.now_s):
            rank = np.empty_like(known.rank)
            rank[rows] = known.rank
            return rank
        self._recomputations += 1
        computed = compute()
        if known is None and len(self._orders) >= MOST_SITUATIONS:
            del self._orders[next(iter(self._orders))]
        self._orders[situation] = _Order(computed[rows], look, snapshot.now_s)
        return computed

    def _holds(self, known: _Order, look: Floats, now_s: float) -> bool:
        fresh = 0.0 <= now_s - known.made_s <= self._interval_s
        return fresh and bool(np.max(np.abs(look - known.look), initial=0.0) <= self._drift)


def _templates(snapshot: Snapshot) -> Ints:
    """For each flow, its id counted from its job's first iteration in flight: the same in every iteration, unique."""
    job = snapshot.groups.job[snapshot.group]
    iteration = snapshot.flow_id & _ITERATIONS
    first = np.full(len(snapshot.jobs.id), _ITERATIONS, np.int64)
    np.minimum.at(first, job, iteration)
    return snapshot.flow_id - first[job]
