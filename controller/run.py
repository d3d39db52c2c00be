"""One run as the controller sees it: flows in flight, what is in force for each, and the decision cycle.

Pure: the clock is an argument. Times inside are seconds since the run's zero, as in the simulator.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from controller.enforcers import Enforcer, Treatment
from controller.instructions import InstallRules, Instruction, LogDecision, SendTo
from controller.rules import LAST_DATA_PORT, Rule, flow_rule
from echelonflow.allocation import Allocation
from echelonflow.declare import DATA_PORT
from echelonflow.errors import InputError
from echelonflow.messages import Decide, Declare, Finish, FlowDeclaration, Progress, Release, Setting
from echelonflow.network import Network
from echelonflow.policies import Policy
from echelonflow.records import DecisionRecord
from echelonflow.snapshot import Snapshot
from echelonflow.state import FlowKey, SchedulerState

TRIGGERS_NAMED = 8
"""A decision's log entry names so many of the events that led to it, and counts the others."""
SHORTEST_VALIDITY_S = 1e-3
"""An allocation is not asked for again sooner than this after it was made, unless something happens."""
OLDEST_EVENT_S = 60.0
"""An event that claims to be older was not timed on the clock that all share."""

Guard = Callable[[str], contextlib.AbstractContextManager[None]]
"""Called with the policy's name; the policy runs inside the context (which may bound its time)."""


@dataclass(slots=True)
class FlowInFlight:
    """A released flow: who sends it, what is in force for it, and how far it should be.

    Reports are some 50 ms old, so bytes sent are extrapolated at the rate allocated since the last report
    or decision. Any report replaces the estimate, also by less.
    """

    client: int
    known_s: float
    known_bytes: float = 0.0
    rate_Bps: float = 0.0
    treatment: Treatment | None = None

    def sent_bytes(self, now_s: float) -> float:
        """Estimate at `now_s`; may exceed the flow's size, which the caller knows."""
        return self.known_bytes + self.rate_Bps * max(now_s - self.known_s, 0.0)


@dataclass
class Run:
    """State between `Begin` and `End`; raises InputError, unchanged, for events that do not fit."""

    network: Network
    policy: Policy
    enforcer: Enforcer
    agents: int
    clock: Callable[[], float]
    guard: Guard
    zero_s: float | None = None
    members: set[int] = field(default_factory=set)
    """Clients that have said anything in this run: losing one of them is losing the run."""
    ready: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    reported_done: bool = False
    failed: bool = False

    def __post_init__(self) -> None:
        self._state = SchedulerState(self.network)
        self._flows: dict[FlowKey, FlowInFlight] = {}
        self._finished: set[FlowKey] = set()
        self._connections: dict[tuple[str, int, str, int], tuple[str, str]] = {}
        self._rules: dict[tuple[str, str], tuple[str, Rule]] = {}
        self._pending: list[str] = []
        self._pending_since = 0.0
        self._expires_s = math.inf

    # Events

    def declare(self, group: Declare) -> None:
        """Make a group known; the same declaration again changes nothing."""
        known = self._state.groups.get((group.job, group.group))
        if known is not None:
            if known.declaration != group:
                raise InputError(f"group {group.group!r} of job {group.job!r} is declared already, and differently")
            return
        connections = {}
        for flow in group.flows:
            connections[_connection(flow)] = (group.job, flow.flow)
            self._check_connection(group.job, flow)
        if len(connections) < len(group.flows):
            raise InputError(f"group {group.group!r} of job {group.job!r}: two flows share hosts and ports")
        self._state.declare(group)
        self._connections.update(connections)

    def _check_connection(self, job: str, flow: FlowDeclaration) -> None:
        what = f"flow {flow.flow!r} of job {job!r}"
        if not DATA_PORT <= flow.dst_port <= LAST_DATA_PORT:
            raise InputError(
                f"{what} goes to port {flow.dst_port}; a receiver's port lies in {DATA_PORT} to {LAST_DATA_PORT}, "
                "where acknowledgements are told from data"
            )
        if not LAST_DATA_PORT < flow.src_port < 1 << 16:
            raise InputError(f"{what} comes from port {flow.src_port}; it must lie in {LAST_DATA_PORT + 1} to 65535")
        other = self._connections.get(_connection(flow))
        if other is not None:
            raise InputError(f"{what} has the hosts and ports of flow {other[1]!r} of job {other[0]!r}")

    def release(self, message: Release, client: int, host: str, now_s: float) -> None:
        """A flow's data is ready on its source host, whose client will be told how to send it."""
        self._check_host(message, host, "src_host")
        key = (message.job, message.iteration, message.flow)
        if message.iteration < 0:
            raise InputError(f"release of flow {message.flow!r}: iteration is {message.iteration}")
        time_s = self._event_time_s(message.time_s, now_s)
        self._state.release(key, time_s)
        self._flows[key] = FlowInFlight(client, now_s - self._started_s())
        self._note("release", key)

    def progress(self, message: Progress, host: str, now_s: float) -> None:
        """Bytes acknowledged so far; of no account for a flow whose receiver was faster to report its end."""
        self._check_host(message, host, "src_host")
        key = (message.job, message.iteration, message.flow)
        if key in self._finished:
            return
        self._state.progress(key, message.sent_bytes)
        flow = self._flows[key]
        flow.known_bytes, flow.known_s = float(max(message.sent_bytes, 0)), now_s - self._started_s()

    def finish(self, message: Finish, host: str, now_s: float) -> None:
        """The receiver has the flow's last byte. Its rule stays for stragglers and for the next iteration."""
        self._check_host(message, host, "dst_host")
        key = (message.job, message.iteration, message.flow)
        self._state.finish(key, self._event_time_s(message.time_s, now_s))
        del self._flows[key]
        self._finished.add(key)
        self._note("finish", key)

    def _check_host(self, message: Release | Progress | Finish, host: str, end: str) -> None:
        expected = getattr(self._state.declaration(message.job, message.flow), end)
        if host != expected:
            raise InputError(
                f"{type(message).__name__.lower()} of flow {message.flow!r} of job {message.job!r} "
                f"comes from {host}; only {expected} can know"
            )

    def _started_s(self) -> float:
        if self.zero_s is None:
            raise InputError("the run has not started: wait for Start")
        return self.zero_s

    def _event_time_s(self, time_s: float, now_s: float) -> float:
        """An agent's clock reading, which cannot be later than its arrival, as time since zero."""
        if not math.isfinite(time_s) or time_s < now_s - OLDEST_EVENT_S:
            raise InputError(f"time_s is {time_s}, not a reading of the monotonic clock (now {now_s:.3f})")
        return min(time_s, now_s) - self._started_s()

    def _note(self, what: str, key: FlowKey) -> None:
        if not self._pending:
            self._pending_since = self.clock()
        job, iteration, flow = key
        self._pending.append(f"{what} {job}/{flow}#{iteration}")

    # Decisions

    @property
    def wake_s(self) -> float:
        """When the next decision is due though nothing happens, on the clock of `now_s`; maybe infinite."""
        return math.inf if self.zero_s is None else self.zero_s + self._expires_s

    def due(self, now_s: float) -> bool:
        """Whether something has happened, or run out, since the last decision."""
        return bool(self._pending) or now_s >= self.wake_s

    def decide(self, now_s: float) -> list[Instruction]:
        """Ask the policy, and say only what has changed: rules first, then the agents, then the log.

        Raises PolicyError where the policy fails.
        """
        began = self._pending_since if self._pending else self.clock()
        trigger = _trigger(self._pending)
        self._pending = []
        self._expires_s = math.inf
        if not self._flows:
            return []
        time_s = now_s - self._started_s()
        snapshot, keys = self._snapshot(time_s)
        asked = self.clock()
        with self.guard(self.policy.name):
            allocation = self.policy(snapshot)
        policy_ms = (self.clock() - asked) * 1e3
        self._expires_s = max(allocation.valid_until_s, time_s + SHORTEST_VALIDITY_S)
        settings = self._enforce(snapshot, keys, allocation, time_s)
        instructions = [*self._rule_changes(keys), *_messages(settings)]
        record = DecisionRecord(
            time_s=time_s,
            trigger=trigger,
            flows=snapshot.flows,
            groups=len(snapshot.groups.id),
            digest=digest(snapshot),
            policy_ms=policy_ms,
            total_ms=(self.clock() - began) * 1e3,
            changed=tuple((s.job, s.iteration, s.flow, s.dscp, s.rate_Bps) for _, s in settings),
        )
        return [*instructions, LogDecision(record)]

    def _snapshot(self, time_s: float) -> tuple[Snapshot, list[FlowKey]]:
        """The state's snapshot, with bytes sent as estimated for now."""
        snapshot, keys = self._state.snapshot(time_s)
        size = snapshot.sent_bytes + snapshot.remaining_bytes
        estimate = np.array([self._flows[key].sent_bytes(time_s) for key in keys])
        sent = np.minimum(estimate, size - 1.0)
        return dataclasses.replace(snapshot, sent_bytes=sent, remaining_bytes=size - sent), keys

    def _enforce(
        self, snapshot: Snapshot, keys: list[FlowKey], allocation: Allocation, time_s: float
    ) -> list[tuple[int, Setting]]:
        """Put the allocation in force in our books; returns (client, setting) of every flow that changes."""
        in_force = [self._flows[key].treatment for key in keys]
        treatments = self.enforcer(snapshot, allocation, in_force)
        settings = []
        rows = zip(keys, treatments, allocation.rates_Bps.tolist(), snapshot.sent_bytes.tolist(), strict=True)
        for key, treatment, rate_Bps, sent_bytes in rows:
            flow = self._flows[key]
            flow.known_bytes, flow.known_s, flow.rate_Bps = sent_bytes, time_s, rate_Bps
            if treatment != flow.treatment:
                flow.treatment = treatment
                job, iteration, name = key
                settings.append((flow.client, Setting(job, name, iteration, treatment.dscp, treatment.rate_Bps)))
        return settings

    def _rule_changes(self, keys: list[FlowKey]) -> list[Instruction]:
        """Rules whose mark changes. A connection carries its iterations in turn: the first one's mark counts."""
        first: dict[tuple[str, str], int] = {}
        for job, iteration, name in keys:
            first[job, name] = min(iteration, first.get((job, name), iteration))
        add: dict[str, list[Rule]] = {}
        for (job, name), iteration in first.items():
            treatment = self._flows[job, iteration, name].treatment
            assert treatment is not None
            _, installed = self._rules.get((job, name), ("", None))
            if installed is None or installed.set_dscp != treatment.dscp:
                switch, rule = flow_rule(self.network, self._state.declaration(job, name), treatment.dscp)
                self._rules[job, name] = switch, rule
                add.setdefault(switch, []).append(rule)
        return [InstallRules(switch, add=tuple(rules)) for switch, rules in add.items()]

    def remove_rules(self) -> list[Instruction]:
        """Take back every rule of the run."""
        remove: dict[str, list[Rule]] = {}
        for switch, rule in self._rules.values():
            remove.setdefault(switch, []).append(rule)
        self._rules = {}
        return [InstallRules(switch, remove=tuple(rules)) for switch, rules in remove.items()]


def _connection(flow: FlowDeclaration) -> tuple[str, int, str, int]:
    return flow.src_host, flow.src_port, flow.dst_host, flow.dst_port


def _trigger(events: list[str]) -> str:
    if not events:
        return "expiry"
    more = len(events) - TRIGGERS_NAMED
    return ", ".join(events[:TRIGGERS_NAMED]) + (f", and {more} more" if more > 0 else "")


def _messages(settings: list[tuple[int, Setting]]) -> list[SendTo]:
    by_client: dict[int, list[Setting]] = {}
    for client, setting in settings:
        by_client.setdefault(client, []).append(setting)
    return [SendTo(client, Decide(tuple(theirs))) for client, theirs in by_client.items()]


def digest(snapshot: Snapshot) -> str:
    """Hash of the time and all arrays of a snapshot: equal digests mean equal inputs."""
    found = hashlib.blake2b(np.float64(snapshot.now_s).tobytes(), digest_size=8)
    for table in (snapshot, snapshot.groups, snapshot.coflows):
        for column in dataclasses.fields(table):
            value = getattr(table, column.name)
            if isinstance(value, np.ndarray):
                found.update(value.tobytes())
    return found.hexdigest()
