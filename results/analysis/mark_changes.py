"""What a change of marks in mid-flight costs: how long until packets bear the new ones, and how long nothing comes meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.flow_key import FlowKey
from echelonflow.records.run_record import DecisionRecord, FlowRecord
from results.analysis.packets import Floats, RunClock
from results.analysis.pcap import Capture, TcpStream

AROUND_S = 0.05
"""So long after a decision a change is looked for, and the largest gap; as long before it is what to compare with."""


@dataclass(frozen=True, slots=True)
class MarkChange:
    """One decision that gave flows other marks while they were being sent. Seconds."""

    time_s: float
    marks: int
    first_s: tuple[float, ...]
    """Of each flow whose packets came with the new mark: how long after the policy's answer the first one did."""
    gap_s: float
    """The longest time in which nothing came to the receivers of these flows, from the answer on."""
    gap_before_s: float
    """The same before it."""


def mark_changes(
    decisions: Sequence[DecisionRecord],
    flows: Sequence[FlowRecord],
    captures: Mapping[str, Capture],
    addresses: Mapping[str, str],
    clock: RunClock,
) -> list[MarkChange]:
    """Every decision that changed marks of flows that had one, in order."""
    known = {(flow.job, flow.iteration, flow.flow): flow for flow in flows}
    last: dict[FlowKey, int] = {}
    found = []
    for decision in decisions:
        changed: list[tuple[FlowRecord, int]] = []
        for job, iteration, name, dscp, _ in decision.changed:
            flow = known.get((job, iteration, name))
            if flow is not None and last.get((job, iteration, name), dscp) != dscp:
                changed.append((flow, dscp))
            last[job, iteration, name] = dscp
        answered_s = decision.time_s + decision.policy_ms * 1e-3
        here = [
            (flow, dscp)
            for flow, dscp in changed
            if flow.start_s < answered_s - AROUND_S < answered_s + AROUND_S < flow.finish_s
        ]
        if here and len(here) == len(changed):
            found.append(_change(answered_s, here, captures, addresses, clock))
    return found


def _change(
    answered_s: float,
    changed: Sequence[tuple[FlowRecord, int]],
    captures: Mapping[str, Capture],
    addresses: Mapping[str, str],
    clock: RunClock,
) -> MarkChange:
    first_s = []
    for flow, dscp in changed:
        stream = _stream(flow, captures, addresses)
        if stream is None:
            continue
        times_s = clock.run_times_s(stream.time_ns)
        new = times_s[(stream.dscp == dscp) & (times_s >= answered_s)]
        if new.size:
            first_s.append(float(new[0]) - answered_s)
    hosts = sorted({flow.dst_host for flow, _ in changed} & captures.keys())
    came_s = [_arrivals_s(captures[host], addresses[host], clock) for host in hosts]
    return MarkChange(
        answered_s,
        len(changed),
        tuple(first_s),
        max((longest_gap_s(times, answered_s, answered_s + AROUND_S) for times in came_s), default=0.0),
        max((longest_gap_s(times, answered_s - AROUND_S, answered_s) for times in came_s), default=0.0),
    )


def longest_gap_s(times_s: Floats, begin_s: float, end_s: float) -> float:
    """The longest time without a packet between two moments; one that has begun before or ends later counts in part."""
    inside = times_s[(times_s > begin_s) & (times_s < end_s)]
    return float(np.max(np.diff(np.concatenate([[begin_s], inside, [end_s]]))))


def _stream(flow: FlowRecord, captures: Mapping[str, Capture], addresses: Mapping[str, str]) -> TcpStream | None:
    capture = captures.get(flow.dst_host)
    name = (addresses[flow.src_host], flow.src_port, addresses[flow.dst_host], flow.dst_port)
    return None if capture is None else capture.streams.get(name)


def _arrivals_s(capture: Capture, address: str, clock: RunClock) -> Floats:
    times = [stream.time_ns for name, stream in capture.streams.items() if name[2] == address]
    return np.sort(clock.run_times_s(np.concatenate(times))) if times else np.empty(0)
