"""Counters of the timeline: what waits at every host, how fast it sends, and what arrives by class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from echelonflow.records.run_record import FlowRecord
from echelonflow.wire.classes import class_of_dscp
from results.analysis.shown import ShownRun

Counted = tuple[str, float, Mapping[str, float]]
"""Name of a counter, time in seconds, its values from then on."""
QUEUED, SENDING = "queued (kB)", "sending (Mbit/s, mean of each flow)"


def host_counters(flows: Sequence[FlowRecord]) -> dict[str, list[Counted]]:
    """By host: bytes that were released and have not arrived, and the sum of its flows' rates.

    Between a flow's first byte and its last it is taken to go at its mean rate: records tell no more.
    """
    found: dict[str, list[FlowRecord]] = defaultdict(list)
    for flow in flows:
        found[flow.src_host].append(flow)
    return {host: [*_of_host(mine)] for host, mine in sorted(found.items())}


def _of_host(flows: Sequence[FlowRecord]) -> Iterator[Counted]:
    # Changes at each moment: (bytes that come to wait, bytes per second from then on).
    changes: dict[float, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for flow in flows:
        changes[flow.release_s][0] += flow.size_bytes
        lasts_s = flow.finish_s - flow.start_s
        if lasts_s > 0:
            changes[flow.start_s][1] += flow.size_bytes / lasts_s
            changes[flow.finish_s][1] -= flow.size_bytes / lasts_s
        else:
            changes[flow.finish_s][0] -= flow.size_bytes
    waiting_bytes = rate_Bps = 0.0
    last_s: float | None = None
    for time_s in sorted(changes):
        more_bytes, more_Bps = changes[time_s]
        if last_s is not None:
            waiting_bytes -= rate_Bps * (time_s - last_s)
        waiting_bytes += more_bytes
        rate_Bps += more_Bps
        last_s = time_s
        yield QUEUED, time_s, {"kB": round(max(waiting_bytes, 0.0) / 1e3, 3)}
        yield SENDING, time_s, {"Mbit/s": round(max(rate_Bps, 0.0) * 8e-6, 3)}


def arrived_counters(run: ShownRun) -> Iterator[Counted]:
    """What arrived at all hosts together in the shown iteration, by class: Mbit/s; nothing where no packets were captured."""
    arrived = run.throughput
    if arrived is None:
        return
    edges_s = [run.window.start_s + float(edge) for edge in arrived.edges_s]
    for dscp, rate_Bps in sorted(arrived.rate_Bps.items(), key=lambda each: class_of_dscp(each[0])):
        name = f"class {class_of_dscp(dscp)} (DSCP {dscp})"
        for time_s, one_Bps in zip(edges_s, [*rate_Bps.tolist(), 0.0], strict=True):
            yield name, time_s, {"Mbit/s": round(one_Bps * 8e-6, 3)}
