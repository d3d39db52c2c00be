"""Hand-overs: what comes when flows in flight have ended, told to their sender before they end.

Pure, a part of the books of what is decided ahead. After a decision, in spare time, the policy is asked once more: what if
the flows of the Coflow that ends next at a sender had ended? A flow that may then send at another rate, and whose sender also sends
one of those, is told so: "from the end of that one on". The sender finds its own flow's end out first. Of the ends of others' flows
it knows nothing, so a flow that meets one of these on its way is told nothing. The real decision follows with the
receiver's report, and confirms or corrects it.

The same is asked for flows that are still to be released and would have to wait now. One that is released just before
the end of the flow ahead of it, or just after, else stands still until that has been decided.

A rule of a switch cannot wait for an end, so marks are never changed this way.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from controller.enforcers import Treatment
from controller.in_flight import FlowInFlight, Then
from echelonflow.model.flow_key import FlowKey
from echelonflow.scheduling.ahead import CandidateSet
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.classes import DEFAULT_CLASS, class_of_dscp
from echelonflow.wire.messages import Setting

MUCH_FASTER = 1.25
"""What brings less is not worth a message: the real decision is some milliseconds away."""
SAME_RATE = 0.05
"""Relative change of a rate that was told, and holds only for those milliseconds, that is not worth another message."""


@dataclass(frozen=True, slots=True)
class End:
    """Flows in flight that end together, and flows that are still to be released which may have their turn then."""

    ending: frozenset[FlowKey]
    beside: frozenset[tuple[FlowKey, Treatment | None]]
    """What the senders of those that wait have in flight, and how."""
    candidates: CandidateSet | None = None
    """None: only flows in flight wait for it."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Flows still to be released that were told to wait, who sends them, and whether one knows what it waits for."""

    candidates: CandidateSet
    senders: frozenset[int]
    knows: bool


def ends_awaited(
    state: SchedulerState, flows: Mapping[FlowKey, FlowInFlight], waiting: Sequence[Waiting], now_s: float
) -> list[End]:
    """The next end of a Coflow at each sender of which another flow waits for it, in the order of these ends.

    `waiting` flows do not count where others that the same clients send are in flight already, and wait for the same.
    Where they have been told what they wait for they do: that may have to be taken back.
    """
    by_sender: dict[int, dict[FlowKey, FlowInFlight]] = defaultdict(dict)
    of_coflow: dict[tuple[str, int, str], set[FlowKey]] = defaultdict(set)
    for key, flow in flows.items():
        by_sender[flow.client][key] = flow
        of_coflow[_coflow(state, key)].add(key)

    def ending_first(theirs: Mapping[FlowKey, FlowInFlight]) -> tuple[float, frozenset[FlowKey]]:
        """After how long the first of some flows ends, and the flows in flight of its Coflow; none where none sends."""
        sending = {key: _left_s(state, key, flow, now_s) for key, flow in theirs.items() if flow.rate_Bps > 0}
        if not sending:
            return math.inf, frozenset()
        first = min(sending, key=lambda key: (sending[key], key))
        return sending[first], frozenset(of_coflow[_coflow(state, first)])

    found: dict[frozenset[FlowKey], tuple[float, int, End]] = {}
    for place, client in enumerate(sorted({flow.client for flow in flows.values() if _is_slowed(flow)})):
        theirs = by_sender[client]
        left_s, ending = ending_first(theirs)
        if ending not in found and _others_wait(theirs, ending):
            found[ending] = left_s, place, End(ending, _treated(theirs))
    turns = []
    for place, each in enumerate(waiting):
        theirs = {key: flow for client in each.senders for key, flow in by_sender[client].items()}
        left_s, ending = ending_first(theirs)
        if ending and (each.knows or not _others_wait(theirs, ending)):
            turns.append((left_s, len(found) + place, End(ending, _treated(theirs), each.candidates)))
    return [end for _, _, end in sorted([*found.values(), *turns], key=lambda each: each[:2])]


def _coflow(state: SchedulerState, key: FlowKey) -> tuple[str, int, str]:
    job, iteration, name = key
    return job, iteration, state.declaration(job, name).coflow


def _treated(flows: Mapping[FlowKey, FlowInFlight]) -> frozenset[tuple[FlowKey, Treatment | None]]:
    return frozenset((key, flow.treatment) for key, flow in flows.items())


def _others_wait(flows: Mapping[FlowKey, FlowInFlight], ending: Collection[FlowKey]) -> bool:
    """Whether another one of these flows has less than it could take."""
    return any(_is_slowed(flow) for key, flow in flows.items() if key not in ending)


def _is_slowed(flow: FlowInFlight) -> bool:
    """Whether it is paced or paused: one that is only marked takes what is free without being told."""
    return flow.treatment is not None and flow.treatment.rate_Bps is not None


def hand_over(
    state: SchedulerState,
    flows: Mapping[FlowKey, FlowInFlight],
    ended: frozenset[FlowKey],
    answer: Mapping[FlowKey, Treatment | None],
    number: int,
    now_s: float,
) -> list[tuple[int, Setting]]:
    """What an answer that supposes `ended` means for those that go on: only what is new; the books of `flows` note it.

    Of flows whose senders see none of these ends it says nothing. Returns (client, setting) of each flow of which there
    is something to tell.
    """
    ends = Ends(state, flows, ended, now_s)
    senders = {flows[key].client for key in ended & flows.keys()}
    found = []
    for key, treatment in answer.items():
        flow = flows.get(key)
        if flow is None or flow.treatment is None or flow.client not in senders:
            continue
        if state.declaration(key[0], key[2]).before is None:
            continue
        then = None
        if treatment is not None and _is_news(treatment, flow.treatment):
            then = ends.then(key, flow.client, treatment)
        if says_the_same(then, flow.then):
            continue
        flow.then = then
        job, iteration, name = key
        # What was said before is taken back by saying again what is in force, by a decision of a higher number.
        force = flow.treatment if then is None else then.treatment
        setting = Setting(
            job, name, iteration, force.dscp, force.rate_Bps, number, None if then is None else then.after
        )
        found.append((flow.client, setting))
    return found


class Ends:
    """Flows in flight that are supposed to have `ended`, as their senders will see it."""

    def __init__(
        self,
        state: SchedulerState,
        flows: Mapping[FlowKey, FlowInFlight],
        ended: frozenset[FlowKey],
        now_s: float,
    ) -> None:
        self._state = state
        self._last: dict[int, FlowKey] = {}
        """By client: which of them it sees the end of last."""
        self._class: dict[int, int] = {}
        """By client: the last class that one of them is in."""
        self._freed_by: dict[int, int | None] = {}
        """Whose ends free each link: the client that sends all those on it; None for several."""
        for key in sorted(ended & flows.keys(), key=lambda key: (_left_s(state, key, flows[key], now_s), key)):
            client = flows[key].client
            self._last[client] = key
            treatment = flows[key].treatment
            traffic_class = DEFAULT_CLASS if treatment is None else class_of_dscp(treatment.dscp)
            self._class[client] = max(traffic_class, self._class.get(client, traffic_class))
            for link in _links(state, key):
                self._freed_by[link] = client if self._freed_by.get(link, client) == client else None

    def then(self, key: FlowKey, client: int, treatment: Treatment) -> Then | None:
        """What another flow of `client` may do at these ends; None where the client cannot know when its links are free.

        Nor may it take a class before that of a flow it follows: the last segments of that one still wait in queues, and
        would be overtaken, and wait on.
        """
        after = self._last.get(client)
        freed_by = (self._freed_by.get(link, client) for link in _links(self._state, key))
        if after is None or any(by != client for by in freed_by):
            return None
        return Then(after, treatment) if class_of_dscp(treatment.dscp) >= self._class[client] else None


def _links(state: SchedulerState, key: FlowKey) -> tuple[int, ...]:
    declared = state.declaration(key[0], key[2])
    return state.network.path(declared.src_host, declared.dst_host, declared.src_port)


def _is_news(treatment: Treatment, in_force: Treatment) -> bool:
    """Whether a flow may then send with the same mark, and much faster."""
    rate_Bps, now_Bps = treatment.rate_Bps, in_force.rate_Bps
    if treatment.dscp != in_force.dscp or now_Bps is None:
        return False
    return rate_Bps is None or rate_Bps > MUCH_FASTER * now_Bps


def says_the_same(then: Then | None, told: Then | None) -> bool:
    """Whether a flow need not be told what it is to do then, as it was `told` as good as that."""
    if then is None or told is None:
        return then is told
    rate_Bps, told_Bps = then.treatment.rate_Bps, told.treatment.rate_Bps
    if rate_Bps is None or told_Bps is None:
        return then == told
    alike = then.after == told.after and then.treatment.dscp == told.treatment.dscp
    return alike and abs(rate_Bps - told_Bps) <= SAME_RATE * told_Bps


def _left_s(state: SchedulerState, key: FlowKey, flow: FlowInFlight, now_s: float) -> float:
    left_bytes = state.declaration(key[0], key[2]).size_bytes - flow.sent_bytes(now_s)
    return left_bytes / flow.rate_Bps if flow.rate_Bps > 0 else float("inf")
