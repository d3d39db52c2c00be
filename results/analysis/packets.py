"""What the packets say of each flow: when it started and ended, what was sent twice, how it was marked.

Iteration k of a flow is the bytes [k * size, (k + 1) * size) of its connection's stream. Every byte
counts at the moment at which it was *first* seen, so retransmissions and reordering change no sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from echelonflow.errors import InputError
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.outcome import RunOutcome
from echelonflow.records.plan import Plan
from echelonflow.records.run_record import RunRecord
from results.analysis.pcap import Capture, Int64s, TcpStream

Floats = npt.NDArray[np.float64]

THROUGHPUT_BINS = 150
LEAST_SEGMENTS_PER_BIN = 8
"""Offload makes segments of up to 64 KiB."""
OBEYED_WITHIN_S = 0.1
"""From a decision to the first packet that leaves under it: 2 to 5 ms on an idle machine, and tens on one that is full."""
DECIDED_BEFORE_S = 0.005
"""A decision is in force up to so much before the time in its record, by the clock of the captures."""
Decided = tuple[float, int]
"""(run time in seconds, DSCP) of a decision on one flow."""


@dataclass(frozen=True, slots=True)
class RunClock:
    """From the captures' clock (realtime) to seconds since the run's zero, linear between two readings."""

    realtime_ns: int
    run_s: float
    rate: float
    """Seconds of the run per second of realtime; not 1 where the realtime clock was slewed in mid-run."""

    @staticmethod
    def of(run: RunOutcome) -> RunClock:
        """The clock of a run (InputError if it has no clock readings or no zero)."""
        zero_s = run.zero_monotonic_s
        if not run.clock or zero_s is None:
            raise InputError(f"run {run.label}: run.json has no clock readings or no zero; it never started")
        begin, end = run.clock[0], run.clock[-1]
        real_s, mono_s = end.realtime_s - begin.realtime_s, end.monotonic_s - begin.monotonic_s
        rate = mono_s / real_s if real_s > 0 else 1.0
        return RunClock(round(begin.realtime_s * 1e9), begin.monotonic_s - zero_s, rate)

    def run_times_s(self, time_ns: Int64s) -> Floats:
        """Run time of each capture time."""
        since_begin: Floats = (time_ns - self.realtime_ns).astype(np.float64)
        return since_begin * (1e-9 * self.rate) + self.run_s


@dataclass(frozen=True, slots=True)
class FlowPackets:
    """One iteration of one flow as seen on the wire; times are None where nothing (or not all) was seen.

    `start_s` is its first packet at the source, `finish_s` the moment at which the destination had seen
    all its bytes. `unique_bytes` are those seen at the destination. What was retransmitted is counted at the source.
    `source_dscp` and `dscp` give the unique bytes by mark at the source and at the destination.
    """

    start_s: float | None
    finish_s: float | None
    unique_bytes: int
    retransmitted_bytes: int
    retransmitted_segments: int
    source_dscp: Mapping[int, int]
    dscp: Mapping[int, int]
    last_dscp: int | None
    """The mark of the byte that the destination saw last."""
    source_bytes: int | None = None
    """Bytes seen at the source, each counted once."""
    came_s: float | None = None
    """When the destination saw the first of its bytes."""
    disobedient_bytes: int = 0
    """Bytes that arrived with another mark than was in force for the flow when they left the source."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """One iteration of a stream in one capture."""

    first_ns: int | None
    complete_ns: int | None
    unique_bytes: int
    again_bytes: int
    again_segments: int
    dscp: dict[int, int]
    last_dscp: int | None


_NOTHING = _Seen(None, None, 0, 0, 0, {}, None)


def flow_packets(
    source: Capture | None,
    destination: Capture | None,
    name: tuple[str, int, str, int],
    size_bytes: int,
    *,
    iterations: int,
    clock: RunClock,
    decided: Mapping[int, Sequence[Decided]] | None = None,
) -> list[FlowPackets]:
    """What two captures saw of each iteration of the flow whose connection is `name`.

    A capture that is missing (None) leaves what it would have told empty. `decided` are the marks of each iteration, in
    the order in which they came into force; without them nothing is disobedient.
    """
    left, came = (_pieces(capture, name, size_bytes, iterations) for capture in (source, destination))
    spans = [(k * size_bytes, (k + 1) * size_bytes) for k in range(iterations)]
    at_source, at_destination = (
        [_NOTHING if pieces is None else pieces.iteration(*span) for span in spans] for pieces in (left, came)
    )

    def run_s(time_ns: int | None) -> float | None:
        return None if time_ns is None else float(clock.run_times_s(np.array([time_ns], dtype=np.int64))[0])

    return [
        FlowPackets(
            start_s=run_s(sent.first_ns),
            finish_s=run_s(got.complete_ns),
            unique_bytes=got.unique_bytes,
            retransmitted_bytes=sent.again_bytes,
            retransmitted_segments=sent.again_segments,
            source_dscp=sent.dscp,
            dscp=got.dscp,
            last_dscp=got.last_dscp,
            source_bytes=sent.unique_bytes,
            came_s=run_s(got.first_ns),
            disobedient_bytes=_disobedient_bytes(left, came, spans[k], (decided or {}).get(k, ()), clock),
        )
        for k, (sent, got) in enumerate(zip(at_source, at_destination, strict=True))
    ]


def packets_of_run(
    record: RunRecord,
    plan: Plan,
    captures: Mapping[str, Capture],
    clock: RunClock,
    decided: Mapping[tuple[str, str], Mapping[int, Sequence[Decided]]] | None = None,
) -> dict[FlowKey, FlowPackets]:
    """What the captures saw of every flow of `record` at those of its two ends that were captured."""
    iterations = {job.name: job.iterations for job in plan.placed}
    connections = {(f.job, f.flow): f for f in record.flows}
    released = {(f.job, f.iteration, f.flow) for f in record.flows}
    found = {}
    for (job, flow), f in connections.items():
        if f.src_host not in captures or f.dst_host not in captures:
            continue
        name = (plan.addresses[f.src_host], f.src_port, plan.addresses[f.dst_host], f.dst_port)
        seen = flow_packets(
            captures[f.src_host], captures[f.dst_host], name, f.size_bytes,
            iterations=iterations[job], clock=clock, decided=(decided or {}).get((job, flow)),
        )  # fmt: skip
        found.update({key: s for i, s in enumerate(seen) if (key := (job, i, flow)) in released})
    return found


def _disobedient_bytes(
    left: _Pieces | None, came: _Pieces | None, span: tuple[int, int], decided: Sequence[Decided], clock: RunClock
) -> int:
    """Bytes of `span` that arrived with a mark that was not in force within `OBEYED_WITHIN_S` before they left."""
    if left is None or came is None or not decided:
        return 0
    low, high = np.searchsorted(came.at, span)
    packets, width = came.first_packet[low:high], np.diff(came.at[low : high + 1])
    place = np.searchsorted(left.at, came.at[low:high], side="right") - 1
    inside = (place >= 0) & (place < left.first_packet.size) & (packets >= 0)
    packets, width, place = packets[inside], width[inside], place[inside]
    sent = left.first_packet[place]
    packets, width, sent = packets[sent >= 0], width[sent >= 0], sent[sent >= 0]
    sent_s = clock.run_times_s(left.stream.time_ns[sent])
    marks = came.stream.dscp[packets]
    obeys = np.zeros(packets.size, dtype=bool)
    ends_s = [*(time_s for time_s, _ in decided[1:]), np.inf]
    begins_s = [-np.inf, *(time_s for time_s, _ in decided[1:])]
    for (_, dscp), begin_s, end_s in zip(decided, begins_s, ends_s, strict=True):
        in_force = (sent_s >= begin_s - DECIDED_BEFORE_S) & (sent_s <= end_s + OBEYED_WITHIN_S)
        obeys |= in_force & (marks == dscp)
    return int(width[~obeys].sum())


@dataclass(frozen=True, slots=True)
class Throughput:
    """Payload that arrived at all hosts together during a part of a run, by DSCP."""

    edges_s: Floats
    """Bounds of the bins, since the beginning of the part."""
    rate_Bps: Mapping[int, Floats]


def throughput(
    captures: Mapping[str, Capture],
    addresses: Mapping[str, str],
    clock: RunClock,
    part_s: tuple[float, float],
    iterations: int,
) -> Throughput | None:
    """What arrived from the first to the second of `part_s` (run time), one of `iterations`; None if nothing did.

    The bins are as narrow as the captures allow: with fewer than `LEAST_SEGMENTS_PER_BIN` segments in each on average
    a picture would show segments, not rates.
    """
    # Every segment is in two captures, its source's and its destination's.
    segments = sum(stream.seq.size for capture in captures.values() for stream in capture.streams.values()) / 2
    bins = max(1, min(THROUGHPUT_BINS, int(segments / iterations / LEAST_SEGMENTS_PER_BIN)))
    start_s, finish_s = part_s
    edges_s = np.linspace(0.0, finish_s - start_s, bins + 1, dtype=np.float64)
    rates = throughput_Bps(captures, addresses, clock, edges_s + start_s)
    return Throughput(edges_s, rates) if rates else None


def throughput_Bps(
    captures: Mapping[str, Capture], addresses: Mapping[str, str], clock: RunClock, edges: Floats
) -> dict[int, Floats]:
    """Payload bytes per second that arrived at all hosts together, by DSCP, in the bins between `edges` (run time)."""
    found: dict[int, Floats] = {}
    for host, capture in captures.items():
        for (_, _, dst, _), stream in capture.streams.items():
            if dst != addresses[host]:
                continue
            times = clock.run_times_s(stream.time_ns)
            for mark in np.unique(stream.dscp):
                of_mark = stream.dscp == mark
                sums, _ = np.histogram(times[of_mark], edges, weights=stream.payload_bytes[of_mark])
                found[int(mark)] = found.get(int(mark), np.zeros(edges.size - 1)) + sums / np.diff(edges)
    return found


def _pieces(
    capture: Capture | None, name: tuple[str, int, str, int], size_bytes: int, iterations: int
) -> _Pieces | None:
    stream = capture.streams.get(name) if capture is not None else None
    return None if stream is None else _Pieces.of(stream, size_bytes, iterations)


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """A stream cut at every packet's and every iteration's bounds: piece i is bytes [at[i], at[i + 1])."""

    stream: TcpStream
    at: Int64s
    first_packet: Int64s
    """The packet that carried each piece first, -1 where none did."""
    times_seen: Int64s
    again: npt.NDArray[np.bool_]
    """Whether each packet carried any byte that an earlier one had carried."""

    @staticmethod
    def of(stream: TcpStream, size_bytes: int, iterations: int) -> _Pieces:
        end = stream.seq + stream.payload_bytes
        cuts = np.arange(iterations + 1, dtype=np.int64) * size_bytes
        at = np.unique(np.concatenate([stream.seq, end, cuts]))
        low, high = np.searchsorted(at, stream.seq), np.searchsorted(at, end)
        count = high - low
        packet = np.repeat(np.arange(count.size), count)
        piece = np.arange(packet.size) - np.repeat(np.cumsum(count) - count, count) + low[packet]
        first = np.full(at.size - 1, -1, dtype=np.int64)
        # Of several assignments to one place the last stands: backwards, that is the earliest packet.
        first[piece[::-1]] = packet[::-1]
        again = np.zeros(count.size, dtype=bool)
        again[packet[first[piece] != packet]] = True
        return _Pieces(stream, at, first, np.bincount(piece, minlength=at.size - 1), again)

    def iteration(self, begin: int, end: int) -> _Seen:
        """What was seen of the bytes [begin, end)."""
        low, high = np.searchsorted(self.at, [begin, end])
        first, width = self.first_packet[low:high], np.diff(self.at[low : high + 1])
        seen = first >= 0
        if not seen.any():
            return _NOTHING
        packets, seen_bytes = first[seen], width[seen]
        marks = self.stream.dscp[packets]
        by_mark = np.bincount(marks, weights=seen_bytes)
        twice = self.times_seen[low:high] - 1
        begins_here = (self.stream.seq >= begin) & (self.stream.seq < end)
        last = int(np.max(packets))
        return _Seen(
            first_ns=int(self.stream.time_ns[np.min(packets)]),
            complete_ns=int(self.stream.time_ns[last]) if seen.all() else None,
            unique_bytes=int(seen_bytes.sum()),
            again_bytes=int((np.maximum(twice, 0) * width).sum()),
            again_segments=int(np.count_nonzero(self.again & begins_here)),
            dscp={int(mark): int(by_mark[mark]) for mark in np.flatnonzero(by_mark)},
            last_dscp=int(self.stream.dscp[last]),
        )
