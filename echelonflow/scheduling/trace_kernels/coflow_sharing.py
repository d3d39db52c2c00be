"""A trace of Coflows under MADD, exactly, without building a snapshot at every event.

The rule is `echelonflow.scheduling.fill.serve_in_order` (Varys, SIGCOMM '14), or its paced kin, in whatever order of
Coflows the form says. Three things make it quick. A Coflow's flows lie side by side; MADD needs only a Coflow's volume
on each link; and Coflows that wait cost nothing until a link of theirs has something left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling.forms import Form
from echelonflow.scheduling.trace_kernels import SIMULTANEOUS_S, Ended, TraceFlows
from echelonflow.scheduling.trace_kernels.jit import inner, jit
from echelonflow.scheduling.trace_kernels.layout import layout_of
from echelonflow.scheduling.trace_kernels.max_min import Shares, share_by_weight, shares_for
from echelonflow.scheduling.trace_kernels.order import sort_coflows
from echelonflow.scheduling.trace_kernels.orders import (
    BOTTLENECK,
    FLOWS,
    LEFT,
    MOST_LEFT,
    NEVER,
    NOTHING,
    TARDINESS,
    Order,
    order_of,
)  # fmt: skip

_SPENT = 1e-9
"""As in `echelonflow.scheduling.fill`: share of a link's capacity below which what is left on it counts as nothing."""
_SOON_S = 1e-9
"""A group that must end sooner is paced as if it had so long."""


class _Flows(NamedTuple):
    """Flows of a Coflow lie side by side, those with the same first link next to each other: a *bundle*."""

    row: Ints
    """Those in flight: of each bundle from its first place on. The other columns are by row."""
    left_bytes: Floats
    rate_Bps: Floats
    path_start: Ints
    hop_cell: Ints
    """A cell is one link of one Coflow."""


class _Bundles(NamedTuple):
    first_place: Ints
    flows: Ints
    cell: Ints
    """That of the link that its flows share."""


class _Coflows(NamedTuple):
    first_flow: Ints
    first_bundle: Ints
    flows: Ints
    """In flight."""
    first_cell: Ints
    speed: Floats
    """Rate by bytes left (1/s) that MADD gives all flows."""
    bottleneck_s: Floats
    moves: Bools
    """Whether a flow has a rate."""
    fresh: Bools
    """Whether volumes and key are to be made anew."""
    keys: Ints
    """4 rows of c: what it is ordered by."""
    all_move: Bools
    """Whether all flows have one; else those that do are listed."""
    movers: Ints
    """Rows: of each Coflow from its `first_flow` on."""
    moving: Ints
    """How many are listed."""


class _Cells(NamedTuple):
    """Those of a Coflow lie side by side."""

    link: Ints
    volume_bytes: Floats


class _Links(NamedTuple):
    capacity_Bps: Floats
    spent_Bps: Floats
    left_Bps: Floats


def finish_times(form: Form, trace: TraceFlows) -> Ended | None:
    """When each flow ends in seconds (n), and the number of events; None where its order is not one of Coflows."""
    whole = order_of(form, trace)
    if whole is None or form.serve not in {"madd", "paced"}:
        return None
    sets = _sets(whole)
    if sets is None or (len(sets) < len(trace.arrival_s) and form.serve == "paced"):
        return None
    order = whole._replace(**{name: getattr(whole, name)[sets] for name in _BY_COFLOW})
    first_flow = np.append(trace.first_flow[:-1][sets], trace.first_flow[-1])
    paced = form.serve == "paced"
    # Pacing goes by id, so flows stay in that order: each Coflow is one bundle there, which counts as open.
    laid = layout_of(trace, first_flow, keep_order=paced)
    flows, count = len(trace.size_bytes), len(sets)
    ended_s: Floats = np.empty(flows)
    events = _run(
        _Flows(np.arange(flows), laid.size_bytes, np.zeros(flows), laid.paths.start, laid.hop_cell),
        _Bundles(laid.bundle_start, laid.bundle_flows, laid.bundle_cell),
        _Coflows(
            first_flow, laid.first_bundle, np.diff(first_flow), laid.first_cell, np.zeros(count), np.zeros(count),
            np.zeros(count, np.bool_), np.ones(count, np.bool_), np.zeros((4, count), np.int64),
            np.zeros(count, np.bool_), np.zeros(flows, np.int64), np.zeros(count, np.int64),
        ),
        _Cells(laid.cell_link, laid.cell_bytes),
        _Links(trace.capacity_Bps, _SPENT * trace.capacity_Bps, trace.capacity_Bps.copy()),
        shares_for(*laid.most()),
        order,
        paced,
        ended_s,
    )  # fmt: skip
    finish_s: Floats = np.empty(flows)
    finish_s[laid.flow] = ended_s
    return finish_s, events


_BY_COFLOW = ("before", "weight", "after", "arrival_s", "overdue_s", "overdue")


def _sets(order: Order) -> Ints | None:
    """The first Coflow of each set that shares a place; None where one's Coflows do not arrive together."""
    place = order.after
    if order.measure != NOTHING:
        return np.arange(len(place)) if len(np.unique(place)) == len(place) else None
    new = np.concatenate(([True], place[1:] != place[:-1]))
    if len(np.unique(place)) < int(new.sum()) or np.any(
        order.arrival_s[1:][~new[1:]] != order.arrival_s[:-1][~new[1:]]
    ):
        return None
    return np.flatnonzero(new)


@jit
def _run(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, links: _Links, shares: Shares, order: Order,
    paced: bool, finish_s: Floats,
) -> int:  # fmt: skip
    """Fill `finish_s`; returns the number of events."""
    arrivals = len(order.arrival_s)
    line = np.empty(arrivals, np.int64)
    present, arrived, events, now_s, ends_s = 0, 0, 0, 0.0, math.inf
    while present > 0 or arrived < arrivals:
        next_s = min(ends_s, order.arrival_s[arrived]) if arrived < arrivals else ends_s
        kept = 0
        for i in range(present):
            if coflows.moves[line[i]]:
                _move(flows, bundles, coflows, cells, line[i], next_s - now_s, next_s, finish_s)
            if coflows.flows[line[i]] > 0:
                line[kept] = line[i]
                kept += 1
        present, now_s = kept, next_s
        events += 1
        while arrived < arrivals and order.arrival_s[arrived] <= now_s:
            _sum_up(flows, bundles, coflows, cells, arrived)
            line[present] = arrived
            present += 1
            arrived += 1
        ends_s = math.inf
        for i in range(present):
            _set_keys(flows, bundles, coflows, cells, links, order, line[i], now_s)
            if now_s < order.overdue_s[line[i]]:
                ends_s = min(ends_s, order.overdue_s[line[i]])
        sort_coflows(coflows.keys, line, present)
        links.left_Bps[:] = links.capacity_Bps
        for i in range(present):
            if paced:
                _pace(flows, bundles, coflows, cells, links, line[i])
            else:
                coflows.speed[line[i]] = _least_rates(coflows, cells, links, line[i])
        for i in range(present):
            fastest = _set_rates(flows, bundles, coflows, cells, links, shares, paced, line[i])
            if fastest > 0:
                ends_s = min(ends_s, now_s + 1 / fastest)
    return events


@inner
def _move(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, coflow: int, elapsed_s: float, now_s: float,
    finish_s: Floats,
) -> None:  # fmt: skip
    """Let time pass for a Coflow that moves, and end the flows that have run empty."""
    if not coflows.all_move[coflow] and not _move_some(flows, coflows, cells, coflow, elapsed_s, now_s):
        return
    tolerance_s = max(SIMULTANEOUS_S, 1e-15 * now_s)
    if not coflows.all_move[coflow]:
        elapsed_s = 0.0  # some have been moved, and one of them ends
    for bundle in range(coflows.first_bundle[coflow], coflows.first_bundle[coflow + 1]):
        begin = kept = bundles.first_place[bundle]
        for place in range(begin, begin + bundles.flows[bundle]):
            row = flows.row[place]
            rate = flows.rate_Bps[row]
            left = flows.left_bytes[row] - rate * elapsed_s
            flows.left_bytes[row] = left
            if rate > 0 and left <= rate * tolerance_s:
                finish_s[row] = now_s
                coflows.flows[coflow] -= 1
                continue
            flows.row[kept] = row
            kept += 1
        bundles.flows[bundle] = kept - begin
    _sum_up(flows, bundles, coflows, cells, coflow)


@inner
def _move_some(
    flows: _Flows, coflows: _Coflows, cells: _Cells, coflow: int, elapsed_s: float, now_s: float
) -> bool:  # fmt: skip
    """Let time pass for the flows that are listed; returns whether one has run empty."""
    tolerance_s, ends = max(SIMULTANEOUS_S, 1e-15 * now_s), False
    first = coflows.first_flow[coflow]
    for i in range(first, first + coflows.moving[coflow]):
        row = coflows.movers[i]
        sent = flows.rate_Bps[row] * elapsed_s
        flows.left_bytes[row] -= sent
        ends = ends or flows.left_bytes[row] <= flows.rate_Bps[row] * tolerance_s
        for hop in range(flows.path_start[row], flows.path_start[row + 1]):
            cells.volume_bytes[flows.hop_cell[hop]] -= sent
    return ends


@inner
def _sum_up(flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, coflow: int) -> None:
    """Add up afresh what a Coflow has left on each link."""
    cells.volume_bytes[coflows.first_cell[coflow] : coflows.first_cell[coflow + 1]] = 0.0
    for bundle in range(coflows.first_bundle[coflow], coflows.first_bundle[coflow + 1]):
        begin = bundles.first_place[bundle]
        for place in range(begin, begin + bundles.flows[bundle]):
            row = flows.row[place]
            for hop in range(flows.path_start[row], flows.path_start[row + 1]):
                cells.volume_bytes[flows.hop_cell[hop]] += flows.left_bytes[row]


@inner
def _set_keys(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, links: _Links, order: Order, coflow: int,
    now_s: float,
) -> None:  # fmt: skip
    """What a Coflow is ordered by now."""
    coflows.keys[0, coflow] = order.overdue[coflow] if order.overdue_s[coflow] <= now_s else NEVER
    coflows.keys[1, coflow] = order.before[coflow]
    coflows.keys[3, coflow] = order.after[coflow]
    if coflows.fresh[coflow] or coflows.moves[coflow]:
        longest_s = 0.0
        for cell in range(coflows.first_cell[coflow], coflows.first_cell[coflow + 1]):
            longest_s = max(longest_s, cells.volume_bytes[cell] / links.capacity_Bps[cells.link[cell]])
        coflows.bottleneck_s[coflow] = longest_s
    elif order.measure != TARDINESS:
        return
    coflows.fresh[coflow] = False
    if order.measure == NOTHING:
        return
    value = coflows.bottleneck_s[coflow]
    if order.measure == TARDINESS:
        value += now_s - order.arrival_s[coflow]
    elif order.measure == FLOWS:
        value = float(coflows.flows[coflow])
    elif order.measure != BOTTLENECK:
        value = _bytes_left(flows, bundles, coflows, order.measure, coflow)
    coflows.keys[2, coflow] = np.int64(np.rint(value / order.weight[coflow] / order.unit))


@inner
def _bytes_left(flows: _Flows, bundles: _Bundles, coflows: _Coflows, measure: int, coflow: int) -> float:
    found = 0.0
    for bundle in range(coflows.first_bundle[coflow], coflows.first_bundle[coflow + 1]):
        begin = bundles.first_place[bundle]
        for place in range(begin, begin + bundles.flows[bundle]):
            left = flows.left_bytes[flows.row[place]]
            if measure == MOST_LEFT:
                found = max(found, left)
            elif measure == LEFT:
                found += left
    return found


@inner
def _least_rates(coflows: _Coflows, cells: _Cells, links: _Links, coflow: int) -> float:
    """MADD: the speed (1/s) at which all of a Coflow's bytes can go together; takes it from the links."""
    begin, end = coflows.first_cell[coflow], coflows.first_cell[coflow + 1]
    speed = math.inf
    for cell in range(begin, end):
        if cells.volume_bytes[cell] > 0:
            link = cells.link[cell]
            if links.left_Bps[link] <= links.spent_Bps[link]:
                return 0.0
            speed = min(speed, links.left_Bps[link] / cells.volume_bytes[cell])
    for cell in range(begin, end):
        if cells.volume_bytes[cell] > 0:
            link = cells.link[cell]
            links.left_Bps[link] = max(links.left_Bps[link] - cells.volume_bytes[cell] * speed, 0.0)
    return speed


@inner
def _pace(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, links: _Links, coflow: int
) -> None:  # fmt: skip
    """Each flow, by id, the least rate that ends it in the time that its Coflow needs alone."""
    in_s = max(coflows.bottleneck_s[coflow], _SOON_S)
    first = coflows.first_flow[coflow]
    coflows.speed[coflow] = 0.0
    for place in range(first, first + bundles.flows[coflows.first_bundle[coflow]]):
        row = flows.row[place]
        rate = flows.left_bytes[row] / in_s
        for hop in range(flows.path_start[row], flows.path_start[row + 1]):
            rate = min(rate, links.left_Bps[cells.link[flows.hop_cell[hop]]])
        rate = max(rate, 0.0)
        for hop in range(flows.path_start[row], flows.path_start[row + 1]):
            links.left_Bps[cells.link[flows.hop_cell[hop]]] -= rate
        flows.rate_Bps[row] = rate
        coflows.speed[coflow] = max(coflows.speed[coflow], rate / flows.left_bytes[row])


@inner
def _set_rates(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, links: _Links, shares: Shares, paced: bool,
    coflow: int,
) -> float:  # fmt: skip
    """Rates of a Coflow's flows, spare capacity included; returns the largest rate by bytes left (1/s)."""
    first = coflows.first_flow[coflow]
    begin, end = coflows.first_cell[coflow], coflows.first_cell[coflow + 1]
    speed, some_open = coflows.speed[coflow], False
    for cell in range(begin, end):
        k, link = cell - begin, cells.link[cell]
        shares.left_Bps[k] = max(links.left_Bps[link], 0.0)
        shares.spent_Bps[k] = links.spent_Bps[link]
        shares.crowd[k] = 0
        some_open = some_open or shares.left_Bps[k] > shares.spent_Bps[k]
    if speed == 0.0 and not paced:  # else all rates are set anew
        if coflows.all_move[coflow]:
            for place in range(first, coflows.first_flow[coflow + 1]):
                flows.rate_Bps[flows.row[place]] = 0.0
        for i in range(first, first + coflows.moving[coflow]):
            flows.rate_Bps[coflows.movers[i]] = 0.0
    coflows.all_move[coflow] = speed > 0
    takers, known = 0, 0 if paced else 1  # that a bundle's own link is open is known
    for bundle in range(coflows.first_bundle[coflow], coflows.first_bundle[coflow + 1]):
        k = bundles.cell[bundle] - begin
        is_open = some_open and (paced or shares.left_Bps[k] > shares.spent_Bps[k])
        place = bundles.first_place[bundle]
        if speed > 0.0 and not paced:
            for at in range(place, place + bundles.flows[bundle]):
                flows.rate_Bps[flows.row[at]] = flows.left_bytes[flows.row[at]] * speed
        if not is_open:
            continue
        for at in range(place, place + bundles.flows[bundle]):
            row, takes = flows.row[at], True
            for hop in range(flows.path_start[row] + known, flows.path_start[row + 1]):
                k = flows.hop_cell[hop] - begin
                takes = takes and shares.left_Bps[k] > shares.spent_Bps[k]
            if takes:
                coflows.movers[first + takers] = row
                takers += 1
                for hop in range(flows.path_start[row], flows.path_start[row + 1]):
                    shares.crowd[flows.hop_cell[hop] - begin] += 1
    coflows.moving[coflow] = takers
    coflows.moves[coflow] = speed > 0 or takers > 0
    level = 0.0
    if takers > 0:
        level = share_by_weight(
            shares, coflows.movers[first : first + takers], flows.left_bytes, flows.path_start, flows.hop_cell, begin,
            end - begin, flows.rate_Bps,
        )  # fmt: skip
        for cell in range(begin, end):
            links.left_Bps[cells.link[cell]] = shares.left_Bps[cell - begin]
    if not paced:
        return float(speed + level)
    fastest = 0.0
    for place in range(first, first + bundles.flows[coflows.first_bundle[coflow]]):
        fastest = max(fastest, flows.rate_Bps[flows.row[place]] / flows.left_bytes[flows.row[place]])
    return fastest
