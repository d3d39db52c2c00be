"""The decision cycle of one run: when the policy is asked, what its answer changes, and who is told.

Pure: clocks are arguments. A decision is a question to the policy and its answer; flows may come and go between the two.
Which flows there are is in `controller.flow_books`, which policy is in force in `controller.session`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from controller import enforcers
from controller.ahead_books import Treatments, treatments_by_flow, trigger_of
from controller.enforcers import Treatment
from controller.flow_books import FlowBooks
from controller.hand_overs import hand_over
from controller.in_flight import FlowInFlight, unless_it_waits
from controller.instructions import Ahead, AskPolicy, InstallRules, Instruction, LogDecision, Question, SendTo
from controller.last_decisions import LastDecisions
from controller.weight_book import Weights
from echelonflow.model.arrays import Floats
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.run_record import DecisionRecord
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.folding import UNDECIDED
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.state import Estimate
from echelonflow.wire.classes import class_of_dscp
from echelonflow.wire.messages import Decide, HoldBack, JobSlots, Setting

SHORTEST_VALIDITY_S = 1e-3
"""An allocation is not asked for again sooner than this after it was made, unless something happens."""


class DecisionCycle:
    """One question at a time about the flows in `books`, and in spare time about those that come next.

    `clock` (seconds) measures how long decisions take, `number` gives each question a number of its own.
    """

    def __init__(self, books: FlowBooks, clock: Callable[[], float], number: Callable[[], int]) -> None:
        self._books = books
        self._ahead = books.ahead
        self._state = books.state
        self._rules = books.rules
        self._clock = clock
        self._number = number
        self._expires_s = math.inf
        self._asked: Question | None = None
        """The question that is yet to be answered."""
        self.last = LastDecisions()
        """For who watches."""
        self._held: tuple[Policy, tuple[str, ...]] | None = None
        """Who said last when iterations may begin, and which jobs were under way then; None where nobody is held back."""

    @property
    def wake_s(self) -> float:
        """When the next decision is due though nothing happens; maybe infinite."""
        return math.inf if self._asked is not None else self._expires_s

    def due(self, now_s: float) -> bool:
        """Whether something has happened, or run out, since the last decision (one is made at a time)."""
        return self._asked is None and (self._books.has_news or now_s >= self._expires_s)

    def ask(self, policy: Policy, now_s: float) -> Question | None:
        """The question to `policy` that is open from now on; None where there is nothing to decide."""
        news = self._books.take_news()
        began_s = news.since_s if news.count else self._clock()
        self._expires_s = math.inf
        if not self._books.flows:
            self._ahead.note_decision()
            return None
        connections = policy.promises.reads_connections
        snapshot, keys = self._state.snapshot(now_s, self._estimate(now_s), connections=connections)
        number = self._number()
        self._asked = Question(number, policy, snapshot, tuple(keys), now_s, news.words(), began_s, self._clock())
        return self._asked

    def hold_back(self, policy: Policy) -> HoldBack | None:
        """When iterations of jobs may begin from now on; None where that is as it was.

        The policy is asked when others are under way than before, here and at once: where many jobs share links, that takes time.
        """
        if policy.slots is None:
            told, self._held = self._held, None
            return None if told is None else HoldBack(())
        asked = policy, self._state.clocks.names_under_way()
        if asked == self._held:
            return None
        self._held = asked
        found = policy.slots(self._state.clocks.profiles())
        return HoldBack(
            tuple(JobSlots(job, one.first_s, one.every_s, one.tolerance_s) for job, one in sorted(found.items()))
        )

    def close_question(self, number: int) -> Question | None:
        """The open question, which is no longer open; None for one that was overtaken."""
        question = self._asked
        if question is None or question.number != number:
            return self._ahead.close_question(number)
        self._asked = None
        return question

    def ask_again(self, trigger: str) -> list[Instruction]:
        """Ask at once, whatever is open: an answer to that no longer counts, nor does what was decided ahead."""
        self._asked = None
        self._books.note(trigger)
        return list(_messages(self._ahead.take_all_back()))

    def answer(self, question: Question, allocation: Allocation, enforcer: str) -> list[Instruction]:
        """Put an answer in force, and say what it changes, and only that: weights and rules first, then the agents, then the log."""
        policy_ms = self._since_ms(question.asked_s)
        self._expires_s = max(allocation.valid_until_s, question.time_s + SHORTEST_VALIDITY_S)
        self._ahead.note_decision()
        settings, corrected = self._enforce(question, allocation, enforcer)
        weigh, weights = self._weigh(question)
        instructions = [*weigh, *self._rule_changes(question.keys), *_messages(settings)]
        record = self._record(question, policy_ms)
        record = dataclasses.replace(record, changed=_changed(settings), corrected=corrected, weights=weights)
        self.last.note(question, allocation, record)
        return [*instructions, LogDecision(record)]

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
        sets = self._ahead.next_sets(len(self._books.flows))
        for place, candidates in enumerate(sets):
            by, treatments = self._ahead.remembered(candidates, self._books.flows)
            if treatments is None:
                self._ahead.put_back(sets[place + 1 :])
                question = self._ahead.question(candidates, by, policy, now_s, self._estimate(now_s))
                return [*instructions, AskPolicy(question)]
            record = DecisionRecord(
                time_s=now_s,
                trigger=trigger_of(candidates.flows),
                flows=len(self._books.flows) + len(candidates.flows),
                groups=len({(key[0], key[1], self._state.group_of(key[0], key[2])) for key in self._books.flows}),
                digest="",
                policy_ms=0.0,
                total_ms=self._since_ms(began_s),
            )
            instructions += self._tell_ahead(candidates.flows, treatments, by, record)
        end = self._ahead.question_of_end(self._books.flows, policy, now_s, self._estimate(now_s))
        return instructions if end is None else [*instructions, AskPolicy(end)]

    def answer_ahead(self, question: Question, allocation: Allocation, enforcer: str) -> list[Instruction]:
        """What an answer means for flows that are still to be released: told and remembered."""
        assert question.ahead is not None
        if question.ahead.ended:
            return self._answer_of_ends(question, question.ahead, allocation, enforcer)
        treatments = self._ahead.answered(question, allocation, enforcer, self._books.flows)
        record = self._record(question, self._since_ms(question.asked_s))
        return self._tell_ahead(question.ahead.flows, treatments, question.ahead.by, record)

    def _answer_of_ends(
        self, question: Question, ahead: Ahead, allocation: Allocation, enforcer: str
    ) -> list[Instruction]:
        """What senders do by themselves as soon as flows have ended: told, and logged if anything is.

        With those in flight, or with those that are still to be released if the question supposes any.
        """
        flows = self._books.flows
        answer = treatments_by_flow(question, allocation, enforcer, flows)
        if ahead.flows:
            settings = self._ahead.tell_turns(question, answer, flows)
        else:
            settings = hand_over(self._state, flows, ahead.ended, answer, question.number, question.time_s)
        rules = self._rules.change(self._ahead.marks(ahead.flows, self._books.last_finished))
        if not settings and not rules:
            return []
        record = self._record(question, self._since_ms(question.asked_s))
        record = dataclasses.replace(record, ahead=True, changed=_changed(settings), after=_after(settings))
        return [*rules, *_messages(settings), LogDecision(record)]

    def _tell_ahead(
        self, keys: Sequence[FlowKey], treatments: Treatments, by: Hashable, record: DecisionRecord
    ) -> list[Instruction]:
        """Say what is new, to agents and switches, and log it if anything is; `record` may lack its number."""
        settings = self._ahead.tell(keys, treatments, by, record.number)
        rules = self._rules.change(self._ahead.marks(keys, self._books.last_finished))
        if not settings and not rules:
            return []
        number = settings[0][1].number if settings else record.number
        record = dataclasses.replace(record, ahead=True, changed=_changed(settings), number=number)
        return [*rules, *_messages(settings), LogDecision(record)]

    def trial(self, now_s: float) -> Snapshot | None:
        """What a policy would be asked now; None where no flow is in flight."""
        return self._state.snapshot(now_s, self._estimate(now_s))[0] if self._books.flows else None

    def _estimate(self, time_s: float) -> Estimate:
        """Bytes that flows have sent by then: none of those that are only supposed to be released."""

        def estimate(keys: Sequence[FlowKey]) -> Floats:
            flow_of = self._books.flows.get
            sent = [0.0 if (flow := flow_of(key)) is None else flow.sent_bytes(time_s) for key in keys]
            return np.array(sent, np.float64)

        return estimate

    def _enforce(
        self, question: Question, allocation: Allocation, enforcer: str
    ) -> tuple[list[tuple[int, Setting]], tuple[tuple[str, int, str], ...]]:
        """Put the allocation in force in our books.

        Returns (client, setting) of every flow that changes, and the flows for which something else was decided ahead.
        """
        flows = [self._books.flows.get(key) for key in question.keys]
        in_force = [None if flow is None else flow.treatment for flow in flows]
        treatments = enforcers.load(enforcer)(question.snapshot, allocation, in_force)
        settings, corrected, asked = [], [], frozenset(question.keys)
        sent = question.snapshot.sent_bytes.tolist()
        rows = zip(question.keys, flows, treatments, allocation.rates_Bps.tolist(), sent, strict=True)
        for key, flow, treatment, rate_Bps, sent_bytes in rows:
            if flow is None:  # it finished while the policy was thinking
                continue
            if flow.known_s <= question.time_s:
                flow.known_bytes, flow.known_s = sent_bytes, question.time_s
            flow.rate_Bps = rate_Bps
            if treatment is flow.treatment and flow.told_ahead is None and flow.then is None and not flow.unsure:
                continue  # most of them
            job, iteration, name = key
            told, flow.told_ahead = flow.told_ahead, None
            if told is not None and not told.is_confirmed_by(treatment):
                corrected.append((job, iteration, name))
                self._ahead.forget_answer(told)
            # What its sender may have done by itself since another flow has ended is confirmed or corrected.
            done = flow.then is not None and flow.then.after not in self._books.flows and flow.then.after not in asked
            if flow.then is not None and treatment is not None and not done and _waits_for_its_turn(flow, treatment):
                flow.treatment = treatment
                continue
            is_new = treatment is not flow.treatment and treatment != flow.treatment
            if treatment is not None and (is_new or flow.unsure or done):
                flow.treatment, flow.number, flow.unsure, flow.then = treatment, question.number, False, None
                setting = Setting(job, name, iteration, treatment.dscp, treatment.rate_Bps, question.number)
                settings.append((flow.client, setting))
        return settings, tuple(corrected)

    def _weigh(self, question: Question) -> tuple[list[Instruction], Weights]:
        """The weights that follow from what is in force for flows now, and that differ; nothing where there are none."""
        if not self._books.weights.active:
            return [], ()
        flows = [self._books.flows.get(key) for key in question.keys]
        classes = [
            UNDECIDED if flow is None or flow.treatment is None else class_of_dscp(flow.treatment.dscp)
            for flow in flows
        ]
        rates_Bps = np.array([0.0 if flow is None else flow.rate_Bps for flow in flows], np.float64)
        return self._books.weights.change(question.snapshot, np.array(classes, np.int64), rates_Bps)

    def _rule_changes(self, keys: Sequence[FlowKey]) -> list[InstallRules]:
        """Rules whose mark changes. A connection carries its iterations in turn: the first one's mark counts."""
        flows, first = self._books.flows, dict[tuple[str, str], Treatment | None]()
        for key in keys:  # in order of ids: of one connection, the earliest iteration first
            flow = flows.get(key)
            if flow is not None:
                first.setdefault((key[0], key[2]), flow.treatment)
        return self._rules.change({name: treatment.dscp for name, treatment in first.items() if treatment is not None})


def _waits_for_its_turn(flow: FlowInFlight, treatment: Treatment) -> bool:
    """Whether a flow that is to wait waits already, for an end that its sender sees first: to say so again would hold it up."""
    waits = unless_it_waits(flow.treatment) is None and unless_it_waits(treatment) is None
    return waits and flow.then is not None and not flow.unsure


def _messages(settings: list[tuple[int, Setting]]) -> list[SendTo]:
    by_client: dict[int, list[Setting]] = {}
    for client, setting in settings:
        by_client.setdefault(client, []).append(setting)
    return [SendTo(client, Decide(tuple(theirs))) for client, theirs in by_client.items()]


def _changed(settings: list[tuple[int, Setting]]) -> tuple[tuple[str, int, str, int, float | None], ...]:
    return tuple((s.job, s.iteration, s.flow, s.dscp, s.rate_Bps) for _, s in settings)


def _after(settings: list[tuple[int, Setting]]) -> tuple[FlowKey | None, ...]:
    return tuple(s.after for _, s in settings)


def digest(snapshot: Snapshot) -> str:
    """Hash of the time and all arrays of a snapshot: equal digests mean equal inputs."""
    found = hashlib.blake2b(np.float64(snapshot.now_s).tobytes(), digest_size=8)
    clock = () if snapshot.clock is None else (snapshot.clock, snapshot.clock.under_way)
    connections = () if snapshot.connections is None else (snapshot.connections,)
    for table in (snapshot, snapshot.groups, snapshot.coflows, snapshot.jobs, *clock, *connections):
        for column in dataclasses.fields(table):
            value = getattr(table, column.name)
            if isinstance(value, np.ndarray):
                found.update(value.tobytes())
    return found.hexdigest()
