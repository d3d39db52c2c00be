"""Where the time goes between the release of a flow and its first packet, step by step, from what a run's parts recorded.

An agent notes the release, and when a setting is put in force. The coordinator notes when it heard, and when it decided.
Switches confirm their rules, where that is asked for. The capture at the source sees the packet. All of these are
clocks of one machine. Seconds since the run's zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.flow_key import FlowKey
from echelonflow.records.agent_log import Sent, read_agent_log
from echelonflow.records.events import ClientSaid, Handled
from echelonflow.records.events import read as read_events
from echelonflow.records.folder import RunFiles
from echelonflow.records.rules import RulesGiven, read_rules
from echelonflow.records.run_record import DecisionRecord
from echelonflow.wire.messages import Release
from results.analysis.packets import Floats, FlowPackets, RunClock
from results.analysis.pcap import Capture

STEPS = {
    "release to heard": ("released_s", "heard_s"),
    "heard to decided": ("heard_s", "decided_s"),
    "decided to rules sent": ("decided_s", "rules_sent_s"),
    "rules sent to confirmed": ("rules_sent_s", "confirmed_s"),
    "decided to setting at the agent": ("decided_s", "set_s"),
    "setting to first packet": ("set_s", "first_packet_s"),
    "release to first packet": ("released_s", "first_packet_s"),
}
"""What is reported: the moments between which each step lies."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """How one iteration of a flow came to be sent; None where nobody told.

    Of one that started by a decision made ahead, decision, rules and their confirmation are left out.
    """

    flow: FlowKey
    released_s: float
    heard_s: float | None
    decided_s: float | None
    """When the policy had answered the first question that led to a setting."""
    rules_sent_s: float | None
    confirmed_s: float | None
    """When every switch that was given rules by that decision had them."""
    set_s: float | None
    """When the agent put the first setting in force."""
    first_packet_s: float | None
    ahead: bool
    """Whether it was decided on before it was released, be it to start or to wait."""
    held: bool
    """Whether it was to wait by that decision."""
    corrected: bool
    """Whether the first decision that knew of the release was another."""
    free: bool
    """Whether it was to be sent at once and its host sent nothing else meanwhile. Others wait for their turn, not for us."""

    def step_s(self, name: str) -> float | None:
        """How long one of `STEPS` took; None where one of its ends is not known."""
        begin, end = (getattr(self, moment) for moment in STEPS[name])
        return None if begin is None or end is None else end - begin


@dataclass(frozen=True, slots=True)
class _First:
    """The first decision on a flow."""

    answered_s: float
    number: int
    """Which line of the log it is."""


def beginnings(
    files: RunFiles,
    zero_s: float,
    decisions: Sequence[DecisionRecord],
    packets: Mapping[FlowKey, FlowPackets],
    sent_s: Mapping[str, Floats],
) -> list[Beginning]:
    """One for each iteration of a flow that was sent, in order of release; `zero_s` is the run's, monotonic.

    `decisions` are the lines of the run's decisions.jsonl, all of them. `sent_s` has when each host sent payload, in order.
    """
    heard_s = _heard_s(files, zero_s)
    rules = _rules(read_rules(files.rules), zero_s)
    first = first_decisions(decisions)
    corrected = {flow for decision in decisions for flow in decision.corrected}
    found = []
    for host, line in _sent(files):
        key = (line.job, line.iteration, line.flow)
        seen, decided = packets.get(key), first.get(key)
        started_ahead = bool(line.by) and not line.held
        if started_ahead or decided is None:
            decided_s, (given_s, confirmed_s) = None, (None, None)
        else:
            decided_s, (given_s, confirmed_s) = decided.answered_s, rules.get(decided.number, (None, None))
        found.append(
            Beginning(
                flow=key,
                released_s=line.release_s,
                heard_s=heard_s.get(key),
                decided_s=decided_s,
                rules_sent_s=given_s,
                confirmed_s=confirmed_s,
                set_s=line.marks[0].time_s if line.marks else None,
                first_packet_s=None if seen is None else seen.start_s,
                ahead=bool(line.by),
                held=line.held,
                corrected=key in corrected,
                free=_is_free(line, seen, sent_s.get(host)),
            )
        )
    return sorted(found, key=lambda each: each.released_s)


def first_decisions(decisions: Sequence[DecisionRecord]) -> dict[FlowKey, _First]:
    """The first decision on every flow that one was made on after its release."""
    found: dict[FlowKey, _First] = {}
    for number, decision in enumerate(decisions):
        answered_s = decision.time_s + decision.policy_ms * 1e-3
        for job, iteration, flow, _, _ in () if decision.ahead else decision.changed:
            found.setdefault((job, iteration, flow), _First(answered_s, number))
    return found


def _is_free(line: Sent, seen: FlowPackets | None, sent_s: Floats | None) -> bool:
    """Whether the host sent no payload between a release and the flow's first packet, which nothing held back."""
    if seen is None or seen.start_s is None or sent_s is None or not line.marks or line.marks[0].rate_Bps == 0:
        return False
    first, own = np.searchsorted(sent_s, [line.release_s, seen.start_s])
    return bool(first == own)


def sending_times_s(
    captures: Mapping[str, Capture], addresses: Mapping[str, str], clock: RunClock
) -> dict[str, Floats]:
    """When each host sent payload, in order, by its capture."""
    found = {}
    for host, capture in captures.items():
        times = [stream.time_ns for name, stream in capture.streams.items() if name[0] == addresses[host]]
        if times:
            found[host] = np.sort(clock.run_times_s(np.concatenate(times)))
    return found


def _sent(files: RunFiles) -> Iterable[tuple[str, Sent]]:
    """What each host says of the flows that it has sent."""
    for path in sorted(files.agents.glob("*.jsonl")):
        yield from ((path.stem, line) for line in read_agent_log(path) if isinstance(line, Sent))


def _heard_s(files: RunFiles, zero_s: float) -> dict[FlowKey, float]:
    """When the coordinator heard of each release."""
    _, events = read_events(files.events)
    return {key: now_s - zero_s for now_s, key in _releases(events)}


def _releases(events: Iterable[Handled]) -> Iterable[tuple[float, FlowKey]]:
    for handled in events:
        if isinstance(handled.event, ClientSaid) and isinstance(handled.event.message, Release):
            said = handled.event.message
            yield handled.now_s, (said.job, said.iteration, said.flow)


def _rules(given: Sequence[RulesGiven], zero_s: float) -> dict[int, tuple[float, float]]:
    """Of every decision that changed rules: when the first switch was given them, and when the last had them."""
    found: dict[int, tuple[float, float]] = {}
    for each in given:
        sent_s, confirmed_s = each.sent_s - zero_s, each.confirmed_s - zero_s
        first_s, last_s = found.get(each.decisions, (sent_s, confirmed_s))
        found[each.decisions] = min(first_s, sent_s), max(last_s, confirmed_s)
    return found
