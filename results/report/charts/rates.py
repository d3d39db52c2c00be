"""Throughput: of traffic classes, from the packets, and of links, from when flows were sent."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from echelonflow.model.arrays import Floats
from echelonflow.model.network import Network
from echelonflow.records.run_columns import FlowColumns
from echelonflow.records.run_record import FlowRecord
from echelonflow.wire.classes import class_of_dscp
from results.analysis.shown import ShownRun
from results.report.charts import Chart, rounded, short

BINS = 120
"""Of a window in time."""
MOST_LINKS = 40
"""The busiest ones are drawn."""
MOST_FLOWS = 200_000
"""Of a run; loads of links with more take too long to add up for a page."""


def class_rates(runs: Sequence[ShownRun]) -> list[Chart]:
    """What arrived at all hosts together in the shown iteration, by class; nothing where no packets were captured."""
    marks = sorted({d for run in runs if run.throughput for d in run.throughput.rate_Bps}, key=class_of_dscp)
    found: list[Chart] = []
    for run in runs:
        if run.throughput is None:
            continue
        rates = run.throughput.rate_Bps
        found.append(
            {
                "kind": "classes",
                "title": run.title,
                "edges": [short(edge) for edge in run.throughput.edges_s.tolist()],
                "classes": [
                    {
                        "name": f"class {class_of_dscp(dscp)} (DSCP {dscp})",
                        "place": marks.index(dscp) / max(len(marks) - 1, 1),
                        "mbps": [short(rate * 8e-6) for rate in rates[dscp].tolist()],
                    }
                    for dscp in marks
                    if dscp in rates
                ],
            }
        )
    return found


def link_loads(runs: Sequence[ShownRun], network: Network | None) -> list[Chart]:
    """How full each link was over the shown iteration; the busiest links of all runs, in the same order in each chart.

    A flow is taken to go at its mean rate from its first byte to its last, on the path that the network gives it.
    """
    if network is None or not runs or any(len(run.record.flows) > MOST_FLOWS for run in runs):
        return []
    loads = [_shares(run, network) for run in runs]
    busiest = np.max([found.mean(axis=1) for found in loads], axis=0)
    kept = [int(link) for link in np.argsort(-busiest, kind="stable")[:MOST_LINKS] if busiest[link] > 0]
    if not kept:
        return []
    return [
        {
            "kind": "links",
            "title": run.title,
            "links": [network.links[link].name for link in kept],
            "of_links": int((busiest > 0).sum()),
            "length": short(run.window.finish_s - run.window.start_s),
            "percent": [rounded(found[link] * 100, 1) for link in kept],
        }
        for run, found in zip(runs, loads, strict=True)
    ]


def _shares(run: ShownRun, network: Network) -> Floats:
    """Share of each link's capacity that was used in each bin of the window: links by `BINS`."""
    edges_s = np.linspace(run.window.start_s, run.window.finish_s, BINS + 1)
    by_path: dict[tuple[int, ...], list[tuple[float, float, float]]] = defaultdict(list)
    path_of = functools.cache(network.path)
    for src, dst, port, start_s, finish_s, size_bytes in _sent(run.record.flows):
        if start_s < edges_s[-1] and finish_s > edges_s[0]:
            by_path[path_of(src, dst, port)].append((start_s, finish_s, size_bytes))
    sent_bytes = np.zeros((len(network.links), BINS))
    for path, flows in by_path.items():
        sent_bytes[list(path)] += _sent_in_bins(np.array(flows), edges_s)
    return sent_bytes / (np.asarray(network.capacity_Bps)[:, None] * np.diff(edges_s))


def _sent(flows: Sequence[FlowRecord]) -> list[tuple[str, str, int, float, float, int]]:
    """Source, destination, source port, first and last byte in seconds, and bytes of every flow that finished."""
    if isinstance(flows, FlowColumns):
        steps = [(s.src_host, s.dst_host, s.src_port, s.size_bytes) for s in flows.steps]
        places = np.flatnonzero(flows.finish_s > flows.start_s)
        spans = zip(
            flows.step[places].tolist(), flows.start_s[places].tolist(), flows.finish_s[places].tolist(), strict=True
        )
        return [(*steps[step][:3], start_s, finish_s, steps[step][3]) for step, start_s, finish_s in spans]
    return [
        (f.src_host, f.dst_host, f.src_port, f.start_s, f.finish_s, f.size_bytes)
        for f in flows
        if f.finish_s > f.start_s
    ]


def _sent_in_bins(flows: Floats, edges_s: Floats) -> Floats:
    """Bytes of `flows` (start, finish, bytes) in each bin, at their mean rates."""
    start_s, finish_s, size_bytes = flows.T
    order_start, order_finish = np.argsort(start_s), np.argsort(finish_s)
    rate_Bps = size_bytes / (finish_s - start_s)

    def by_then(begin_s: Floats, rates_Bps: Floats) -> Floats:
        """Bytes by each edge if every flow began at `begin_s`, in order, and never ended."""
        places = np.searchsorted(begin_s, edges_s, side="right")
        rate = np.concatenate([[0.0], np.cumsum(rates_Bps)])[places]
        behind = np.concatenate([[0.0], np.cumsum(rates_Bps * begin_s)])[places]
        total: Floats = rate * edges_s - behind
        return total

    begun = by_then(start_s[order_start], rate_Bps[order_start])
    ended = by_then(finish_s[order_finish], rate_Bps[order_finish])
    return np.maximum(np.diff(begun - ended), 0.0)
