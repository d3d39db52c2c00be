"""Carries the planned faults of one emulated run out, each at its time, and notes when that was.

In a thread of its own, as the run goes on meanwhile. Stragglers and lost messages are the agents' own work: they know
the plan. Here links fail and come back, hosts die, and the controller is killed and started again.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from echelonflow.errors import EchelonError, RunError
from echelonflow.model.faults import ControllerStop, Crash, Fault, LinkDown, LinkRate, links_of
from echelonflow.model.network import Link, Network
from echelonflow.records.outcome import FaultDone


class Target(Protocol):
    """What can be done to an emulation. All of it may raise RunError, and has happened on return."""

    def set_share(self, links: Sequence[Link], share: float) -> None:
        """Let links carry a share of their rate."""

    def set_up(self, links: Sequence[Link], *, up: bool) -> None:
        """Take links down or up."""

    def crash(self, host: str) -> None:
        """Kill the agent on a host, and take its link down."""

    def stop_controller(self) -> None:
        """Kill the controller."""

    def restart_controller(self) -> None:
        """Start the controller again, and tell it of the run."""


class FaultInjector:
    """The `faults` of a run whose zero is at `zero_s`; nothing happens before `start`."""

    def __init__(
        self,
        faults: Sequence[Fault],
        network: Network,
        target: Target,
        zero_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._network = network
        self._target = target
        self._zero_s = zero_s
        self._clock = clock
        self._due: list[tuple[float, int, bool]] = []
        """Heap of (time since zero, place of the fault, whether it begins)."""
        self._faults = tuple(faults)
        for place, fault in enumerate(self._faults):
            heapq.heappush(self._due, (fault.at_s, place, True))
            if fault.until_s < math.inf:
                heapq.heappush(self._due, (fault.until_s, place, False))
        self._done: dict[int, FaultDone] = {}
        self._stop = threading.Event()
        self._error: EchelonError | None = None
        self._thread = threading.Thread(target=self._run, name="planned faults", daemon=True)
        self._restarting: threading.Thread | None = None
        """A controller takes seconds to come up, and other faults do not wait for it."""

    def start(self) -> None:
        """Begin to wait for the first of them."""
        self._thread.start()

    def check(self) -> None:
        """Raise what went wrong in carrying one out."""
        if self._error is not None:
            raise RunError(f"a planned fault could not be carried out: {self._error}")

    def end(self) -> list[FaultDone]:
        """The run is over: undo what is still in force on links; returns what was done."""
        self._stop.set()
        self._thread.join()
        self._await_restart()
        for place, done in sorted(self._done.items()):
            fault = self._faults[place]
            if done.end_s is None and not isinstance(fault, ControllerStop):
                self._over(fault)
        return [done for _, done in sorted(self._done.items())]

    def _run(self) -> None:
        try:
            while self._due:
                at_s, place, begins = heapq.heappop(self._due)
                if self._stop.wait(max(self._zero_s + at_s - self._clock(), 0.0)):
                    return
                self._carry_out(place, begins=begins)
        except EchelonError as error:
            self._error = error

    def _carry_out(self, place: int, *, begins: bool) -> None:
        fault = self._faults[place]
        if begins:
            self._begin(fault)
            self._done[place] = FaultDone(fault, self._since_zero_s())
            return
        if isinstance(fault, ControllerStop):
            self._restarting = threading.Thread(target=self._restart, args=(place,), name="restart", daemon=True)
            self._restarting.start()
            return
        self._over(fault)
        self._note_end(place)

    def _note_end(self, place: int) -> None:
        done = self._done[place]
        self._done[place] = FaultDone(done.fault, done.begin_s, self._since_zero_s())

    def _restart(self, place: int) -> None:
        try:
            self._target.restart_controller()
            self._note_end(place)
        except EchelonError as error:
            self._error = error

    def _await_restart(self) -> None:
        if self._restarting is not None:
            self._restarting.join()

    def _begin(self, fault: Fault) -> None:
        match fault:
            case LinkDown():
                self._target.set_up(links_of(fault, self._network), up=False)
            case LinkRate():
                self._target.set_share(links_of(fault, self._network), fault.share)
            case Crash():
                self._target.crash(fault.host)
            case ControllerStop():
                self._await_restart()
                self._target.stop_controller()

    def _over(self, fault: Fault) -> None:
        match fault:
            case LinkDown():
                self._target.set_up(links_of(fault, self._network), up=True)
            case LinkRate():
                self._target.set_share(links_of(fault, self._network), 1.0)
            case Crash():
                ends = [link for link in self._network.links if fault.host in (link.src, link.dst)]
                self._target.set_up(ends, up=True)

    def _since_zero_s(self) -> float:
        return round(self._clock() - self._zero_s, 6)
