"""Which iterations of jobs have ended, and which jobs are under way: what their clocks need (`echelonflow.model.clock`).

A part of the state of the scheduler. An iteration has ended when its flows have, and what is computed after them: at the
latest end plus rest among its flows, and so have those before it. The first one that is seen began at the least release less
lead of its flows so far. A job is under way from its first release until all flows of its last iteration have ended; where
nobody said how many iterations there are, until it is withdrawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Floats
from echelonflow.scheduling.correction import begin_and_rest_s
from echelonflow.scheduling.slot_table import SlotTable
from echelonflow.scheduling.steady import JobLoads
from echelonflow.scheduling.time_shifts import Profile
from echelonflow.wire.messages import Declare, FlowClock, JobClock


@dataclass(slots=True)
class _Iteration:
    """One of which a flow has ended, and not all."""

    flows: int = 0
    """That have ended."""
    end_s: float = -np.inf


class _Piece(NamedTuple):
    """What a flow brings to a link: since when in an iteration, for how long, and how long the link needs for it."""

    link: int
    begin_s: float
    lasts_s: float
    load_s: float


@dataclass(slots=True)
class _Clock:
    """Of one job; `slot` has when its last iteration ended."""

    declared: JobClock
    load_s: Floats
    """By link of the network."""
    slot: int
    flows: int = 0
    """Of one iteration."""
    begun: bool = False
    first: int = 0
    """The first iteration that is seen."""
    ended: int = 0
    """Flows of all iterations."""
    iterations: dict[int, _Iteration] = field(default_factory=dict)
    profile: list[_Piece] = field(default_factory=list)
    clocks: list[FlowClock] = field(default_factory=list)
    """Of all flows."""
    compute_s: float = 0.0
    sends_s: tuple[float, float] = (0.0, 0.0)
    """When an iteration begins to send, and what is computed after it has sent all."""
    latest: int = -1
    """The latest iteration of which a flow was released."""
    began_s: float = -np.inf
    """When that began: the least release less lead of its flows."""
    came: int = 0
    """How many jobs had begun before it."""

    @property
    def is_under_way(self) -> bool:
        last = self.declared.iterations * self.flows
        return self.begun and not (last and self.ended >= last)


class Before(NamedTuple):
    """What a release changes, as it was before."""

    begun: bool
    ended_s: float
    last: int
    latest: int
    began_s: float


def _profile(job: str, clock: _Clock) -> Profile:
    pieces = clock.profile
    times = np.array([piece[1:] for piece in pieces], np.float64).reshape(len(pieces), 3)
    link = np.array([piece.link for piece in pieces], np.int64)
    period_s = max(clock.declared.iteration_s, float(clock.load_s.max()))  # whatever a client says of it
    return Profile(job, period_s, float(clock.began_s), link, *times.T)


class JobClocks:
    """Clocks of the jobs that declared one; the others have the slot `NONE`."""

    NONE = 0

    def __init__(self) -> None:
        self._clocks: dict[str, _Clock] = {}
        self._table = SlotTable({"ended_s": np.float64, "last": np.int64})
        """By job: when the last iteration ended that has, and which that is; -1: the first one has begun."""
        self._table.take(ended_s=np.nan, last=-1)
        self._under_way: JobLoads | None = None
        self._begun = 0
        """Jobs that have begun so far."""

    def __bool__(self) -> bool:
        return bool(self._clocks)

    def declare(self, group: Declare, load_s: Floats, paths: Mapping[str, Sequence[int]], capacity_Bps: Floats) -> None:
        """A group of a job is known, and the `paths` of its flows; `load_s` is what an iteration of all its groups brings to each link."""
        if group.clock is None:
            return
        if group.job not in self._clocks:
            self._clocks[group.job] = _Clock(group.clock, load_s, self._table.take(ended_s=np.inf, last=-1))
        clock = self._clocks[group.job]
        clock.load_s = load_s
        clock.flows += len(group.flows)
        clock.compute_s = group.compute_s
        clock.clocks += [flow.clock for flow in group.flows if flow.clock is not None]
        clock.sends_s = begin_and_rest_s(clock.clocks)
        for flow in group.flows:
            if flow.clock is not None:
                load = ((link, flow.size_bytes / float(capacity_Bps[link])) for link in paths[flow.flow])
                lasts_s, lead_s = flow.clock.lasts_s, flow.clock.lead_s
                clock.profile += [_Piece(link, lead_s, max(lasts_s, need_s), need_s) for link, need_s in load]
        self.note_places()

    def note_places(self) -> None:
        """The jobs that there are have other places."""
        self._under_way = None

    def before(self, job: str) -> Before:
        """What `take_back` needs."""
        clock = self._clocks.get(job)
        if clock is None:
            return Before(begun=False, ended_s=np.nan, last=-1, latest=-1, began_s=-np.inf)
        ended_s, last = float(self._table["ended_s"][clock.slot]), int(self._table["last"][clock.slot])
        return Before(clock.begun, ended_s, last, clock.latest, clock.began_s)

    def release(self, job: str, iteration: int, flow: FlowClock | None, now_s: float) -> int:
        """A flow of the iteration is released; returns the job's slot."""
        clock = self._clocks.get(job)
        if clock is None:
            return self.NONE
        if not clock.begun:
            clock.begun, self._under_way = True, None
            clock.came, self._begun = self._begun, self._begun + 1
        if flow is not None and iteration >= clock.latest:
            earlier_s = clock.began_s if iteration == clock.latest else np.inf
            clock.latest, clock.began_s = iteration, min(earlier_s, now_s - flow.lead_s)
        ended_s, last = self._table["ended_s"], self._table["last"]
        if flow is not None and ended_s[clock.slot] == np.inf:
            clock.first = iteration
            last[clock.slot] = iteration - 1
        if flow is not None and iteration == clock.first == last[clock.slot] + 1:
            ended_s[clock.slot] = min(ended_s[clock.slot], now_s - flow.lead_s)
        return clock.slot

    def take_back(self, job: str, before: Before) -> None:
        """Undo the last release."""
        clock = self._clocks.get(job)
        if clock is None:
            return
        if clock.begun != before.begun:
            clock.begun, self._under_way = before.begun, None
            self._begun -= 1
        clock.latest, clock.began_s = before.latest, before.began_s
        self._table["ended_s"][clock.slot], self._table["last"][clock.slot] = before.ended_s, before.last

    def finish(self, job: str, iteration: int, flow: FlowClock | None, now_s: float) -> None:
        """A flow of the iteration has ended."""
        clock = self._clocks.get(job)
        if clock is None:
            return
        clock.ended += 1
        if not clock.is_under_way:
            self._under_way = None
        known = clock.iterations.setdefault(iteration, _Iteration())
        known.flows += 1
        known.end_s = max(known.end_s, now_s + (0.0 if flow is None else flow.rest_s))
        ended_s, last = self._table["ended_s"], self._table["last"]
        if known.flows >= clock.flows and iteration > last[clock.slot]:
            ended_s[clock.slot] = max(ended_s[clock.slot], known.end_s)
            last[clock.slot] = iteration
            clock.iterations = {later: one for later, one in clock.iterations.items() if later > iteration}

    def withdraw(self, job: str) -> None:
        """Forget a job."""
        clock = self._clocks.pop(job, None)
        if clock is not None:
            self._table.give_back([clock.slot])
        self.note_places()

    def names_under_way(self) -> tuple[str, ...]:
        """The jobs that are under way, in order of their names."""
        return tuple(sorted(job for job, clock in self._clocks.items() if clock.is_under_way))

    def profiles(self) -> list[Profile]:
        """The iterations of the jobs that are under way, in the order in which these began."""
        known = sorted((clock.came, job) for job, clock in self._clocks.items() if clock.is_under_way)
        return [_profile(job, self._clocks[job]) for _, job in known if self._clocks[job].began_s > -np.inf]

    @property
    def ended_s(self) -> Floats:
        """By slot: when the last iteration ended that has; not a number where there is no clock."""
        found: Floats = self._table["ended_s"]
        return found

    @property
    def last(self) -> np.ndarray:
        """By slot: which iteration that was."""
        return self._table["last"]

    def under_way(self, places: Mapping[str, int]) -> JobLoads:
        """The jobs that are under way; `places` are their ids."""
        if self._under_way is None:
            jobs = sorted((places[job], clock) for job, clock in self._clocks.items() if clock.is_under_way)
            used = [np.flatnonzero(clock.load_s) for _, clock in jobs]
            lengths = np.array([len(links) for links in used], np.int64)
            none = np.zeros(0)
            self._under_way = JobLoads(
                id=np.array([place for place, _ in jobs], np.int64),
                iteration_s=np.array([clock.declared.iteration_s for _, clock in jobs], np.float64),
                link_start=np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))),
                link=np.concatenate([none.astype(np.int64), *used]),
                load_s=np.concatenate([none, *(c.load_s[links] for (_, c), links in zip(jobs, used, strict=True))]),
                compute_s=np.array([clock.compute_s for _, clock in jobs], np.float64),
                begin_s=np.array([clock.sends_s[0] for _, clock in jobs], np.float64),
                rest_s=np.array([clock.sends_s[1] for _, clock in jobs], np.float64),
            )
        return self._under_way
