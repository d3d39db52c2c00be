"""What links carried in passing: while a flow is in flight, one link of its path is full, or a link is not what it declares.

Queues serve whoever waits, so a flow that is neither paced nor paused fills the narrowest link of its path, alone or with
others. The link that is nearest to full is the one that it waits for, or each of those that are equally near. Calibration
looks at links before runs; this looks at them during one, at no cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats
from echelonflow.model.network import Network
from echelonflow.records.plan import Plan
from echelonflow.records.run_record import FlowRecord, RunRecord
from results.analysis.packets import RunClock
from results.analysis.pcap import Capture

LEAST_BIN_S = 0.1
SEGMENTS_OF_A_BIN = 50
"""At the slowest link's rate: fewer would show segments, not rates."""
SEGMENT_BYTES = 1460
LEAST_BINS = 10
"""A link that was waited for in fewer bins has not shown what it carries."""
MOST_CELLS = 5_000_000
"""Bins times links; a run that has more is looked at in wider bins."""
EQUALLY_NEAR = 0.01
"""Share of its rate by which a link may carry less than the fullest one of a path, and be waited for as well."""
_STARTS_S, _ENDS_S = 0.05, 0.02
"""A flow's first and last moments: TCP opens its window, and the last bytes are counted as they arrive."""


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """A link for which flows waited, and the share of its declared rate that it carried then: the median over bins."""

    link: str
    share: float
    bins: int


def waited_for(
    record: RunRecord,
    plan: Plan,
    network: Network,
    captures: Mapping[str, Capture],
    clock: RunClock,
    acknowledgement_share: float = 0.0,
) -> list[WaitedFor]:
    """Every link that flows of a run waited for long enough, the one farthest off its declaration first.

    Flows that are paced or paused wait for nobody, and are left out. For each byte of data, `acknowledgement_share` bytes of
    acknowledgements go back by other links, which carry these as well.
    """
    free = _free_flows(record)
    if not free or min(network.capacity_Bps) < 1:
        return []
    end_s = max(f.finish_s for f in free)
    width_s = max(
        LEAST_BIN_S,
        SEGMENTS_OF_A_BIN * SEGMENT_BYTES / min(network.capacity_Bps),
        end_s * len(network.links) / MOST_CELLS,
    )
    edges_s = np.arange(0.0, end_s + width_s, width_s)
    if edges_s.size < 2:
        return []
    carried = _carried_share(record, plan, network, captures, clock, edges_s, acknowledgement_share)
    waited = np.zeros(carried.shape, dtype=bool)
    for f in free:
        first, last = int(np.ceil((f.start_s + _STARTS_S) / width_s)), int((f.finish_s - _ENDS_S) / width_s)
        path = np.array(network.path(f.src_host, f.dst_host, f.src_port), dtype=np.int64)
        if last > first and path.size:
            bins = np.arange(max(first, 0), min(last, carried.shape[1]))
            if not bins.size:
                continue
            here = carried[np.ix_(path, bins)]
            waited[np.ix_(path, bins)] |= here >= here.max(axis=0) - EQUALLY_NEAR
    found = [
        WaitedFor(link.name, float(np.median(carried[link.index, waited[link.index]])), int(waited[link.index].sum()))
        for link in network.links
        if waited[link.index].sum() >= LEAST_BINS
    ]
    return sorted(found, key=lambda one: -abs(one.share - 1))


def _free_flows(record: RunRecord) -> list[FlowRecord]:
    """Flows that ended, and were never paced or paused."""
    held = {
        (job, iteration, flow)
        for decision in record.decisions
        for job, iteration, flow, _, rate_Bps in decision.changed
        if rate_Bps is not None and not (decision.ahead and rate_Bps == 0)
    }
    ended = (f for f in record.flows if not math.isnan(f.finish_s))
    return [f for f in ended if (f.job, f.iteration, f.flow) not in held]


def _carried_share(
    record: RunRecord,
    plan: Plan,
    network: Network,
    captures: Mapping[str, Capture],
    clock: RunClock,
    edges_s: Floats,
    acknowledgement_share: float,
) -> Floats:
    """What each link carried in each bin over what it declares: (links, bins), counted where it arrives."""
    found = np.zeros((len(network.links), edges_s.size - 1))
    connections = {(f.src_host, f.src_port, f.dst_host, f.dst_port) for f in record.flows}
    for src, src_port, dst, dst_port in sorted(connections):
        capture = captures.get(dst)
        name = (plan.addresses[src], src_port, plan.addresses[dst], dst_port)
        stream = None if capture is None else capture.streams.get(name)
        if stream is None:
            continue
        times_s = clock.run_times_s(stream.time_ns)
        sums, _ = np.histogram(times_s, edges_s, weights=stream.payload_bytes)
        found[list(network.path(src, dst, src_port))] += sums
        found[list(network.path(dst, src))] += sums * acknowledgement_share
    capacity_Bps = np.array(network.capacity_Bps)
    shares: Floats = found / (capacity_Bps[:, None] * np.diff(edges_s)[None, :])
    return shares
