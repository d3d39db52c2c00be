"""How long a link lies idle, or half idle, between the end of a flow and the full rate of the next one.

The link is the receiver's own, as its capture sees it. A flow *ends* when the last of its bytes has come. The next one
has *taken over* with the first packet that begins a full window. A window is `WINDOW_S` long, or `WINDOW_SEGMENTS` segments
where the link is slow. It is full if it carries `FULL_SHARE` of what the link can. Time counts from the end, or from the release of the next
flow where that is later: nobody can hand a link to a flow that has nothing to send.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.flow_key import FlowKey
from echelonflow.records.run_record import FlowRecord
from results.analysis.packets import Floats, FlowPackets, RunClock
from results.analysis.pcap import Capture

WINDOW_S = 0.002
WINDOW_SEGMENTS = 8
SEGMENT_BYTES = 1460
FULL_SHARE = 0.9
SOON_S = 0.005
"""A flow that is released so long after the end of another still follows it: what ends often is what it waited for."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A flow has ended on the link to `host`, and others had something to send there by `ready_s`."""

    host: str
    ended: FlowKey
    end_s: float
    ready_s: float
    """The end, or the release of the next flow where that came later."""
    waited: bool
    """Whether the next flow was released before the end: it waited for its turn."""
    full_s: float
    """When the link was full again."""

    @property
    def took_s(self) -> float:
        return self.full_s - self.ready_s


class LinkLoad:
    """What came over one link, as a line of bytes over time: a packet takes the link from its first bit to its last."""

    def __init__(self, times_s: Floats, payload_bytes: Floats, rate_Bps: float) -> None:
        order = np.argsort(times_s, kind="stable")
        ends_s, sizes = times_s[order], payload_bytes[order]
        before_s = np.concatenate([[-np.inf], ends_s[:-1]])
        self._starts_s = np.minimum(np.maximum(ends_s - sizes / rate_Bps, before_s), ends_s)
        total = np.concatenate([[0.0], np.cumsum(sizes)])
        self._at_s = np.column_stack([self._starts_s, ends_s]).ravel()
        self._bytes = np.column_stack([total[:-1], total[1:]]).ravel()
        self._rate_Bps = rate_Bps
        self._window_s = max(WINDOW_S, WINDOW_SEGMENTS * SEGMENT_BYTES / rate_Bps)

    @property
    def window_s(self) -> float:
        return self._window_s

    def full_from_s(self, ready_s: float) -> float | None:
        """The first moment from `ready_s` on at which a full window begins; None if there is none."""
        begins = np.concatenate([[ready_s], self._starts_s[self._starts_s > ready_s]])
        carried = self._carried(begins + self._window_s) - self._carried(begins)
        full = np.flatnonzero(carried >= FULL_SHARE * self._rate_Bps * self._window_s)
        return float(begins[full[0]]) if full.size else None

    def _carried(self, moments_s: Floats) -> Floats:
        found: Floats = np.interp(moments_s, self._at_s, self._bytes)
        return found


def hand_overs(
    flows: Sequence[FlowRecord],
    packets: Mapping[FlowKey, FlowPackets],
    captures: Mapping[str, Capture],
    addresses: Mapping[str, str],
    clock: RunClock,
    rates_Bps: Mapping[str, float],
) -> list[HandOver]:
    """All hand-overs on links to hosts; `rates_Bps` are what those carry, in payload bytes/s."""
    found = []
    for host in sorted({flow.dst_host for flow in flows} & captures.keys() & rates_Bps.keys()):
        load = _load(captures[host], addresses[host], clock, rates_Bps[host])
        if load is not None:
            found += _on_link(host, [flow for flow in flows if flow.dst_host == host], packets, load)
    return found


def _load(capture: Capture, address: str, clock: RunClock, rate_Bps: float) -> LinkLoad | None:
    streams = [stream for name, stream in capture.streams.items() if name[2] == address]
    if not streams:
        return None
    times_s = clock.run_times_s(np.concatenate([stream.time_ns for stream in streams]))
    sizes = np.concatenate([stream.payload_bytes for stream in streams]).astype(np.float64)
    return LinkLoad(times_s, sizes, rate_Bps)


def _on_link(
    host: str, flows: Sequence[FlowRecord], packets: Mapping[FlowKey, FlowPackets], load: LinkLoad
) -> list[HandOver]:
    came = [(flow, seen) for flow in flows if (seen := packets.get(_key(flow))) is not None]
    found = []
    for flow, seen in came:
        end_s = seen.finish_s
        if end_s is None:
            continue
        waiting_s = [
            other.release_s
            for other, its in came
            if other is not flow
            and other.release_s <= end_s + SOON_S
            and its.finish_s is not None
            and its.finish_s > max(end_s, other.release_s) + load.window_s
        ]
        if not waiting_s:
            continue
        first_s = min(waiting_s)
        ready_s = max(end_s, first_s)
        full_s = load.full_from_s(ready_s)
        if full_s is not None:
            found.append(HandOver(host, _key(flow), end_s, ready_s, first_s <= end_s, full_s))
    return found


def _key(flow: FlowRecord) -> FlowKey:
    return flow.job, flow.iteration, flow.flow
