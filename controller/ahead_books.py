"""What is decided before flows are released: what agents were told of it, and what is still to be asked.

Pure, like the flow books, of which it is a part. After each decision there is a list of sets of flows that can be
released next. In spare time they are gone through, one question at a time: what would be decided if they were released
now? Agents are told only what is new to them. At a release the real decision follows, which confirms or corrects it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

import numpy as np

from controller import enforcers
from controller.enforcers import Treatment
from controller.hand_overs import End, Ends, Waiting, ends_awaited, says_the_same
from controller.in_flight import FlowInFlight, Told, unless_it_waits
from controller.instructions import Ahead, Question
from echelonflow.model.flow_key import FlowKey
from echelonflow.scheduling.ahead import AnswerMemory, Candidates, CandidateSet, template
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.state import Estimate, SchedulerState
from echelonflow.wire.classes import DEFAULT_CLASS, dscp_of_class
from echelonflow.wire.messages import Setting

SETS_AT_ONCE = 4
"""So many sets are gone through in one piece of spare time, if their answers are remembered."""
ENDS_AT_ONCE = 3
"""So many ends of flows, those that come first, are asked about after each decision: what comes then?"""
MOST_BESIDE = 1000
"""Beside more flows in flight nothing is decided ahead: one question would take longer than what comes may wait."""

_WAITS = Treatment(dscp_of_class(DEFAULT_CLASS), 0.0)
FLOWS_NAMED = 2
"""A decision's log entry names so many of the flows, and counts the others."""
Treatments = tuple[Treatment | None, ...]
"""Of the flows of a set; None for one that is to wait."""


class AheadBooks:
    """Provisional decisions of one run.

    `senders` gives the clients on a host, `number` a number for each decision, `clock` (seconds) measures. Where the run
    is not followed `from_the_start`, nobody knows at first which iterations come next.
    """

    def __init__(
        self,
        state: SchedulerState,
        senders: Callable[[str], Sequence[int]],
        number: Callable[[], int],
        clock: Callable[[], float],
        *,
        from_the_start: bool,
    ) -> None:
        self.candidates = Candidates(from_the_start=from_the_start)
        self._state = state
        self._senders = senders
        self._number = number
        self._clock = clock
        self._sender: dict[tuple[str, str], int] = {}
        """Of a flow that was released: by whom."""
        self._told: dict[FlowKey, Told] = {}
        self._memory: AnswerMemory[Treatments] = AnswerMemory()
        self._sets: list[CandidateSet] = []
        self._to_do: list[CandidateSet] = []
        """Those of `_sets` that were not gone through yet, in reverse."""
        self._ends: list[End] | None = None
        """Ends of flows of which it was not asked yet what comes then, in reverse; None: to be made out."""
        self._asked_ends: set[End] = set()
        """Those that were asked about since there were others at these senders."""
        self._stale = True
        """Whether something has been decided since the sets were made out."""
        self._asked: Question | None = None

    # What happens to flows

    def release(self, key: FlowKey, client: int, index: int) -> Told | None:
        """A flow is released: what its agent was told before, if it was."""
        self.candidates.release(key, index)
        self._sender[key[0], key[2]] = client
        return self._told.pop(key, None)

    def end(self, key: FlowKey) -> None:
        """A flow has ended: what was to hold from then on is in force at the senders."""
        for waiting, told in self._told.items():
            if told.then is not None and told.then.after == key:
                self._told[waiting] = told.at_its_turn

    def withdraw(self, jobs: Collection[str]) -> None:
        """Forget jobs."""
        self.candidates.withdraw(jobs)
        self._sender = {flow: client for flow, client in self._sender.items() if flow[0] not in jobs}
        self._told = {key: told for key, told in self._told.items() if key[0] not in jobs}
        self.note_decision()

    def has_told(self, key: FlowKey) -> bool:
        """Whether a flow that is not released may have started all the same: its release is on its way."""
        return key in self._told

    def note_decision(self) -> None:
        """Something has been decided, or nothing is left in flight: look again what can be decided ahead."""
        self._stale = True
        self._ends = None
        self._asked = None

    def forget_answer(self, told: Told) -> None:
        """What was told ahead had to be corrected: the answer is not used again."""
        self._memory.forget(told.by)

    def take_all_back(self) -> list[tuple[int, Setting]]:
        """What was told counts no more, as another policy is in force; returns what to tell whom."""
        self._memory.clear()
        self._asked_ends.clear()
        self.note_decision()
        self._told = {key: told.at_its_turn for key, told in self._told.items()}
        return self.tell(list(self._told), [None] * len(self._told), None, self._number())

    # Spare time

    @property
    def has_work(self) -> bool:
        """Whether there may be something to decide ahead."""
        return self._asked is None and (self._stale or bool(self._to_do) or self._ends is None or bool(self._ends))

    def next_sets(self, beside: int) -> list[CandidateSet]:
        """The next sets to be asked about, all of whose flows are still to be released; `beside` flows are in flight."""
        if self._stale:
            self._sets = [] if beside > MOST_BESIDE else self.candidates.sets()
            self._to_do = self._sets[::-1]
            self._stale = False
        taken: list[CandidateSet] = []
        while self._to_do and len(taken) < SETS_AT_ONCE:
            candidates = self._to_do.pop()
            if all(key in self.candidates for key in candidates.flows):
                taken.append(candidates)
        return taken

    def put_back(self, sets: Sequence[CandidateSet]) -> None:
        """There was no time for these."""
        self._to_do += reversed(sets)

    def question(
        self, candidates: CandidateSet, by: Hashable, policy: Policy, now_s: float, estimate: Estimate
    ) -> Question:
        """What `policy` is asked about a set, which is open from now on."""
        trigger, ahead = trigger_of(candidates.flows), Ahead(candidates.flows, by)
        return self._suppose(ahead, candidates.ended, trigger, policy, now_s, estimate)

    def _suppose(
        self,
        ahead: Ahead,
        ended: frozenset[FlowKey],
        trigger: str,
        policy: Policy,
        now_s: float,
        estimate: Estimate,
    ) -> Question:
        """What `policy` is asked, supposing that the flows of `ahead` were released and others had `ended`."""
        began_s = self._clock()
        with self._state.supposing(ahead.flows, now_s):
            connections = policy.promises.reads_connections
            snapshot, keys = self._state.snapshot(now_s, estimate, connections=connections)
        kept = np.array([key not in ended for key in keys], bool)
        if not kept.all():
            snapshot, keys = snapshot.only(kept), [key for key in keys if key not in ended]
        number = self._number()
        self._asked = Question(number, policy, snapshot, tuple(keys), now_s, trigger, began_s, self._clock(), ahead)
        return self._asked

    def question_of_end(
        self, flows: Mapping[FlowKey, FlowInFlight], policy: Policy, now_s: float, estimate: Estimate
    ) -> Question | None:
        """What `policy` is asked about flows that end next, once all sets have been gone through; None where nobody waits."""
        if self._to_do:
            return None
        if self._ends is None:
            self._ends = self._new_ends(ends_awaited(self._state, flows, self._waiting(), now_s))[::-1]
        if not self._ends:
            return None
        end = self._ends.pop()
        self._asked_ends.add(end)
        released, ended = ((), frozenset()) if end.candidates is None else (end.candidates.flows, end.candidates.ended)
        trigger = trigger_of(sorted(end.ending), "end of")
        return self._suppose(Ahead(released, None, end.ending), end.ending | ended, trigger, policy, now_s, estimate)

    def _new_ends(self, ends: Sequence[End]) -> list[End]:
        """Those to ask about: the first that flows in flight wait for, of which others' flows may change what comes then.

        Of the rest, those at whose senders something has changed since it was asked.
        """
        always = next((end for end in ends if end.candidates is None), None)
        self._asked_ends &= set(ends)
        return [end for end in ends if end is always or end not in self._asked_ends][:ENDS_AT_ONCE]

    def _waiting(self) -> list[Waiting]:
        """The sets with flows that were told to wait."""
        found = []
        for candidates in self._sets:
            told = [(key, self._told[key]) for key in candidates.flows if key in self._told]
            senders = (self._client(key) for key, each in told if each.treatment is None)
            known = frozenset(client for client in senders if client is not None)
            if known and len(told) == len(candidates.flows):
                found.append(Waiting(candidates, known, any(each.then is not None for _, each in told)))
        return found

    def close_question(self, number: int) -> Question | None:
        """The open question, which is no longer open; None for one that was overtaken."""
        question = self._asked
        if question is None or question.number != number:
            return None
        self._asked = None
        return question

    def answered(
        self, question: Question, allocation: Allocation, enforcer: str, flows: Mapping[FlowKey, FlowInFlight]
    ) -> Treatments:
        """What the answer means for the flows that were asked about; it is remembered."""
        assert question.ahead is not None
        of = treatments_by_flow(question, allocation, enforcer, flows)
        answer = tuple(of[key] for key in question.ahead.flows)
        self._memory.keep(question.ahead.by, answer)
        return answer

    def remembered(
        self, candidates: CandidateSet, flows: Mapping[FlowKey, FlowInFlight]
    ) -> tuple[Hashable, Treatments | None]:
        """The template of a set beside the flows in flight, and what was answered to it, None if nothing was."""
        beside = {key: flow.treatment for key, flow in flows.items() if key not in candidates.ended}
        asked = template(candidates.flows, beside)
        return asked, self._memory.get(asked)

    def tell(
        self, keys: Sequence[FlowKey], treatments: Sequence[Treatment | None], by: Hashable, number: int
    ) -> list[tuple[int, Setting]]:
        """What is to be told of flows that are still to be released, and to whom: only what is new.

        `number` is that of the decision; 0 gives it one, if there is anything to tell.
        """
        settings: list[tuple[int, Setting]] = []
        for key, decided in zip(keys, treatments, strict=True):
            client = self._client(key) if key in self.candidates else None
            told, treatment = self._told.get(key), unless_it_waits(decided)
            if client is None or (told is not None and told.treatment == treatment):
                continue
            number = number or self._number()
            self._told[key] = Told(number, treatment, by)
            settings.append((client, _setting(key, treatment, number)))
        return settings

    def tell_turns(
        self,
        question: Question,
        answer: Mapping[FlowKey, Treatment | None],
        flows: Mapping[FlowKey, FlowInFlight],
    ) -> list[tuple[int, Setting]]:
        """What is to be told of flows that wait once they are released, until the ends that `question` supposes.

        Only what is new; returns whom to tell.
        """
        assert question.ahead is not None
        ends = Ends(self._state, flows, question.ahead.ended, question.time_s)
        settings: list[tuple[int, Setting]] = []
        for key in question.ahead.flows:
            client, told = self._client(key), self._told.get(key)
            if client is None or told is None or told.treatment is not None or key not in self.candidates:
                continue
            treatment = unless_it_waits(answer[key])
            then = None if treatment is None else ends.then(key, client, treatment)
            if says_the_same(then, told.then):
                continue
            if then is None:
                self._told[key] = Told(question.number, None, told.by)
                settings.append((client, _setting(key, None, question.number)))
            else:
                self._told[key] = dataclasses.replace(told, then=then, then_number=question.number)
                settings.append((client, _setting(key, then.treatment, question.number, then.after)))
        return settings

    def marks(self, keys: Sequence[FlowKey], finished: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """Marks for rules ahead of releases; none where an earlier iteration of the connection has not `finished`."""
        found = {}
        for key in keys:
            told = self._told.get(key)
            treatment = None if told is None else told.at_its_turn.treatment
            job, iteration, name = key
            if treatment is not None and finished.get((job, name), -1) >= iteration - 1:
                found[job, name] = treatment.dscp
        return found

    def _client(self, key: FlowKey) -> int | None:
        """Who sends a flow; None where that is not known."""
        name = key[0], key[2]
        if name in self._sender:
            return self._sender[name]
        on_host = self._senders(self._state.declaration(*name).src_host)
        return on_host[0] if len(on_host) == 1 else None


def _setting(key: FlowKey, treatment: Treatment | None, number: int, after: FlowKey | None = None) -> Setting:
    """What is told of a flow that is still to be released; without a treatment it is to wait."""
    job, iteration, name = key
    said = treatment or _WAITS
    return Setting(job, name, iteration, said.dscp, said.rate_Bps, number, after)


def trigger_of(flows: Sequence[FlowKey], what: str = "ahead") -> str:
    """What a decision's log entry says of the flows that are supposed to be released, or to have ended."""
    named = ", ".join(f"{job}/{flow}#{iteration}" for job, iteration, flow in flows[:FLOWS_NAMED])
    more = len(flows) - FLOWS_NAMED
    return f"{what} {named}" + (f", and {more} more" if more > 0 else "")


def treatments_by_flow(
    question: Question, allocation: Allocation, enforcer: str, flows: Mapping[FlowKey, FlowInFlight]
) -> dict[FlowKey, Treatment | None]:
    """What an answer means for each flow that was asked about, beside what is in force for those in flight."""
    in_force = [flows[key].treatment if key in flows else None for key in question.keys]
    return dict(zip(question.keys, enforcers.load(enforcer)(question.snapshot, allocation, in_force), strict=True))
