"""A trace of Coflows under SEBF and MADD, exactly, without building a snapshot at every event.

The same rule as policy `coflow` with its defaults (`echelonflow.scheduling.policies.coflow`, `echelonflow.scheduling.fill`; Varys, SIGCOMM
'14): tests hold the two to each other. Three things make it quick. A Coflow's flows lie side by side; MADD needs only a
Coflow's volume on each link, and a flow is touched once when spare capacity is shared out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling.fill import QUANTUM_S
from echelonflow.scheduling.trace_kernels import SIMULTANEOUS_S, TraceFlows
from echelonflow.scheduling.trace_kernels.jit import jit

_SPENT = 1e-9
"""As in `echelonflow.scheduling.fill`: share of a link's capacity below which what is left on it counts as nothing."""
_CANCELLED = 1e-4
"""Share of a sum below which it is summed afresh: what subtraction leaves of it may be rounding."""


class _Flows(NamedTuple):
    row: Ints
    """Those in flight: of each Coflow from its `first_flow` on. The other columns are by row."""
    left_bytes: Floats
    rate_Bps: Floats
    taking: Bools
    """Whether the flow takes spare capacity and has not got its share yet."""
    path_start: Ints
    hop_cell: Ints
    """A cell is one link of one Coflow."""


class _Coflows(NamedTuple):
    first_flow: Ints
    flows: Ints
    """In flight."""
    first_cell: Ints
    weight: Floats
    speed: Floats
    """Rate by bytes left (1/s) that MADD gives all flows."""


class _Cells(NamedTuple):
    """Those of a Coflow lie side by side."""

    link: Ints
    volume_bytes: Floats
    pull_bytes: Floats
    """Bytes left of the flows that take spare capacity, and their number."""
    taking: Ints


class _Links(NamedTuple):
    capacity_Bps: Floats
    left_Bps: Floats


class _Takers(NamedTuple):
    """Flows that take spare capacity, by cell of one Coflow, in compressed rows."""

    start: Ints
    row: Ints


def finish_times(trace: TraceFlows) -> tuple[Floats, int]:
    """When each flow ends in seconds (n), and the number of events."""
    paths, first_flow = trace.paths, trace.first_flow
    flows, coflows, links = len(trace.size_bytes), len(trace.arrival_s), len(trace.capacity_Bps)
    hop_flow = np.repeat(np.arange(flows), np.diff(paths.start))
    coflow = np.repeat(np.arange(coflows), np.diff(first_flow))
    cells, hop_cell = np.unique(coflow[hop_flow] * links + paths.link, return_inverse=True)
    first_cell = np.searchsorted(cells, np.arange(coflows + 1) * links)
    zeros = np.zeros(len(cells))
    takers = _Takers(
        np.zeros(int(np.diff(first_cell).max()) + 1, np.int64),
        np.zeros(int(np.diff(paths.start[first_flow]).max()), np.int64),
    )
    finish_s: Floats = np.empty(flows)
    events = _run(
        _Flows(
            np.arange(flows), trace.size_bytes.copy(), np.zeros(flows), np.zeros(flows, bool), paths.start, hop_cell
        ),
        _Coflows(first_flow, np.diff(first_flow), first_cell, trace.weight, np.zeros(coflows)),
        _Cells(cells % links, zeros, zeros.copy(), np.zeros(len(cells), np.int64)),
        _Links(trace.capacity_Bps, trace.capacity_Bps.copy()),
        takers,
        trace.arrival_s,
        np.argsort(trace.coflow_id),
        finish_s,
    )
    return finish_s, events


@jit
def _run(
    flows: _Flows,
    coflows: _Coflows,
    cells: _Cells,
    links: _Links,
    takers: _Takers,
    arrival_s: Floats,
    by_id: Ints,
    finish_s: Floats,
) -> int:
    """Fill `finish_s`; returns the number of events."""
    present = np.zeros(len(arrival_s), np.bool_)
    events, arrived, in_flight = 0, 0, 0
    now_s, ends_s = 0.0, math.inf
    while in_flight > 0 or arrived < len(arrival_s):
        next_s = min(ends_s, arrival_s[arrived]) if arrived < len(arrival_s) else ends_s
        for coflow in range(arrived):
            if present[coflow]:
                in_flight -= _move(flows, coflows, coflow, next_s - now_s, next_s, finish_s)
                present[coflow] = coflows.flows[coflow] > 0
        now_s = next_s
        events += 1
        while arrived < len(arrival_s) and arrival_s[arrived] <= now_s:
            present[arrived] = True
            in_flight += coflows.flows[arrived]
            arrived += 1
        order = _order(flows, coflows, cells, links, by_id[present[by_id]])
        links.left_Bps[:] = links.capacity_Bps
        for coflow in order:
            coflows.speed[coflow] = _least_rates(coflows, cells, links, coflow)
        shortest_s = math.inf
        for coflow in order:
            fastest = _set_rates(flows, coflows, cells, links, takers, coflow)
            if fastest > 0:
                shortest_s = min(shortest_s, 1 / fastest)
        ends_s = now_s + shortest_s
    return events


@jit
def _move(flows: _Flows, coflows: _Coflows, coflow: int, elapsed_s: float, now_s: float, finish_s: Floats) -> int:
    """Let time pass for a Coflow; returns how many of its flows have ended."""
    first, count = coflows.first_flow[coflow], coflows.flows[coflow]
    tolerance_s = max(SIMULTANEOUS_S, 1e-15 * now_s)
    kept = first
    for place in range(first, first + count):
        row = flows.row[place]
        rate = flows.rate_Bps[row]
        flows.left_bytes[row] -= rate * elapsed_s
        if rate > 0 and flows.left_bytes[row] <= rate * tolerance_s:
            finish_s[row] = now_s
        else:
            flows.row[kept] = row
            kept += 1
    coflows.flows[coflow] = kept - first
    return int(first + count - kept)


@jit
def _order(flows: _Flows, coflows: _Coflows, cells: _Cells, links: _Links, present: Ints) -> Ints:
    """The Coflows `present` (by id), smallest bottleneck first, then smallest id. Sets the volumes of cells."""
    key = np.empty(len(present))
    for i in range(len(present)):
        coflow = present[i]
        begin, end = coflows.first_cell[coflow], coflows.first_cell[coflow + 1]
        cells.volume_bytes[begin:end] = 0.0
        first = coflows.first_flow[coflow]
        for place in range(first, first + coflows.flows[coflow]):
            row = flows.row[place]
            for hop in range(flows.path_start[row], flows.path_start[row + 1]):
                cells.volume_bytes[flows.hop_cell[hop]] += flows.left_bytes[row]
        longest_s = 0.0
        for cell in range(begin, end):
            longest_s = max(longest_s, cells.volume_bytes[cell] / links.capacity_Bps[cells.link[cell]])
        key[i] = np.rint(longest_s / coflows.weight[coflow] / QUANTUM_S)
    return present[np.argsort(key, kind="mergesort")]


@jit
def _least_rates(coflows: _Coflows, cells: _Cells, links: _Links, coflow: int) -> float:
    """MADD: the speed (1/s) at which all of a Coflow's bytes can go together; takes it from the links."""
    begin, end = coflows.first_cell[coflow], coflows.first_cell[coflow + 1]
    speed = math.inf
    for cell in range(begin, end):
        if cells.volume_bytes[cell] > 0:
            link = cells.link[cell]
            if links.left_Bps[link] <= _SPENT * links.capacity_Bps[link]:
                return 0.0
            speed = min(speed, links.left_Bps[link] / cells.volume_bytes[cell])
    for cell in range(begin, end):
        if cells.volume_bytes[cell] > 0:
            link = cells.link[cell]
            links.left_Bps[link] = max(links.left_Bps[link] - cells.volume_bytes[cell] * speed, 0.0)
    return speed


@jit
def _set_rates(flows: _Flows, coflows: _Coflows, cells: _Cells, links: _Links, takers: _Takers, coflow: int) -> float:
    """Rates of a Coflow's flows, spare capacity included; returns the largest rate by bytes left (1/s)."""
    first, speed = coflows.first_flow[coflow], coflows.speed[coflow]
    begin, end = coflows.first_cell[coflow], coflows.first_cell[coflow + 1]
    some_open = False
    for cell in range(begin, end):
        cells.pull_bytes[cell] = 0.0
        cells.taking[cell] = 0
        link = cells.link[cell]
        some_open = some_open or links.left_Bps[link] > _SPENT * links.capacity_Bps[link]
    taking = 0
    for place in range(first, first + coflows.flows[coflow]):
        row = flows.row[place]
        flows.rate_Bps[row] = flows.left_bytes[row] * speed
        is_open = some_open
        for hop in range(flows.path_start[row], flows.path_start[row + 1]):
            link = cells.link[flows.hop_cell[hop]]
            is_open = is_open and links.left_Bps[link] > _SPENT * links.capacity_Bps[link]
        flows.taking[row] = is_open
        if is_open:
            taking += 1
            for hop in range(flows.path_start[row], flows.path_start[row + 1]):
                cells.pull_bytes[flows.hop_cell[hop]] += flows.left_bytes[row]
                cells.taking[flows.hop_cell[hop]] += 1
    if taking == 0:
        return float(speed)
    _list_takers(flows, coflows, cells, takers, coflow)
    return float(speed + _share_spare(flows, coflows, cells, links, takers, coflow, taking))


@jit
def _list_takers(flows: _Flows, coflows: _Coflows, cells: _Cells, takers: _Takers, coflow: int) -> None:
    """List by cell the flows that take spare capacity; their numbers are known already."""
    first, begin = coflows.first_flow[coflow], coflows.first_cell[coflow]
    takers.start[0] = 0
    for cell in range(begin, coflows.first_cell[coflow + 1]):
        takers.start[cell - begin + 1] = takers.start[cell - begin] + cells.taking[cell]
        cells.taking[cell] = 0
    for place in range(first, first + coflows.flows[coflow]):
        row = flows.row[place]
        if flows.taking[row]:
            for hop in range(flows.path_start[row], flows.path_start[row + 1]):
                cell = flows.hop_cell[hop]
                takers.row[takers.start[cell - begin] + cells.taking[cell]] = row
                cells.taking[cell] += 1


@jit
def _share_spare(
    flows: _Flows, coflows: _Coflows, cells: _Cells, links: _Links, takers: _Takers, coflow: int, taking: int
) -> float:
    """Max-min fair shares by bytes left for the `taking` takers; returns the largest (1/s)."""
    begin, end = coflows.first_cell[coflow], coflows.first_cell[coflow + 1]
    level = 0.0
    while taking > 0:
        rise = math.inf
        for cell in range(begin, end):
            if cells.taking[cell] > 0:
                rise = min(rise, links.left_Bps[cells.link[cell]] / cells.pull_bytes[cell])
        level += rise
        for cell in range(begin, end):
            if cells.taking[cell] > 0:
                link = cells.link[cell]
                links.left_Bps[link] = max(links.left_Bps[link] - cells.pull_bytes[cell] * rise, 0.0)
        for cell in range(begin, end):
            link = cells.link[cell]
            if cells.taking[cell] > 0 and links.left_Bps[link] <= _SPENT * links.capacity_Bps[link]:
                taking -= _stop(flows, cells, takers, begin, cell, level)
    return level


@jit
def _stop(flows: _Flows, cells: _Cells, takers: _Takers, begin: int, full: int, level: float) -> int:
    """Give the takers of a cell whose link is full their share, once for all; returns how many there were."""
    stopped = 0
    for i in range(takers.start[full - begin], takers.start[full - begin + 1]):
        row = takers.row[i]
        if not flows.taking[row]:
            continue
        flows.taking[row] = False
        flows.rate_Bps[row] += flows.left_bytes[row] * level
        stopped += 1
        for hop in range(flows.path_start[row], flows.path_start[row + 1]):
            cell = flows.hop_cell[hop]
            cells.taking[cell] -= 1
            cells.pull_bytes[cell] -= flows.left_bytes[row]
            if cells.pull_bytes[cell] < _CANCELLED * cells.volume_bytes[cell]:
                cells.pull_bytes[cell] = _pull_bytes(flows, takers, cell - begin)
    return stopped


@jit
def _pull_bytes(flows: _Flows, takers: _Takers, place: int) -> float:
    """Bytes left of the takers of a cell, summed afresh."""
    total = 0.0
    for i in range(takers.start[place], takers.start[place + 1]):
        if flows.taking[takers.row[i]]:
            total += flows.left_bytes[takers.row[i]]
    return total
