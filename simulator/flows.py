"""The flows in flight, as columns: what is left of each, and how fast it goes."""

from __future__ import annotations

import math

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.folding import UNDECIDED
from echelonflow.scheduling.trace_kernels import SIMULTANEOUS_S


def simultaneous_s(now_s: float) -> float:
    """SIMULTANEOUS_S, or what a clock that shows `now_s` can tell apart if that is longer."""
    return max(SIMULTANEOUS_S, 4 * math.ulp(now_s))


class Flows:
    """Rows are flows in order of release. A flow's `handle` is what its source calls it, larger for later ones."""

    def __init__(self) -> None:
        self.now_s = 0.0
        """The moment for which bytes are right; they change only when someone has to know (`move_to`)."""
        self.empty_s = math.inf
        """When the first flow runs empty at the rates that are; infinite where none moves."""
        self.handle: Ints = np.zeros(0, np.int64)
        self.size_bytes: Floats = np.zeros(0)
        self.remaining_bytes: Floats = np.zeros(0)
        self.rate_Bps: Floats = np.zeros(0)
        self.start_s: Floats = np.zeros(0)
        """When the flow first had a rate; not a number before."""
        self.allowed_Bps: Floats = np.zeros(0)
        """The rate that the decision in force gives; not a number before the first one."""
        self.traffic_class: Ints = np.zeros(0, np.int64)
        """The class in force; UNDECIDED before the first decision takes effect, and for a flow that is held back."""
        self.decided_class: Ints = np.zeros(0, np.int64)
        """The class that was decided last, in force or on its way."""
        self.told_class: Ints = np.zeros(0, np.int64)
        """The class that was said last, UNDECIDED for a flow that was to wait; like `told_Bps` kept where changes count."""
        self.told_Bps: Floats = np.zeros(0)

    def __len__(self) -> int:
        return len(self.handle)

    @property
    def sent_bytes(self) -> Floats:
        return self.size_bytes - self.remaining_bytes

    def add(self, handle: Ints, size_bytes: Floats) -> None:
        """Append flows that are released now, as yet without a rate."""
        new = len(handle)
        nothing, undecided = np.full(new, np.nan), np.full(new, UNDECIDED)
        self.handle = np.concatenate((self.handle, handle))
        self.size_bytes = np.concatenate((self.size_bytes, size_bytes))
        self.remaining_bytes = np.concatenate((self.remaining_bytes, size_bytes))
        self.rate_Bps = np.concatenate((self.rate_Bps, np.zeros(new)))
        self.start_s = np.concatenate((self.start_s, nothing))
        self.allowed_Bps = np.concatenate((self.allowed_Bps, nothing))
        self.traffic_class = np.concatenate((self.traffic_class, undecided))
        self.decided_class = np.concatenate((self.decided_class, undecided))
        self.told_class = np.concatenate((self.told_class, undecided))
        self.told_Bps = np.concatenate((self.told_Bps, nothing))

    def keep(self, rows: Ints) -> None:
        """Drop all but `rows`, in ascending order."""
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                setattr(self, name, column[rows])
        self._look_ahead()

    def rows_of(self, handle: Ints) -> tuple[Ints, Ints]:
        """Rows of those of `handle` that are in flight, and their places in `handle`."""
        if not len(self):
            return self.handle, self.handle
        rows = np.minimum(np.searchsorted(self.handle, handle), len(self) - 1)
        places = np.flatnonzero(self.handle[rows] == handle)
        return rows[places], places

    def allow(self, rows: Ints, rates_Bps: Floats, traffic_class: Ints) -> None:
        """Put a decision in force for `rows`."""
        self.allowed_Bps[rows] = rates_Bps
        self.traffic_class[rows] = traffic_class

    def set_rates(self, rates_Bps: Floats) -> None:
        """Let every flow go at its rate from now on."""
        moving = rates_Bps > 0
        self.rate_Bps = rates_Bps
        self.start_s[moving & np.isnan(self.start_s)] = self.now_s
        self._look_ahead()

    def move_to(self, now_s: float) -> None:
        """Let time pass."""
        if now_s > self.now_s:
            self.remaining_bytes = self.remaining_bytes - self.rate_Bps * (now_s - self.now_s)
            self.now_s = now_s

    def empty(self) -> Ints:
        """Rows that have run empty."""
        left = self.remaining_bytes <= self.rate_Bps * simultaneous_s(self.now_s)
        return np.flatnonzero(left & (self.rate_Bps > 0))

    def _look_ahead(self) -> None:
        moving = self.rate_Bps > 0
        if moving.all():
            last_s = self.remaining_bytes / self.rate_Bps
        else:
            last_s = self.remaining_bytes[moving] / self.rate_Bps[moving]
        self.empty_s = self.now_s + float(last_s.min()) if len(last_s) else math.inf
