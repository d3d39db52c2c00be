"""Hand-overs: what comes when flows in flight have ended, told to their sender before they end.

Pure, a part of the books of what is decided ahead. After a decision, in spare time, the policy is asked once more: what if
the flows of the Coflow that ends next had ended? A flow that may then send at another rate, and whose sender also sends
one of those, is told so: "from the end of that one on". The sender finds its own flow's end out first. Of the ends of others' flows
it knows nothing, so a flow that meets one of these on its way is told nothing. The real decision follows with the
receiver's report, and confirms or corrects it.

A rule of a switch cannot wait for an end, so marks are never changed this way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.enforcers import Treatment
from controller.in_flight import FlowInFlight, Then
from echelonflow.model.flow_key import FlowKey
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Setting

MUCH_FASTER = 1.25
"""What brings less is not worth a message: the real decision is some milliseconds away."""
SAME_RATE = 0.05
"""Relative change of a rate that was told, and holds only for those milliseconds, that is not worth another message."""


def ending_next(state: SchedulerState, flows: Mapping[FlowKey, FlowInFlight], now_s: float) -> frozenset[FlowKey]:
    """The flows in flight of the Coflow of which one ends first, as far as is known; none where nobody waits for it."""
    sending = {key: _left_s(state, key, flow, now_s) for key, flow in flows.items() if flow.rate_Bps > 0}
    if not sending:
        return frozenset()
    job, iteration, name = min(sending, key=lambda key: (sending[key], key))
    coflow = state.declaration(job, name).coflow
    ending = frozenset(
        key for key in flows if key[:2] == (job, iteration) and state.declaration(job, key[2]).coflow == coflow
    )
    senders = {flows[key].client for key in ending}
    waits = any(_is_slowed(flow) and flow.client in senders for key, flow in flows.items() if key not in ending)
    return ending if waits else frozenset()


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

    Returns (client, setting) of each flow of which there is something to tell.
    """
    last: dict[int, FlowKey] = {}
    for key in sorted(ended & flows.keys(), key=lambda key: (_left_s(state, key, flows[key], now_s), key)):
        last[flows[key].client] = key
    freed_by = _freed_by(state, ended & flows.keys(), flows)
    found = []
    for key, treatment in answer.items():
        flow = flows.get(key)
        if flow is None or flow.treatment is None or state.declaration(key[0], key[2]).before is None:
            continue
        links = _links(state, key)
        waits_for_others = any(freed_by.get(link, flow.client) != flow.client for link in links)
        after = None if waits_for_others else last.get(flow.client)
        then = None
        if after is not None and treatment is not None and _is_news(treatment, flow.treatment):
            then = Then(after, treatment)
        if _says_the_same(then, flow.then):
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


def _freed_by(
    state: SchedulerState, ended: Collection[FlowKey], flows: Mapping[FlowKey, FlowInFlight]
) -> dict[int, int | None]:
    """Whose ends free each link: the client that sends all those on it; None for several."""
    found: dict[int, int | None] = {}
    for key in ended:
        client = flows[key].client
        for link in _links(state, key):
            found[link] = client if found.get(link, client) == client else None
    return found


def _links(state: SchedulerState, key: FlowKey) -> tuple[int, ...]:
    declared = state.declaration(key[0], key[2])
    return state.network.path(declared.src_host, declared.dst_host)


def _is_news(treatment: Treatment, in_force: Treatment) -> bool:
    """Whether a flow may then send with the same mark, and much faster."""
    rate_Bps, now_Bps = treatment.rate_Bps, in_force.rate_Bps
    if treatment.dscp != in_force.dscp or now_Bps is None:
        return False
    return rate_Bps is None or rate_Bps > MUCH_FASTER * now_Bps


def _says_the_same(then: Then | None, told: Then | None) -> bool:
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
