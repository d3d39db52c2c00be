"""The event loop: between two events every flow has a constant rate, so the next event is known.

There is no time step. An event is a flow that runs empty, a policy's answer that expires, or a decision that takes
effect. It can also be something that the source of flows does by itself (a computation ends, a Coflow arrives).
Whatever happens at one moment is one event, and a policy decides at most once in it.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from echelonflow.errors import RunError
from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.records.rates import RateLog
from echelonflow.scheduling import weighting
from echelonflow.scheduling.folding import UNDECIDED
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot
from simulator.acknowledgements import ROUNDS, Acknowledgements
from simulator.bursts import Bursts
from simulator.faults import FaultsInForce
from simulator.flows import Flows, simultaneous_s
from simulator.realism import Realism, leftovers, shared_by_class, within

IDLE_DECISIONS = 1000
"""So many decisions in a row that only their own expiry brought about must move something."""
MOVED_SHARE = 1e-9
"""Share of the bytes in flight below which so many decisions have moved nothing."""

NOTHING_SHARE, MUCH_SHARE = 0.01, 0.2
"""Of what the fastest link carries: a flow that has less than the one in one answer and more than the other in another was
put elsewhere in the order."""


class Source(Protocol):
    """Where flows come from and go to: training jobs, or a trace."""

    def next_s(self) -> float:
        """When it does something by itself next; infinite if never."""

    def run(self, now_s: float) -> None:
        """Do what is due."""

    def take_released(self) -> tuple[Ints, Floats]:
        """Handles and sizes in bytes of the flows released since the last call."""

    def end(self, handle: Ints, start_s: Floats, now_s: float) -> None:
        """These flows have run empty, in this order."""

    def snapshot(self, flows: Flows, now_s: float) -> tuple[Snapshot, Ints | None]:
        """What the policy sees, and the row of `flows` that each of its rows is (None: the same rows)."""


class Ahead(Protocol):
    """Decides for flows before they are released (`simulator.ahead`)."""

    def decide(self, flows: Flows, now_s: float) -> None:
        """Decide for flows that can be released next, beside those in flight."""

    def start(self, flows: Flows, handle: Ints) -> None:
        """Let flows that are released now start by what was decided."""

    def forget(self) -> None:
        """What was decided ahead counts no more."""


@dataclass(frozen=True, eq=False)
class _Decision:
    """A decision on its way, or a part of it: the flows called `handle` are to have these rates and classes."""

    handle: Ints
    rates_Bps: Floats
    traffic_class: Ints


class Replayed:
    """How far a run's settings and links were from ideal, so that a simulation repeats it.

    `in_force_s` says when what is decided at a time is in force for each of some flows. `decided` says what was decided for
    these flows, as rates and classes, None where that is not known: then the policy's answer counts. `carried_Bps` is
    what links carried, None for what they declare. `acknowledgements` take their part of that. Nobody told the policy of either.
    """

    def __init__(
        self,
        in_force_s: Callable[[Ints, float], Floats],
        decided: Callable[[Ints, float], tuple[Floats, Ints] | None],
        carried_Bps: Sequence[float] | None,
        acknowledgements: Acknowledgements | None = None,
    ) -> None:
        self.in_force_s = in_force_s
        self.decided = decided
        self.acknowledgements = acknowledgements
        self.carried_Bps: Floats | None = None if carried_Bps is None else np.array(carried_Bps, np.float64)


class Engine:
    """Runs a source's flows under a policy until there is nothing left to happen.

    `run` raises PolicyError if the policy fails or allocates too much, RunError if nothing moves any more.
    """

    def __init__(
        self,
        source: Source,
        policy: Policy,
        realism: Realism,
        faults: FaultsInForce | None = None,
        replayed: Replayed | None = None,
        ahead: Ahead | None = None,
        rates: RateLog | None = None,
    ) -> None:
        self.now_s = 0.0
        self.events = 0
        self.decisions = 0
        self._source = source
        self._policy = policy
        self._realism = realism
        self._classes = realism.classes_for(policy.enforcer)
        self._weighted = realism.is_weighted(policy.enforcer)
        self._fold = realism.fold_for(policy.enforcer)
        self._ahead = ahead
        self._faults = faults
        faithful = faults is None or not faults.limits_enforcement
        self._replayed = replayed
        at_once = realism.decision_latency_s == 0 and replayed is None
        self._ideal = faithful and self._classes is None and at_once
        self._flows = Flows()
        self._rates = rates
        bursts = Bursts(functools.partial(realism.burst_bytes, policy.enforcer))
        self._bursts = bursts if realism.burst_s > 0 else None
        self._expires_s = math.inf
        self._seen: tuple[Snapshot, Ints | None] | None = None
        """What the source showed last of just these flows, and for which row of theirs each of its rows stands."""
        self._seen_handle = self._flows.handle
        self._on_their_way: list[tuple[float, int, _Decision]] = []
        """Heap of (when in force, sequence number, decision)."""
        self._sequence = 0
        self._idle = 0
        self._idle_bytes = 0.0

    def run(self, on_progress: Callable[[float], None] | None = None) -> None:
        """Until no flow is in flight and the source has nothing left to do."""
        begin_s = self._source.next_s()
        self.now_s = begin_s if begin_s < math.inf else 0.0
        while True:
            self._event()
            if on_progress is not None:
                on_progress(self.now_s)
            next_s = self._next_s()
            if next_s == math.inf:
                break
            self.now_s = next_s
        if len(self._flows):
            raise stuck(self.now_s, self._policy.name, len(self._flows))

    def _next_s(self) -> float:
        effective_s = self._on_their_way[0][0] if self._on_their_way else math.inf
        fault_s = math.inf if self._faults is None else self._faults.next_s
        return min(self._flows.empty_s, self._source.next_s(), self._expires_s, effective_s, fault_s)

    def _event(self) -> None:
        """All that happens now: flows end and come, decisions are made and take effect."""
        self.events += 1
        changed = self._retire()
        struck, calls = self._strike()
        changed = changed or calls
        self._source.run(self.now_s)
        changed = self._admit() or changed
        expired = self.now_s >= self._expires_s
        if changed or expired or struck:
            self._flows.move_to(self.now_s)
        self._guard(only_expired=expired and not changed)
        if changed or expired:
            self._decide()
            self._decide_ahead()
        took_effect = self._enact()
        if not self._ideal and (changed or took_effect or struck):
            self._share()

    def _retire(self) -> bool:
        if self._flows.empty_s > self.now_s + simultaneous_s(self.now_s):
            return False
        self._flows.move_to(self.now_s)
        empty = self._flows.empty()
        if not empty.size:
            return False
        handle, start_s = self._flows.handle[empty], self._flows.start_s[empty]
        left = np.ones(len(self._flows), bool)
        left[empty] = False
        self._drop_but(left)
        self._source.end(handle, start_s, self.now_s)
        return True

    def _strike(self) -> tuple[bool, bool]:
        """Let planned faults begin and end; whether any does, and whether that calls for a decision."""
        if self._faults is None or self._faults.next_s > self.now_s:
            return False, False
        self._flows.move_to(self.now_s)
        calls, gone = self._faults.strike(self.now_s)
        left = np.ones(len(self._flows), bool)
        left[self._flows.rows_of(gone)[0]] = False
        self._drop_but(left)
        return True, calls

    def _drop_but(self, left: Bools) -> None:
        self._flows.keep(np.flatnonzero(left))
        if self._bursts is not None and not len(self._flows):
            self._bursts.idle(self.now_s)

    def _admit(self) -> bool:
        handle, size_bytes = self._source.take_released()
        if len(handle):
            self._flows.move_to(self.now_s)
            self._flows.add(handle, size_bytes)
            if self._ahead is not None:
                self._ahead.start(self._flows, handle)
        return len(handle) > 0

    def _decide(self) -> None:
        self._expires_s = math.inf
        if not len(self._flows) or (self._faults is not None and not self._faults.controller):
            return
        self.decisions += 1
        flows = self._flows
        snapshot, rows = self._source.snapshot(flows, self.now_s)
        self._seen, self._seen_handle = (snapshot, rows), flows.handle
        allocation = self._policy(snapshot)
        self._expires_s = allocation.valid_until_s
        rates = _placed(allocation.rates_Bps, rows)
        if self._ideal:
            self._set_rates(rates)
            return
        if self._classes is not None:
            in_force = flows.decided_class if rows is None else flows.decided_class[rows]
            chosen, held_back = self._fold(snapshot, allocation, in_force, range(self._classes))
            flows.decided_class = _placed(chosen, rows)
            served_class = _placed(np.where(held_back, UNDECIDED, chosen), rows)
        else:
            flows.decided_class = served_class = np.zeros(len(flows), np.int64)
        if self._faults is not None:
            self._faults.note_classes(flows.handle, flows.decided_class)
        if self._replayed is not None:
            was_decided = self._replayed.decided(flows.handle, self.now_s)
            if was_decided is not None and self._classes is not None:
                served_class = was_decided[1]
                flows.decided_class = np.where(served_class == UNDECIDED, flows.decided_class, served_class)
            elif was_decided is not None and _serve_others(rates, was_decided[0], snapshot):
                rates = was_decided[0]
            self._tell_changes(self._replayed, rates, served_class)
        else:
            decision = _Decision(flows.handle, rates, served_class)
            self._send(self.now_s + self._realism.decision_latency_s, decision)

    def _decide_ahead(self) -> None:
        if self._ahead is None:
            return
        if self._faults is None or self._faults.controller:
            self._ahead.decide(self._flows, self.now_s)
        else:
            self._ahead.forget()

    def _tell_changes(self, replayed: Replayed, rates: Floats, served_class: Ints) -> None:
        """Send each flow what has changed for it, to be in force when the run that is repeated had it in force."""
        flows = self._flows
        changes = served_class != flows.told_class
        if self._classes is None or self._weighted:
            changes |= ~(rates == flows.told_Bps)  # also where nothing was told yet, which is not a number
        flows.told_class, flows.told_Bps = served_class.copy(), rates.copy()
        rows = np.flatnonzero(changes)
        in_force_s = replayed.in_force_s(flows.handle[rows], self.now_s)
        for moment_s in np.unique(in_force_s).tolist():
            then = rows[in_force_s == moment_s]
            self._send(moment_s, _Decision(flows.handle[then], rates[then], served_class[then]))

    def _send(self, effective_s: float, decision: _Decision) -> None:
        heapq.heappush(self._on_their_way, (effective_s, self._sequence, decision))
        self._sequence += 1

    def _enact(self) -> bool:
        """Put in force what has become due; returns whether anything has."""
        due = False
        while self._on_their_way and self._on_their_way[0][0] <= self.now_s:
            (_, _, decision), due = heapq.heappop(self._on_their_way), True
            rows, places = self._flows.rows_of(decision.handle)
            self._flows.allow(rows, decision.rates_Bps[places], decision.traffic_class[places])
        return due

    def _share(self) -> None:
        """Rates that follow from what is in force, for the flows that there are."""
        flows = self._flows
        if not len(flows):
            return
        flows.move_to(self.now_s)
        if self._replayed is not None or (self._faults is not None and self._faults.hampered):
            self._share_what_is_carried()
            return
        undecided = np.isnan(flows.allowed_Bps)  # one that is held back is decided, and waits
        wait = self._realism.undecided != "last-class"
        if self._classes is None and self._ahead is None and (wait or not undecided.any()):
            self._set_rates(np.where(undecided, 0.0, flows.allowed_Bps))
            return
        snapshot, rows = self._paths()
        order = np.arange(len(flows)) if rows is None else rows
        if self._classes is None and self._ahead is not None:
            # What starts ahead and what is still to make room for it may be more than a link carries.
            rates = within(snapshot, np.nan_to_num(flows.allowed_Bps[order]), snapshot.capacity_Bps)
        elif self._classes is not None:
            traffic_class = flows.traffic_class if wait else np.where(undecided, self._classes - 1, flows.traffic_class)
            rates = self._shared(snapshot, traffic_class[order], order)
        else:
            rates = np.where(undecided, 0.0, flows.allowed_Bps)[order]
            unserved = np.flatnonzero(undecided[order])
            rates[unserved] = leftovers(snapshot, rates, unserved)
        self._set_rates(_placed(rates, rows))

    def _share_what_is_carried(self) -> None:
        """Rates where links carry other than they declare, settings come one by one, or nobody decides."""
        snapshot, rows = self._paths()
        order = np.arange(len(self._flows)) if rows is None else rows
        capacity_Bps = self._capacity_Bps(snapshot)
        rates = self._shares_of(capacity_Bps, snapshot, order)
        if self._replayed is not None and self._replayed.acknowledgements is not None:
            ways = self._replayed.acknowledgements.ways_back(self._flows.handle[order])
            for _ in range(ROUNDS):
                left_Bps = ways.left_Bps(rates, capacity_Bps)
                rates = self._shares_of(left_Bps, snapshot, order)
        self._set_rates(_placed(rates, rows))

    def _shares_of(self, capacity_Bps: Floats, snapshot: Snapshot, order: Ints) -> Floats:
        """What each flow of the snapshot, of which `order` are the rows here, gets of what links carry."""
        flows, faults = self._flows, self._faults
        if faults is not None and not faults.controller:
            lowest = 0 if self._classes is None else self._classes - 1
            classes = faults.last_classes(flows.handle, flows.decided_class, lowest)
            return self._shared(snapshot, classes[order], order, capacity_Bps)
        if self._classes is not None:
            return self._shared(snapshot, flows.traffic_class[order], order, capacity_Bps)
        return within(snapshot, np.nan_to_num(flows.allowed_Bps[order]), capacity_Bps)

    def _shared(
        self, snapshot: Snapshot, traffic_class: Ints, order: Ints, capacity_Bps: Floats | None = None
    ) -> Floats:
        """Rates of flows in classes: one class after the other, or by weights that follow the rates that are allowed."""
        if not self._weighted or self._classes is None:
            return shared_by_class(snapshot, traffic_class, capacity_Bps)
        allowed_Bps = np.nan_to_num(self._flows.allowed_Bps[order])
        return weighting.shared(snapshot, traffic_class, allowed_Bps, self._classes, capacity_Bps)

    def _capacity_Bps(self, snapshot: Snapshot) -> Floats:
        """What links carry now."""
        if self._faults is not None and self._faults.capacity_Bps is not None:
            return self._faults.capacity_Bps
        if self._replayed is not None and self._replayed.carried_Bps is not None:
            return self._replayed.carried_Bps
        return snapshot.capacity_Bps

    def _set_rates(self, rates_Bps: Floats) -> None:
        """Let every flow go at its rate from now on, after what its path lets pass at once."""
        flows = self._flows
        if self._bursts is not None:
            snapshot, rows = self._paths()
            if self._replayed is not None:  # a link that carries less is full with less
                snapshot = dataclasses.replace(snapshot, capacity_Bps=self._capacity_Bps(snapshot))
            passed_bytes = self._bursts.passed(snapshot, rates_Bps if rows is None else rates_Bps[rows])
            flows.remaining_bytes = flows.remaining_bytes - _placed(passed_bytes, rows)
        flows.set_rates(rates_Bps)
        if self._rates is not None:
            self._rates.note(self.now_s, flows.handle, rates_Bps)

    def _paths(self) -> tuple[Snapshot, Ints | None]:
        """A snapshot of which paths, capacities and what is left of each flow are right, and that is all that sharing asks for.

        Who shares what changes with flows. Between their ends there are many moments, and a whole snapshot takes long.
        """
        flows = self._flows
        if self._seen is None or self._seen_handle is not flows.handle:
            self._seen, self._seen_handle = self._source.snapshot(flows, self.now_s), flows.handle
            return self._seen
        snapshot, rows = self._seen
        left_bytes = np.maximum(flows.remaining_bytes if rows is None else flows.remaining_bytes[rows], 1.0)
        return dataclasses.replace(snapshot, now_s=self.now_s, remaining_bytes=left_bytes), rows

    def _guard(self, *, only_expired: bool) -> None:
        """Raise RunError where decisions expire again and again and nothing moves."""
        if not only_expired:
            self._idle = 0
            return
        in_flight = float(self._flows.remaining_bytes.sum())
        if self._idle == 0:
            self._idle_bytes = in_flight
        self._idle += 1
        if self._idle <= IDLE_DECISIONS:
            return
        if in_flight > self._idle_bytes * (1 - MOVED_SHARE):
            raise no_progress(self.now_s, self._policy.name, len(self._flows))
        self._idle = 0


def stuck(now_s: float, policy: str, flows: int) -> RunError:
    """What is wrong where flows are in flight and no event is to come."""
    return RunError(
        f"simulation is stuck at {now_s:.6g} s: policy {policy} gives none of {flows} flows a rate "
        "and nothing else will happen"
    )


def no_progress(now_s: float, policy: str, flows: int) -> RunError:
    """What is wrong where answers expire again and again and nothing moves."""
    return RunError(
        f"simulation makes no progress at {now_s:.6g} s: policy {policy} let its answer expire "
        f"{IDLE_DECISIONS} times in a row, and {flows} flows have hardly moved"
    )


def waits_for_ever(job: str, held: str = "") -> RunError:
    """What is wrong where all is quiet and a job has not ended; `held` is what its own scheduler waits for."""
    why = f"its job scheduler stalls: {held}" if held else "its DAG never lets it go on"
    return RunError(f"simulation ended but job {job} still waits: {why}")


def _serve_others(rates_Bps: Floats, was_Bps: Floats, snapshot: Snapshot) -> bool:
    """Whether two answers serve other flows. Rates that follow what is left differ by a little wherever that does."""
    carried_Bps = float(snapshot.capacity_Bps.max())
    nothing, much = NOTHING_SHARE * carried_Bps, MUCH_SHARE * carried_Bps
    other = ((rates_Bps < nothing) & (was_Bps > much)) | ((was_Bps < nothing) & (rates_Bps > much))
    return bool(other.any())


def _placed(values: np.ndarray, rows: Ints | None) -> np.ndarray:
    """`values` of a snapshot's rows, in the order of the flows' rows."""
    if rows is None:
        return values
    placed = np.empty_like(values)
    placed[rows] = values
    return placed
