"""Planned faults: what is to go wrong in a run, and when; the same for simulator, emulator and whoever judges a run.

Pure data and arithmetic. Times are seconds since the run's zero. A fault holds from `at_s` for `for_s`, or to the end of
the run where that is None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from echelonflow.model.dag import Job
from echelonflow.model.network import Link, Network


class _Fault(msgspec.Struct, frozen=True, kw_only=True, tag_field="fault"):
    """What all faults have in common; "fault" says which kind it is."""

    at_s: float
    for_s: float | None = None

    @property
    def until_s(self) -> float:
        """When it is over; infinite where it holds to the end of the run."""
        return math.inf if self.for_s is None else self.at_s + self.for_s

    def holds(self, now_s: float) -> bool:
        """Whether it is in force at `now_s`."""
        return self.at_s <= now_s < self.until_s


class LinkDown(_Fault, frozen=True, kw_only=True, tag="link-down"):
    """All cables between two nodes carry nothing, in both directions."""

    ends: tuple[str, str]

    @property
    def what(self) -> str:
        """The fault in words."""
        return f"link {'-'.join(self.ends)} down"


class LinkRate(_Fault, frozen=True, kw_only=True, tag="link-rate"):
    """All cables between two nodes carry only a `share` (0 to 1) of what they declare, in both directions."""

    ends: tuple[str, str]
    share: float

    @property
    def what(self) -> str:
        """The fault in words."""
        return f"link {'-'.join(self.ends)} at {self.share:.4g} of its rate"


class Slowdown(_Fault, frozen=True, kw_only=True, tag="slowdown"):
    """A straggler: computations on `host` take `factor` times as long while it holds."""

    host: str
    factor: float

    @property
    def what(self) -> str:
        """The fault in words."""
        return f"{self.host} computes {self.factor:.4g} times as long"


class Crash(_Fault, frozen=True, kw_only=True, tag="crash"):
    """A host dies, for good: its processes and its link. Every job with a rank on it ends then."""

    host: str

    @property
    def what(self) -> str:
        """The fault in words."""
        return f"{self.host} crashes"


class ControllerStop(_Fault, frozen=True, kw_only=True, tag="controller-stop"):
    """The controller is killed, and started again after `for_s`; never where that is None."""

    @property
    def what(self) -> str:
        """The fault in words."""
        return "no controller"


class LostMessages(_Fault, frozen=True, kw_only=True, tag="lost-messages"):
    """Of the messages about flows between the agent on `host` and the controller, a `share` (0 to 1) is lost."""

    host: str
    share: float

    @property
    def what(self) -> str:
        """The fault in words."""
        return f"{self.share:.0%} of the control messages of {self.host} are lost"


Fault = LinkDown | LinkRate | Slowdown | Crash | ControllerStop | LostMessages
LinkFault = LinkDown | LinkRate


def links_of(fault: LinkFault, network: Network) -> list[Link]:
    """The directed links that a fault of a link strikes."""
    ends = set(fault.ends)
    return [link for link in network.links if {link.src, link.dst} == ends]


def link_shares(faults: Iterable[Fault], network: Network, now_s: float) -> dict[int, float]:
    """What links carry at `now_s`, as a share of what they declare, by index; links at their full rate are left out.

    A host that has crashed carries nothing.
    """
    shares: dict[int, float] = {}
    for fault in faults:
        if not fault.holds(now_s):
            continue
        if isinstance(fault, Crash):
            shares.update({link.index: 0.0 for link in network.links if fault.host in (link.src, link.dst)})
        elif isinstance(fault, LinkDown | LinkRate):
            share = 0.0 if isinstance(fault, LinkDown) else fault.share
            shares.update({link.index: min(share, shares.get(link.index, 1.0)) for link in links_of(fault, network)})
    return shares


def ended_jobs(faults: Iterable[Fault], jobs: Sequence[Job]) -> dict[str, float]:
    """The jobs that a planned crash ends, if they are not done by then, and when."""
    ended: dict[str, float] = {}
    for fault in faults:
        if isinstance(fault, Crash):
            for job in jobs:
                if fault.host in job.placement:
                    ended[job.name] = min(fault.at_s, ended.get(job.name, math.inf))
    return ended


class Slowdowns:
    """When computations on `host` end, with the times at which it is planned to be slow."""

    def __init__(self, faults: Iterable[Fault], host: str) -> None:
        slow = [fault for fault in faults if isinstance(fault, Slowdown) and fault.host == host]
        self._slow = sorted(slow, key=lambda fault: fault.at_s)

    def finish_s(self, start_s: float, duration_s: float) -> float:
        """When a computation that begins at `start_s` ends, of `duration_s` at full speed."""
        now_s, left_s = start_s, duration_s
        for fault in self._slow:
            if fault.until_s <= now_s:
                continue
            before_s = max(fault.at_s - now_s, 0.0)
            if left_s <= before_s:
                break
            now_s, left_s = now_s + before_s, left_s - before_s
            slowed_s = left_s * fault.factor
            if now_s + slowed_s <= fault.until_s:
                return now_s + slowed_s
            left_s -= (fault.until_s - now_s) / fault.factor
            now_s = fault.until_s
        return now_s + left_s


def outages(faults: Iterable[Fault]) -> list[ControllerStop]:
    """The times without a controller, in order."""
    return sorted((f for f in faults if isinstance(f, ControllerStop)), key=lambda fault: fault.at_s)


def changes_s(faults: Iterable[Fault]) -> list[float]:
    """The moments at which something begins or is over, in order."""
    return sorted({moment_s for f in faults for moment_s in (f.at_s, f.until_s) if moment_s < math.inf})
