"""One run's flow books: flows in flight, what is in force for each, and the decision cycle.

Pure: clocks are arguments. Times are seconds since the run's zero, as in the simulator. A decision is a question to
the policy and its answer; flows may come and go between the two. Who takes part, and which policy is in force,
is in `controller.session`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from controller.ahead_books import AheadBooks, Treatments, treatments_by_flow, trigger_of
from controller.enforcers import ENFORCERS, Treatment
from controller.fabric import Fabric
from controller.hand_overs import hand_over
from controller.in_flight import FlowInFlight, Pending, released
from controller.instructions import AskPolicy, InstallRules, Instruction, LogDecision, Question, SendTo
from controller.rule_book import RuleBook
from controller.rules import LAST_DATA_PORT
from controller.told_again import ToldAgain
from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.run_record import DecisionRecord
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.state import Estimate, SchedulerState
from echelonflow.wire.classes import DATA_CLASSES, dscp_of_class
from echelonflow.wire.declare import DATA_PORT
from echelonflow.wire.messages import (
    Decide,
    Declare,
    Finish,
    FinishAgain,
    FlowDeclaration,
    Progress,
    Release,
    ReleaseAgain,
    Setting,
)
from echelonflow.wire.rest import FlowStatus, GroupStatus

MOST_DECLARED, MOST_IN_FLIGHT = 1_000_000, 200_000
"""Flows, of all clients."""
MOST_WITHDRAWN = 10_000
SHORTEST_VALIDITY_S = 1e-3
"""An allocation is not asked for again sooner than this after it was made, unless something happens."""
_DATA_MARKS = frozenset(map(dscp_of_class, DATA_CLASSES))


class FlowBooks:
    """Books between `Begin` and `End`; `rules` has what switches know of them. Every method raises InputError, unchanged, for events that do not fit.

    `connected` are the names of the switches that are connected now: it changes as they come and go. `clock` (seconds)
    measures how long decisions take, `number` gives each question a number of its own, `senders` the clients on a host.
    What comes next is decided ahead at once where flows are known `from_the_start`.
    """

    def __init__(
        self,
        fabric: Fabric,
        connected: AbstractSet[str],
        clock: Callable[[], float],
        number: Callable[[], int],
        senders: Callable[[str], Sequence[int]],
        *,
        from_the_start: bool = True,
    ) -> None:
        self._clock = clock
        self._state = SchedulerState(fabric.network)
        self._flows: dict[FlowKey, FlowInFlight] = {}
        self._finished: dict[tuple[str, str], int] = {}
        """Of each flow the last iteration that finished: one number, however long the run stands."""
        self._connections: dict[tuple[str, int, str, int], tuple[str, str]] = {}
        self.rules = RuleBook(fabric, connected, self._state.declaration)
        self._declarers: dict[str, int] = {}
        self._withdrawn: dict[str, None] = {}
        """Jobs that have gone with the client that declared them, the latest of them: others may not know yet."""
        self._again = ToldAgain()
        self.ahead = AheadBooks(self._state, senders, number, clock, from_the_start=from_the_start)
        self._pending = Pending()
        self._pending_since = 0.0
        self._expires_s = math.inf
        self._number = number
        self._asked: Question | None = None
        """The question that is yet to be answered."""

    # Events

    def declare(self, group: Declare, client: int = 0) -> None:
        """Make a group known; the same declaration again changes nothing. Its job is `client`'s, the first one's."""
        known = self._state.groups.get((group.job, group.group))
        if known is not None:
            if known.declaration != group:
                raise InputError(f"group {group.group!r} of job {group.job!r} is declared already, and differently")
            return
        if len(self._connections) + len(group.flows) > MOST_DECLARED:
            raise InputError(f"group {group.group!r} of job {group.job!r}: more than {MOST_DECLARED:,} flows in all")
        self.ahead.candidates.check(group)
        connections = {}
        for flow in group.flows:
            connections[_connection(flow)] = (group.job, flow.flow)
            self._check_connection(group.job, flow)
        if len(connections) < len(group.flows):
            raise InputError(f"group {group.group!r} of job {group.job!r}: two flows share hosts and ports")
        self._state.declare(group)
        self.ahead.candidates.declare(group)
        self._connections.update(connections)
        self._declarers.setdefault(group.job, client)
        self._withdrawn.pop(group.job, None)

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

    def release(self, message: Release, client: int, host: str, release_s: float, now_s: float) -> None:
        """A flow's data is ready on its source host since `release_s`; `client` will be told how to send it."""
        self._check_host(message, host, "src_host")
        key = (message.job, message.iteration, message.flow)
        self._release(key, client, release_s, now_s, by=message.by)
        # One that was decided ahead may be over by now, and its receiver's word may have been faster.
        end_s = self._again.take_end(key, self._state.declaration(message.job, message.flow).dst_host)
        if end_s is not None:
            self._end(key, end_s)

    def _release(self, key: FlowKey, client: int, release_s: float, now_s: float, by: int = 0) -> None:
        job, iteration, flow = key
        if iteration < 0:
            raise InputError(f"release of flow {flow!r}: iteration is {iteration}")
        if len(self._flows) >= MOST_IN_FLIGHT:
            raise InputError(
                f"release of flow {flow!r}: {MOST_IN_FLIGHT:,} flows are in flight, as many as there may be"
            )
        self._state.release(key, release_s)
        told = self.ahead.release(key, client, self._state.declaration(job, flow).index)
        self._flows[key] = released(client, now_s, told, by)
        self._note("release", key)

    def progress(self, message: Progress, host: str, now_s: float) -> None:
        """Bytes acknowledged so far; of no account for a flow whose receiver was faster to report its end.

        A connection carries its iterations in turn, so the last one that finished tells which reports are late. Nor is it
        of account for one that was decided ahead and whose release was lost: it will be told again.
        """
        self._check_host(message, host, "src_host")
        key = (message.job, message.iteration, message.flow)
        is_over = message.iteration <= self._finished.get((message.job, message.flow), -1)
        if key not in self._flows and (is_over or self.ahead.has_told(key)):
            return
        self._state.progress(key, message.sent_bytes)
        flow = self._flows[key]
        flow.known_bytes, flow.known_s = float(max(message.sent_bytes, 0)), now_s

    def finish(self, message: Finish, host: str, finish_s: float) -> None:
        """The receiver has the last byte since `finish_s`. The rule stays, for stragglers and for the next iteration."""
        self._check_host(message, host, "dst_host")
        key = (message.job, message.iteration, message.flow)
        if key not in self._flows and self.ahead.has_told(key):  # its release is on its way, from another host
            self._again.keep_end(key, host, finish_s)
        else:
            self._end(key, finish_s)

    def _end(self, key: FlowKey, finish_s: float) -> None:
        self._state.finish(key, finish_s)
        del self._flows[key]
        job, iteration, flow = key
        self._finished[job, flow] = max(self._finished.get((job, flow), -1), iteration)
        self._note("finish", key)

    # What is told again, after a coordinator or messages were lost

    def release_again(
        self, message: ReleaseAgain, client: int, host: str, release_s: float, now_s: float
    ) -> list[Instruction]:
        """A release that may be known; the answer is the flow's setting, where there is one."""
        self._check_host(message, host, "src_host")
        if message.dscp is not None and message.dscp not in _DATA_MARKS:
            raise InputError(f"release of flow {message.flow!r}: dscp is {message.dscp}, the mark of no class of data")
        key = (message.job, message.iteration, message.flow)
        if message.iteration <= self._finished.get((message.job, message.flow), -1):
            return []
        if key in self._flows:
            return self._told_again(key, client)
        declared = self._state.declaration(message.job, message.flow)
        end_s = self._again.take_end(key, declared.dst_host)
        if end_s is None and message.dscp is None and message.sent_bytes >= declared.size_bytes:
            # Nothing is to be decided for it, and its receiver knows best when it ended.
            self._again.keep_sent(key, client, release_s)
            return []
        self._release(key, client, release_s, now_s)
        if end_s is not None:
            self._end(key, end_s)
            return []
        flow = self._flows[key]
        self._state.progress(key, message.sent_bytes)
        flow.known_bytes = float(max(message.sent_bytes, 0))
        if message.dscp is not None:
            flow.treatment, flow.told_ahead = Treatment(message.dscp), None
            self.rules.note((message.job, message.flow), message.dscp)
        return []

    def _told_again(self, key: FlowKey, client: int) -> list[Instruction]:
        flow = self._flows[key]
        flow.client = client
        if flow.treatment is None:
            return []
        job, iteration, name = key
        setting = Setting(job, name, iteration, flow.treatment.dscp, flow.treatment.rate_Bps, flow.number)
        return [SendTo(client, Decide((setting,)))]

    def finish_again(self, message: Finish | FinishAgain, host: str, finish_s: float) -> None:
        """An end that may be known, or of which neither the release nor the flow is known yet."""
        if self._state.is_declared(message.job, message.flow):
            self._check_host(message, host, "dst_host")
        key = (message.job, message.iteration, message.flow)
        sent = self._again.take_sent(key)
        if sent is not None:
            self._release(key, *sent, now_s=sent[1])
        if key in self._flows:
            self._end(key, finish_s)
        elif message.iteration > self._finished.get((message.job, message.flow), -1):
            self._again.keep_end(key, host, finish_s)

    def _check_host(
        self, message: Release | ReleaseAgain | Progress | Finish | FinishAgain, host: str, end: str
    ) -> None:
        expected = getattr(self._state.declaration(message.job, message.flow), end)
        if host != expected:
            raise InputError(
                f"{type(message).__name__.lower()} of flow {message.flow!r} of job {message.job!r} "
                f"comes from {host}; only {expected} can know"
            )

    def _note(self, what: str, key: FlowKey) -> None:
        job, iteration, flow = key
        self.note(f"{what} {job}/{flow}#{iteration}")

    def note(self, trigger: str) -> None:
        """Something has happened that asks for a decision."""
        if not self._pending.count:
            self._pending_since = self._clock()
        self._pending.add(trigger)

    def withdraw(self, client: int) -> list[Instruction]:
        """Forget the jobs that a client declared: it has gone. Takes back their rules."""
        jobs = {job for job, declarer in self._declarers.items() if declarer == client}
        self._withdrawn |= dict.fromkeys(sorted(jobs))
        while len(self._withdrawn) > MOST_WITHDRAWN:
            del self._withdrawn[next(iter(self._withdrawn))]
        return self.withdraw_jobs(jobs)

    def is_withdrawn(self, job: str) -> bool:
        """Whether a job has gone with its client: what others still report of it is no mistake of theirs."""
        return job in self._withdrawn

    def withdraw_jobs(self, jobs: AbstractSet[str]) -> list[Instruction]:
        """Forget jobs. Takes back their rules."""
        jobs = jobs & self._declarers.keys()
        if not jobs:
            return []
        instructions = self.rules.take_back(jobs)
        for job in jobs:
            self._state.withdraw(job)
            del self._declarers[job]
        self._flows = {key: flow for key, flow in self._flows.items() if key[0] not in jobs}
        self._finished = {flow: last for flow, last in self._finished.items() if flow[0] not in jobs}
        self._connections = {ends: flow for ends, flow in self._connections.items() if flow[0] not in jobs}
        self._again.forget(jobs)
        self.ahead.withdraw(jobs)
        self.note(f"withdraw {', '.join(sorted(jobs))}")
        return list(instructions)

    # Decisions

    @property
    def wake_s(self) -> float:
        """When the next decision is due though nothing happens; maybe infinite."""
        return math.inf if self._asked is not None else self._expires_s

    def due(self, now_s: float) -> bool:
        """Whether something has happened, or run out, since the last decision (one is made at a time)."""
        return self._asked is None and (self._pending.count > 0 or now_s >= self._expires_s)

    def ask(self, policy: Policy, now_s: float) -> Question | None:
        """The question to `policy` that is open from now on; None where there is nothing to decide."""
        began_s = self._pending_since if self._pending.count else self._clock()
        trigger = self._pending.words()
        self._pending = Pending()
        self._expires_s = math.inf
        if not self._flows:
            self.ahead.note_decision()
            return None
        snapshot, keys = self._state.snapshot(now_s, self._estimate(now_s))
        number = self._number()
        self._asked = Question(number, policy, snapshot, tuple(keys), now_s, trigger, began_s, self._clock())
        return self._asked

    def close_question(self, number: int) -> Question | None:
        """The open question, which is no longer open; None for one that was overtaken."""
        question = self._asked
        if question is None or question.number != number:
            return self.ahead.close_question(number)
        self._asked = None
        return question

    def ask_again(self, trigger: str) -> list[Instruction]:
        """Ask at once, whatever is open: an answer to that no longer counts, nor does what was decided ahead."""
        self._asked = None
        self.note(trigger)
        return list(_messages(self.ahead.take_all_back()))

    def answer(self, question: Question, allocation: Allocation, enforcer: str) -> list[Instruction]:
        """Put an answer in force, and say what it changes, and only that: rules first, then the agents, then the log."""
        policy_ms = self._since_ms(question.asked_s)
        self._expires_s = max(allocation.valid_until_s, question.time_s + SHORTEST_VALIDITY_S)
        self.ahead.note_decision()
        settings, corrected = self._enforce(question, allocation, enforcer)
        instructions: list[Instruction] = [*self._rule_changes(question.keys), *_messages(settings)]
        record = self._record(question, policy_ms)
        return [
            *instructions,
            LogDecision(dataclasses.replace(record, changed=_changed(settings), corrected=corrected)),
        ]

    def _record(self, question: Question, policy_ms: float) -> DecisionRecord:
        """What the log says of any decision; what it has changed is to be added."""
        return DecisionRecord(
            time_s=question.time_s,
            trigger=question.trigger,
            flows=question.snapshot.flows,
            groups=len(question.snapshot.groups.id),
            digest=digest(question.snapshot),
            policy_ms=policy_ms,
            total_ms=self._since_ms(question.began_s),
            number=question.number,
        )

    def _since_ms(self, moment_s: float) -> float:
        return (self._clock() - moment_s) * 1e3

    # Decisions ahead of time

    def decide_ahead(self, policy: Policy, now_s: float) -> list[Instruction]:
        """Decide for sets of flows that can be released next: those whose answers are known, and one to ask about."""
        began_s = self._clock()
        instructions: list[Instruction] = []
        sets = self.ahead.next_sets(len(self._flows))
        for place, candidates in enumerate(sets):
            by, treatments = self.ahead.remembered(candidates, self._flows)
            if treatments is None:
                self.ahead.put_back(sets[place + 1 :])
                question = self.ahead.question(candidates, by, policy, now_s, self._estimate(now_s))
                return [*instructions, AskPolicy(question)]
            record = DecisionRecord(
                time_s=now_s,
                trigger=trigger_of(candidates.flows),
                flows=len(self._flows) + len(candidates.flows),
                groups=len({(key[0], key[1], self._state.group_of(key[0], key[2])) for key in self._flows}),
                digest="",
                policy_ms=0.0,
                total_ms=self._since_ms(began_s),
            )
            instructions += self._tell_ahead(candidates.flows, treatments, by, record)
        ends = self.ahead.question_of_ends(self._flows, policy, now_s, self._estimate(now_s))
        return instructions if ends is None else [*instructions, AskPolicy(ends)]

    def answer_ahead(self, question: Question, allocation: Allocation, enforcer: str) -> list[Instruction]:
        """What an answer means for flows that are still to be released: told and remembered."""
        assert question.ahead is not None
        if question.ahead.ended:
            return self._answer_of_ends(question, question.ahead.ended, allocation, enforcer)
        treatments = self.ahead.answered(question, allocation, enforcer, self._flows)
        record = self._record(question, self._since_ms(question.asked_s))
        return self._tell_ahead(question.ahead.flows, treatments, question.ahead.by, record)

    def _answer_of_ends(
        self, question: Question, ended: frozenset[FlowKey], allocation: Allocation, enforcer: str
    ) -> list[Instruction]:
        """What senders do by themselves as soon as flows have ended: told, and logged if anything is."""
        answer = treatments_by_flow(question, allocation, enforcer, self._flows)
        settings = hand_over(self._state, self._flows, ended, answer, question.number, question.time_s)
        if not settings:
            return []
        record = self._record(question, self._since_ms(question.asked_s))
        record = dataclasses.replace(record, ahead=True, changed=_changed(settings))
        return [*_messages(settings), LogDecision(record)]

    def _tell_ahead(
        self, keys: Sequence[FlowKey], treatments: Treatments, by: Hashable, record: DecisionRecord
    ) -> list[Instruction]:
        """Say what is new, to agents and switches, and log it if anything is; `record` may lack its number."""
        settings = self.ahead.tell(keys, treatments, by, record.number)
        rules = self.rules.change(self.ahead.marks(keys, self._finished))
        if not settings and not rules:
            return []
        number = settings[0][1].number if settings else record.number
        record = dataclasses.replace(record, ahead=True, changed=_changed(settings), number=number)
        return [*rules, *_messages(settings), LogDecision(record)]

    def trial(self, now_s: float) -> Snapshot | None:
        """What a policy would be asked now; None where no flow is in flight."""
        return self._state.snapshot(now_s, self._estimate(now_s))[0] if self._flows else None

    def _estimate(self, time_s: float) -> Estimate:
        """Bytes that flows have sent by then: none of those that are only supposed to be released."""

        def estimate(keys: Sequence[FlowKey]) -> Floats:
            flows = (self._flows.get(key) for key in keys)
            return np.array([0.0 if flow is None else flow.sent_bytes(time_s) for flow in flows], np.float64)

        return estimate

    def _enforce(
        self, question: Question, allocation: Allocation, enforcer: str
    ) -> tuple[list[tuple[int, Setting]], tuple[tuple[str, int, str], ...]]:
        """Put the allocation in force in our books.

        Returns (client, setting) of every flow that changes, and the flows for which something else was decided ahead.
        """
        flows = [self._flows.get(key) for key in question.keys]
        in_force = [None if flow is None else flow.treatment for flow in flows]
        treatments = ENFORCERS[enforcer](question.snapshot, allocation, in_force)
        settings, corrected, asked = [], [], frozenset(question.keys)
        sent = question.snapshot.sent_bytes.tolist()
        rows = zip(question.keys, flows, treatments, allocation.rates_Bps.tolist(), sent, strict=True)
        for key, flow, treatment, rate_Bps, sent_bytes in rows:
            if flow is None:  # it finished while the policy was thinking
                continue
            if flow.known_s <= question.time_s:
                flow.known_bytes, flow.known_s = sent_bytes, question.time_s
            flow.rate_Bps = rate_Bps
            job, iteration, name = key
            told, flow.told_ahead = flow.told_ahead, None
            if told is not None and not told.is_confirmed_by(treatment):
                corrected.append((job, iteration, name))
                self.ahead.forget_answer(told)
            # What its sender may have done by itself since another flow has ended is confirmed or corrected.
            done = flow.then is not None and flow.then.after not in self._flows and flow.then.after not in asked
            if treatment is not None and (treatment != flow.treatment or flow.unsure or done):
                flow.treatment, flow.number, flow.unsure, flow.then = treatment, question.number, False, None
                setting = Setting(job, name, iteration, treatment.dscp, treatment.rate_Bps, question.number)
                settings.append((flow.client, setting))
        return settings, tuple(corrected)

    def _rule_changes(self, keys: Sequence[FlowKey]) -> list[InstallRules]:
        """Rules whose mark changes. A connection carries its iterations in turn: the first one's mark counts."""
        first: dict[tuple[str, str], int] = {}
        for job, iteration, name in keys:
            if (job, iteration, name) in self._flows:
                first[job, name] = min(iteration, first.get((job, name), iteration))
        marks = {}
        for (job, name), iteration in first.items():
            treatment = self._flows[job, iteration, name].treatment
            if treatment is not None:
                marks[job, name] = treatment.dscp
        return self.rules.change(marks)

    # Words

    @property
    def counts(self) -> tuple[int, int]:
        """How many groups are declared, and how many flows are in flight."""
        return len(self._state.groups), len(self._flows)

    def describe_groups(self) -> list[GroupStatus]:
        """Every declared group, with its flows in flight and what is in force for them."""
        in_flight: dict[tuple[str, str], list[FlowStatus]] = {key: [] for key in self._state.groups}
        for (job, iteration, flow), state in self._flows.items():
            in_flight[job, self._state.group_of(job, flow)].append(_flow_status(flow, iteration, state))
        return [
            GroupStatus(
                job=job,
                group=name,
                kind=info.declaration.kind,
                weight=info.declaration.weight,
                flows=len(info.declaration.flows),
                size_bytes=sum(flow.size_bytes for flow in info.declaration.flows),
                in_flight=tuple(in_flight[job, name]),
            )
            for (job, name), info in self._state.groups.items()
        ]


def _flow_status(flow: str, iteration: int, state: FlowInFlight) -> FlowStatus:
    treatment = state.treatment
    return FlowStatus(
        flow=flow,
        iteration=iteration,
        sent_bytes=int(state.known_bytes),
        dscp=None if treatment is None else treatment.dscp,
        rate_Bps=None if treatment is None else treatment.rate_Bps,
    )


def _connection(flow: FlowDeclaration) -> tuple[str, int, str, int]:
    return flow.src_host, flow.src_port, flow.dst_host, flow.dst_port


def _messages(settings: list[tuple[int, Setting]]) -> list[SendTo]:
    by_client: dict[int, list[Setting]] = {}
    for client, setting in settings:
        by_client.setdefault(client, []).append(setting)
    return [SendTo(client, Decide(tuple(theirs))) for client, theirs in by_client.items()]


def _changed(settings: list[tuple[int, Setting]]) -> tuple[tuple[str, int, str, int, float | None], ...]:
    return tuple((s.job, s.iteration, s.flow, s.dscp, s.rate_Bps) for _, s in settings)


def digest(snapshot: Snapshot) -> str:
    """Hash of the time and all arrays of a snapshot: equal digests mean equal inputs."""
    found = hashlib.blake2b(np.float64(snapshot.now_s).tobytes(), digest_size=8)
    for table in (snapshot, snapshot.groups, snapshot.coflows, snapshot.jobs):
        for column in dataclasses.fields(table):
            value = getattr(table, column.name)
            if isinstance(value, np.ndarray):
                found.update(value.tobytes())
    return found.hexdigest()
