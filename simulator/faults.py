"""Planned faults in a simulation: what links carry now, whether there is a controller, who has just died.

Nobody tells the controller of a slow or broken link, as nobody does on the testbed. It decides as if links carried what
they declare, and what gets through is what is left of that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence
from typing import Protocol

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.faults import ControllerStop, Crash, Fault, LinkDown, LinkRate, changes_s, link_shares
from echelonflow.model.network import Network
from echelonflow.scheduling.folding import UNDECIDED
from echelonflow.wire.classes import DATA_CLASSES
from simulator.realism import Realism


def with_classes(realism: Realism, faults: Sequence[Fault]) -> Realism:
    """The realism under `faults`: where links or the controller fail, packets obey their class and nothing else.

    Rates as allocated would be rates on links that there are no more. So the testbed's classes are simulated.
    """
    enforced = any(isinstance(fault, LinkDown | LinkRate | ControllerStop) for fault in faults)
    if not enforced or realism.classes is not None:
        return realism
    return dataclasses.replace(realism, classes=len(DATA_CLASSES))


class Jobs(Protocol):
    """What faults ask of a source of flows."""

    def connections(self, handle: Ints) -> Sequence[Hashable]:
        """What each of these flows has in common with its other iterations."""

    def end_jobs(self, host: str) -> Ints:
        """End the jobs that use a host; returns the handles of their flows in flight."""


class FaultsInForce:
    """The faults of one simulation of `jobs`, as its time goes on."""

    def __init__(
        self, faults: Sequence[Fault], network: Network, jobs: Jobs, carried_Bps: Sequence[float] | None = None
    ) -> None:
        self._faults = faults
        self._jobs = jobs
        self._network = network
        self._whole_Bps = network.capacity_Bps if carried_Bps is None else carried_Bps
        """What links carry without faults."""
        self._changes_s = changes_s(faults)
        self._buried: set[str] = set()
        self._last_class: dict[Hashable, int] = {}
        self.capacity_Bps: Floats | None = None
        """What links carry now; None where that is what they declare."""
        self.controller = True
        """Whether there is one."""

    @property
    def limits_enforcement(self) -> bool:
        """Whether links or the controller ever fail, so that decided rates are not simply in force."""
        return any(isinstance(fault, LinkDown | LinkRate | ControllerStop) for fault in self._faults)

    @property
    def next_s(self) -> float:
        """When something begins or is over next; infinite if never."""
        return self._changes_s[0] if self._changes_s else math.inf

    @property
    def hampered(self) -> bool:
        """Whether links carry less than they declare now, or nobody decides."""
        return self.capacity_Bps is not None or not self.controller

    def strike(self, now_s: float) -> tuple[bool, Ints]:
        """Bring the state to `now_s`: whether that calls for a decision, and the flows that are no more."""
        without = not self.controller
        dead = self._advance(now_s)
        gone = [self._jobs.end_jobs(host) for host in dead]
        return bool(dead) or (without and self.controller), np.sort(np.concatenate([np.zeros(0, np.int64), *gone]))

    def _advance(self, now_s: float) -> list[str]:
        while self._changes_s and self._changes_s[0] <= now_s:
            self._changes_s.pop(0)
        shares = link_shares(self._faults, self._network, now_s)
        self.capacity_Bps = None
        if shares:
            self.capacity_Bps = np.array(self._whole_Bps)
            for index, share in shares.items():
                self.capacity_Bps[index] *= share
        self.controller = not any(isinstance(f, ControllerStop) and f.holds(now_s) for f in self._faults)
        dead = [f.host for f in self._faults if isinstance(f, Crash) and f.holds(now_s) and f.host not in self._buried]
        self._buried.update(dead)
        return dead

    def note_classes(self, handle: Ints, traffic_class: Ints) -> None:
        """Remember the classes that were decided for these flows."""
        self._last_class.update(zip(self._jobs.connections(handle), traffic_class.tolist(), strict=True))

    def last_classes(self, handle: Ints, decided: Ints, lowest: int) -> Ints:
        """The classes in which flows go on without a controller: what was decided for them, or for them last time.

        A flow of which nothing is known takes the `lowest` class, as its packets do at the switch.
        """
        known = [self._last_class.get(connection, UNDECIDED) for connection in self._jobs.connections(handle)]
        classes = np.where(decided == UNDECIDED, np.array(known, np.int64), decided)
        found: Ints = np.where(classes == UNDECIDED, lowest, classes)
        return found
