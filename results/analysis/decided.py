"""What was decided for which flows in flight: so that a simulation can go by it where it comes to the same flows.

An order may hang on milliseconds, which no simulation repeats. Asked again, a policy would sometimes decide otherwise than
it did, and everything after would be another run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from echelonflow.model.flow_key import FlowKey
from echelonflow.model.measured import Decided
from echelonflow.records.run_record import DecisionRecord, FlowRecord, RunRecord
from echelonflow.wire.classes import DATA_CLASSES, class_of_dscp

MOST_TOLD = 2_000_000
"""Settings that are kept, over all decisions; a run of minutes has some tens of thousands. After these the policy is asked."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What a decision said to a flow."""

    number: int
    traffic_class: int | None
    rate_Bps: float

    @staticmethod
    def of(decision: DecisionRecord, dscp: int, rate_Bps: float | None) -> _Said:
        traffic_class = None if rate_Bps == 0 else max(class_of_dscp(dscp) - DATA_CLASSES[0], 0)
        return _Said(decision.number, traffic_class, math.inf if rate_Bps is None else rate_Bps)


def decided(record: RunRecord) -> dict[frozenset[FlowKey], list[Decided]]:
    """What held from each decision on, by the flows that were in flight, as far as the log of decisions tells them all.

    That is what it changed, and what earlier ones had said. These said it to flows ahead of their release, too, and to
    senders for when a flow of their own would have ended.
    """
    flows = {f"{f.job}/{f.flow}#{f.iteration}": _key(f) for f in record.flows}
    found: dict[frozenset[FlowKey], list[Decided]] = defaultdict(list)
    in_flight: set[FlowKey] = set()
    told: dict[FlowKey, _Said] = {}
    room = MOST_TOLD
    at_end: dict[FlowKey, dict[FlowKey, _Said]] = defaultdict(dict)
    for decision in record.decisions:
        said = {(job, k, flow): _Said.of(decision, dscp, rate) for job, k, flow, dscp, rate in decision.changed}
        if decision.ahead:
            after = decision.after or (None,) * len(decision.changed)
            for (job, k, flow, *_), end in zip(decision.changed, after, strict=True):
                (told if end is None else at_end[end])[job, k, flow] = said[job, k, flow]
        else:
            for what, _, name in (event.partition(" ") for event in decision.trigger.split(", ")):
                if name not in flows:
                    continue
                key = flows[name]
                if what == "release":
                    in_flight.add(key)
                elif what == "finish":
                    in_flight.discard(key)
            if len(in_flight) != decision.flows:  # its log names only the first of many events, and no end of all flows
                in_flight = _in_flight(record, decision.time_s)
            for ended in [key for key in at_end if key not in in_flight]:
                went_on = at_end.pop(ended).items()
                told.update({key: one for key, one in went_on if key not in told or told[key].number < one.number})
            told.update(said)
            room -= len(in_flight)
            if room < 0:
                break
            if len(in_flight) == decision.flows and in_flight <= told.keys():
                now = {key: (told[key].traffic_class, told[key].rate_Bps) for key in in_flight}
                found[frozenset(in_flight)].append(Decided(decision.time_s, now))
    return dict(found)


def _key(flow: FlowRecord) -> FlowKey:
    return flow.job, flow.iteration, flow.flow


def _in_flight(record: RunRecord, at_s: float) -> set[FlowKey]:
    return {_key(f) for f in record.flows if f.release_s <= at_s < f.finish_s}
