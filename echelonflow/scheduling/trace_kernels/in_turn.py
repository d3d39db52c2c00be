"""A trace of Coflows served one after the other, each taking what it can use: exactly, and only what changes is redone.

The flows of a Coflow share max-min fairly what the Coflows before it left (`echelonflow.scheduling.greedy`). A Coflow
whose own flows are the same, and that finds the same left on its links as before, keeps its rates: it is passed over.
Its bytes are brought up to date only when its rates change. What happens at one end of a network so costs nothing at the
other.

With queues (Aalo) there are two rounds. In the first every queue has a share of each link to itself, a *lane*. In the
second Coflows take in order what that left. Other policies have one round, and one lane.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling.fill import QUANTUM_S
from echelonflow.scheduling.forms import Form
from echelonflow.scheduling.trace_kernels import SIMULTANEOUS_S, Ended, TraceFlows
from echelonflow.scheduling.trace_kernels.bssi import Demand, demand_of, set_places
from echelonflow.scheduling.trace_kernels.jit import inner, jit
from echelonflow.scheduling.trace_kernels.layout import Layout, layout_of
from echelonflow.scheduling.trace_kernels.max_min import Shares, share_out, shares_for
from echelonflow.scheduling.trace_kernels.order import sort_coflows
from echelonflow.scheduling.trace_kernels.orders import (
    BOTTLENECK,
    BSSI,
    FLOWS,
    LEFT,
    MOST_LEFT,
    NEVER,
    NOTHING,
    QUEUE,
    TARDINESS,
    Order,
    order_of,
)  # fmt: skip

_SPENT = 1e-9
"""As in `echelonflow.scheduling.fill`: share of a link's capacity below which what is left on it counts as nothing."""
_WORD = 64


class _Flows(NamedTuple):
    """Flows of a Coflow lie side by side, those with the same first link next to each other: a *bundle*."""

    row: Ints
    """Those in flight: of each bundle from its first place on."""
    last_cell: Ints
    """By place in `row`: the cell of the last link on that flow's way. The other columns are by row."""
    place: Ints
    """Where a flow is in `row`; -1 when it has ended."""
    bundle: Ints
    left_bytes: Floats
    path_start: Ints
    hop_cell: Ints
    """A cell is one link of one Coflow."""


class _Bundles(NamedTuple):
    first_row: Ints
    flows: Ints
    cell: Ints
    """That of the link that its flows share."""


class _Coflows(NamedTuple):
    first_row: Ints
    first_bundle: Ints
    first_cell: Ints
    flows: Ints
    """In flight."""
    moved_s: Floats
    """For when its bytes are right."""
    ends_s: Floats
    """When its first flow ends at the rates that are."""
    left_bytes: Floats
    size_bytes: Floats
    lane: Ints
    links: Ints
    """A set of links for each Coflow, in words of bits."""
    dirty: Bools
    """Whether its flows are other than when its rates were set."""
    keys: Ints
    """4 rows of c: what it is ordered by."""


class _Cells(NamedTuple):
    """Those of a Coflow lie side by side."""

    link: Ints
    flows: Ints
    left_bytes: Floats
    is_open: Bools
    """For the Coflow whose rates are being set: whether anything is left there."""


class _Round(NamedTuple):
    """One way through all Coflows in their order."""

    found_Bps: Floats
    """By cell: what the Coflow found left there, and what it left, when its rates were set."""
    leaves_Bps: Floats
    rate_Bps: Floats
    """By row."""
    moving: Ints
    """Rows with a rate: of each Coflow from its first row on."""
    movers: Ints
    """By Coflow, how many."""
    now_Bps: Floats
    """By lane and link: what is left there, as far as the way has come. Counts where the bit in `differs` is set."""
    differs: Ints
    """Links of each lane, in words of bits, where something else may be left than last time."""


class _Links(NamedTuple):
    capacity_Bps: Floats
    spent_Bps: Floats
    coflows: Ints
    """By lane and link, those that have flows there."""
    share_Bps: Floats
    """By lane and link: the lane's part of the link."""


def finish_times(form: Form, trace: TraceFlows) -> Ended | None:
    """When each flow ends in seconds (n), and the number of events; None where its order is not one of Coflows."""
    order = order_of(form, trace)
    if order is None or form.serve not in {"greedy", "queues"} or form.pull != "equal":
        return None
    if form.serve == "greedy" and len(np.unique(order.after)) < len(order.after) and order.measure != BSSI:
        return None
    lanes = len(form.limits_bytes) + 1
    queues = form.serve == "queues"
    flows, coflows, links = len(trace.size_bytes), len(trace.arrival_s), len(trace.capacity_Bps)
    laid = layout_of(trace, trace.first_flow)
    cells, words = len(laid.cell_link), (links + _WORD - 1) // _WORD
    sizes = np.add.reduceat(trace.size_bytes, trace.first_flow[:-1]).astype(np.float64)
    whole, ended_s = trace.capacity_Bps, np.empty(flows)
    events = _run(
        _Flows(
            np.arange(flows), laid.hop_cell[laid.paths.start[1:] - 1], np.arange(flows), laid.bundle, laid.size_bytes,
            laid.paths.start, laid.hop_cell,
        ),
        _Bundles(laid.bundle_start, laid.bundle_flows, laid.bundle_cell),
        _Coflows(
            trace.first_flow, laid.first_bundle, laid.first_cell, np.diff(trace.first_flow),
            trace.arrival_s.copy(), np.full(coflows, math.inf), sizes, sizes.copy(), np.zeros(coflows, np.int64),
            _sets_of_links(laid, words), np.zeros(coflows, np.bool_), np.zeros((4, coflows), np.int64),
        ),
        _Cells(laid.cell_link, np.bincount(laid.hop_cell), laid.cell_bytes, np.zeros(cells, np.bool_)),
        _round(flows, coflows, cells, lanes * links, lanes * words),
        _round(flows if queues else 1, coflows, cells, links, words),
        _Links(whole, _SPENT * whole, np.zeros(lanes * links, np.int64), np.tile(whole, lanes)),
        order,
        demand_of(trace.coflow_id, trace.weight, cells, links),
        shares_for(*laid.most()),
        queues,
        ended_s,
    )  # fmt: skip
    finish_s: Floats = np.empty(flows)
    finish_s[laid.flow] = ended_s
    return finish_s, events


def _sets_of_links(laid: Layout, words: int) -> Ints:
    """The links of each Coflow as bits."""
    coflow = np.repeat(np.arange(len(laid.first_cell) - 1), np.diff(laid.first_cell))
    bits = np.zeros((len(laid.first_cell) - 1) * words, np.uint64)
    bit = np.uint64(1) << (laid.cell_link % _WORD).astype(np.uint64)
    np.bitwise_or.at(bits, coflow * words + laid.cell_link // _WORD, bit)
    return bits.view(np.int64)


def _round(rows: int, coflows: int, cells: int, links: int, words: int) -> _Round:
    return _Round(
        np.zeros(cells), np.zeros(cells), np.zeros(rows), np.zeros(rows, np.int64), np.zeros(coflows, np.int64),
        np.zeros(links), np.zeros(words, np.int64),
    )  # fmt: skip


@jit
def _run(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, first: _Round, second: _Round, links: _Links,
    order: Order, demand: Demand, shares: Shares, queues: bool, finish_s: Floats,
) -> int:  # fmt: skip
    """Fill `finish_s`; returns the number of events."""
    arrivals = len(order.arrival_s)
    line = np.empty(arrivals, np.int64)
    before = np.empty(arrivals, np.int64)
    present, arrived, events, now_s, expires_s = 0, 0, 0, 0.0, math.inf
    while present > 0 or arrived < arrivals:
        now_s = expires_s
        for i in range(present):
            now_s = min(now_s, coflows.ends_s[line[i]])
        if arrived < arrivals:
            now_s = min(now_s, order.arrival_s[arrived])
        events += 1
        tolerance_s = max(SIMULTANEOUS_S, 1e-15 * now_s)
        before[:present] = line[:present]
        were = present
        for i in range(present):
            if coflows.ends_s[line[i]] <= now_s + tolerance_s:
                _advance(flows, coflows, cells, first, second, queues, line[i], now_s)
                _retire(flows, bundles, coflows, cells, first, second, links, queues, line[i], now_s, finish_s)
        while arrived < arrivals and order.arrival_s[arrived] <= now_s:
            _arrive(coflows, cells, links, arrived)
            line[present] = arrived
            present += 1
            arrived += 1
        moved_lane = _set_keys(
            flows, bundles, coflows, cells, first, second, links, order, queues, line, present, now_s
        )
        if order.measure == BSSI:
            for i in range(present):
                if first.movers[line[i]] > 0:
                    _advance(flows, coflows, cells, first, second, queues, line[i], now_s)
            set_places(
                demand, coflows.flows, coflows.first_cell, cells.link, cells.flows, cells.left_bytes,
                links.capacity_Bps, line, present, coflows.keys[1],
            )  # fmt: skip
        sort_coflows(coflows.keys, line, present)
        same = were == present and not moved_lane
        for i in range(present):
            same = same and line[i] == before[i]
        _begin(first, links, queues, same)
        for number in range(2 if queues else 1):  # one call, or it is compiled twice
            if number == 1:
                _begin_second(coflows, cells, first, second, links, line, present, same)
            _serve(
                flows, bundles, coflows, cells, first, second, second if number == 1 else first, links, shares, queues,
                line, present, now_s, same, number == 1,
            )  # fmt: skip
        expires_s = math.inf
        kept = 0
        for i in range(present):
            coflow = line[i]
            if coflows.dirty[coflow]:
                coflows.dirty[coflow] = False
                coflows.ends_s[coflow] = _first_end_s(flows, coflows, first, second, queues, coflow, now_s)
            if coflows.flows[coflow] > 0:
                line[kept] = coflow
                kept += 1
                if now_s < order.overdue_s[coflow]:
                    expires_s = min(expires_s, order.overdue_s[coflow])
                if queues:
                    expires_s = min(expires_s, _crosses_s(coflows, cells, first, second, bundles, order, coflow, now_s))
        present = kept
    return events


@inner
def _advance(
    flows: _Flows, coflows: _Coflows, cells: _Cells, first: _Round, second: _Round, queues: bool, coflow: int, now_s: float
) -> None:  # fmt: skip
    """Bring a Coflow's bytes up to date."""
    elapsed_s = now_s - coflows.moved_s[coflow]
    coflows.moved_s[coflow] = now_s
    if elapsed_s <= 0.0:
        return
    begin = coflows.first_row[coflow]
    for i in range(begin, begin + first.movers[coflow]):
        row = first.moving[i]
        sent = first.rate_Bps[row] * elapsed_s
        flows.left_bytes[row] -= sent
        coflows.left_bytes[coflow] -= sent
    for cell in range(coflows.first_cell[coflow], coflows.first_cell[coflow + 1]):
        cells.left_bytes[cell] -= (first.found_Bps[cell] - first.leaves_Bps[cell]) * elapsed_s
    if queues:
        for i in range(begin, begin + second.movers[coflow]):
            row = second.moving[i]
            sent = second.rate_Bps[row] * elapsed_s
            flows.left_bytes[row] -= sent
            coflows.left_bytes[coflow] -= sent
        for cell in range(coflows.first_cell[coflow], coflows.first_cell[coflow + 1]):
            cells.left_bytes[cell] -= (second.found_Bps[cell] - second.leaves_Bps[cell]) * elapsed_s


@inner
def _rate_Bps(first: _Round, second: _Round, queues: bool, row: int) -> float:
    return float(first.rate_Bps[row] + second.rate_Bps[row]) if queues else float(first.rate_Bps[row])


@inner
def _retire(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, first: _Round, second: _Round, links: _Links,
    queues: bool, coflow: int, now_s: float, finish_s: Floats,
) -> None:  # fmt: skip
    """End the flows of a Coflow that have run empty."""
    tolerance_s = max(SIMULTANEOUS_S, 1e-15 * now_s)
    begin = coflows.first_row[coflow]
    many = first.movers[coflow]
    for i in range(many + (second.movers[coflow] if queues else 0)):
        row = first.moving[begin + i] if i < many else second.moving[begin + i - many]
        rate = _rate_Bps(first, second, queues, row)
        if flows.place[row] < 0 or rate <= 0 or flows.left_bytes[row] > rate * tolerance_s:
            continue
        finish_s[row] = now_s
        bundle = flows.bundle[row]
        bundles.flows[bundle] -= 1
        last = bundles.first_row[bundle] + bundles.flows[bundle]
        flows.row[flows.place[row]] = flows.row[last]
        flows.last_cell[flows.place[row]] = flows.last_cell[last]
        flows.place[flows.row[last]] = flows.place[row]
        flows.place[row] = -1
        coflows.flows[coflow] -= 1
        coflows.left_bytes[coflow] -= flows.left_bytes[row]
        coflows.dirty[coflow] = True
        for hop in range(flows.path_start[row], flows.path_start[row + 1]):
            cell = flows.hop_cell[hop]
            cells.flows[cell] -= 1
            cells.left_bytes[cell] -= flows.left_bytes[row]
            if cells.flows[cell] == 0:
                cells.left_bytes[cell] = 0.0
                links.coflows[coflows.lane[coflow] * len(links.capacity_Bps) + cells.link[cell]] -= 1


@inner
def _arrive(coflows: _Coflows, cells: _Cells, links: _Links, coflow: int) -> None:
    coflows.dirty[coflow] = True
    for cell in range(coflows.first_cell[coflow], coflows.first_cell[coflow + 1]):
        links.coflows[cells.link[cell]] += 1


@inner
def _set_keys(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, first: _Round, second: _Round, links: _Links,
    order: Order, queues: bool, line: Ints, present: int, now_s: float,
) -> bool:  # fmt: skip
    """What Coflows are ordered by now; returns whether one has come into another lane."""
    moved_lane = False
    for i in range(present):
        coflow = line[i]
        overdue = order.overdue_s[coflow] <= now_s
        coflows.keys[0, coflow] = order.overdue[coflow] if overdue else NEVER
        coflows.keys[1, coflow] = order.before[coflow]
        coflows.keys[3, coflow] = order.after[coflow]
        if order.measure == NOTHING or order.measure == BSSI:  # noqa: PLR1714  compiled
            continue
        if order.measure == QUEUE:
            elapsed_s = now_s - coflows.moved_s[coflow]
            left = coflows.left_bytes[coflow] - _coflow_Bps(coflows, first, second, bundles, coflow) * elapsed_s
            lane = np.searchsorted(order.limits_bytes, coflows.size_bytes[coflow] - left, side="right")
            coflows.keys[2, coflow] = lane
            if lane != coflows.lane[coflow]:
                _change_lane(coflows, cells, links, coflow, lane)
                coflows.dirty[coflow] = True
                moved_lane = True
        elif order.measure == TARDINESS or coflows.dirty[coflow] or first.movers[coflow] > 0:
            value = _measure(flows, bundles, coflows, cells, first, links, order, coflow, now_s)
            coflows.keys[2, coflow] = np.int64(np.rint(value / order.weight[coflow] / order.unit))
    return moved_lane


@inner
def _measure(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, first: _Round, links: _Links, order: Order,
    coflow: int, now_s: float,
) -> float:  # fmt: skip
    elapsed_s = now_s - coflows.moved_s[coflow]
    if order.measure == FLOWS:
        return float(coflows.flows[coflow])
    found = 0.0
    if order.measure in (BOTTLENECK, TARDINESS):
        for cell in range(coflows.first_cell[coflow], coflows.first_cell[coflow + 1]):
            left = cells.left_bytes[cell] - (first.found_Bps[cell] - first.leaves_Bps[cell]) * elapsed_s
            found = max(found, left / links.capacity_Bps[cells.link[cell]])
        return found + (now_s - order.arrival_s[coflow] if order.measure == TARDINESS else 0.0)
    for bundle in range(coflows.first_bundle[coflow], coflows.first_bundle[coflow + 1]):
        for i in range(bundles.first_row[bundle], bundles.first_row[bundle] + bundles.flows[bundle]):
            row = flows.row[i]
            left = flows.left_bytes[row] - first.rate_Bps[row] * elapsed_s
            if order.measure == MOST_LEFT:
                found = max(found, left)
            elif order.measure == LEFT:
                found += left
    return found


@inner
def _coflow_Bps(coflows: _Coflows, first: _Round, second: _Round, bundles: _Bundles, coflow: int) -> float:
    """What a Coflow sends, over all its first links."""
    total = 0.0
    for bundle in range(coflows.first_bundle[coflow], coflows.first_bundle[coflow + 1]):
        cell = bundles.cell[bundle]
        total += first.found_Bps[cell] - first.leaves_Bps[cell] + second.found_Bps[cell] - second.leaves_Bps[cell]
    return total


@inner
def _change_lane(coflows: _Coflows, cells: _Cells, links: _Links, coflow: int, lane: int) -> None:
    count = len(links.capacity_Bps)
    for cell in range(coflows.first_cell[coflow], coflows.first_cell[coflow + 1]):
        if cells.flows[cell] > 0:
            links.coflows[coflows.lane[coflow] * count + cells.link[cell]] -= 1
            links.coflows[lane * count + cells.link[cell]] += 1
    coflows.lane[coflow] = lane


@inner
def _begin(way: _Round, links: _Links, queues: bool, same: bool) -> None:
    """What each lane has of every link; all of it is to be looked at anew unless all come in the `same` order."""
    way.differs[:] = 0
    if queues:
        count = len(links.capacity_Bps)
        lanes = len(links.coflows) // count
        for link in range(count):
            total = 0
            for lane in range(lanes):
                if links.coflows[lane * count + link] > 0:
                    total += lanes - lane
            for lane in range(lanes):
                at = lane * count + link
                share = 0.0
                if links.coflows[at] > 0:
                    share = (lanes - lane) / total * links.capacity_Bps[link]
                if share != links.share_Bps[at]:
                    links.share_Bps[at] = share
                    _note(way, lane * (len(way.differs) // lanes), link)
                    way.now_Bps[at] = share
    if not same:
        way.differs[:] = -1
        way.now_Bps[:] = links.share_Bps


@inner
def _begin_second(
    coflows: _Coflows, cells: _Cells, first: _Round, second: _Round, links: _Links, line: Ints, present: int, same: bool
) -> None:  # fmt: skip
    """What the first round left on every link."""
    load = np.zeros(len(links.capacity_Bps))
    for i in range(present):
        for cell in range(coflows.first_cell[line[i]], coflows.first_cell[line[i] + 1]):
            load[cells.link[cell]] += first.found_Bps[cell] - first.leaves_Bps[cell]
    second.differs[:] = -1
    for link in range(len(load)):
        second.now_Bps[link] = max(links.capacity_Bps[link] - load[link], 0.0)


@inner
def _note(way: _Round, words: int, link: int) -> None:
    way.differs[words + link // _WORD] |= np.int64(1) << np.int64(link % _WORD)


@inner
def _forget(way: _Round, words: int, link: int) -> None:
    way.differs[words + link // _WORD] &= ~(np.int64(1) << np.int64(link % _WORD))


@inner
def _may_differ(way: _Round, words: int, link: int) -> bool:
    return bool((way.differs[words + link // _WORD] >> np.int64(link % _WORD)) & np.int64(1))


@inner
def _serve(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, first: _Round, second: _Round, way: _Round,
    links: _Links, shares: Shares, queues: bool, line: Ints, present: int, now_s: float, same: bool, is_second: bool,
) -> None:  # fmt: skip
    """One round: rates of all Coflows that find other than last time, or are other themselves."""
    count = len(links.capacity_Bps)
    width = len(coflows.links) // len(coflows.flows)
    for i in range(present):
        coflow = line[i]
        lane = 0 if is_second else coflows.lane[coflow]
        base, words = lane * count, lane * width
        begin, end = coflows.first_cell[coflow], coflows.first_cell[coflow + 1]
        finds_other = coflows.dirty[coflow]
        if not finds_other:
            touched = False
            for word in range(width):
                touched = touched or (way.differs[words + word] & coflows.links[coflow * width + word]) != 0
            if not touched:
                continue
            for cell in range(begin, end):
                link = cells.link[cell]
                if _may_differ(way, words, link) and way.now_Bps[base + link] != way.found_Bps[cell]:
                    finds_other = True
                    break
        if not finds_other:
            for cell in range(begin, end):
                link = cells.link[cell]
                way.now_Bps[base + link] = way.leaves_Bps[cell]
                if same and not is_second:
                    _forget(way, words, link)
            continue
        _advance(flows, coflows, cells, first, second, queues, coflow, now_s)
        for cell in range(begin, end):
            if _may_differ(way, words, cells.link[cell]):
                way.found_Bps[cell] = way.now_Bps[base + cells.link[cell]]
        coflows.dirty[coflow] = True
        _set_rates(flows, bundles, coflows, cells, way, links, shares, coflow)
        for cell in range(begin, end):
            link, left = cells.link[cell], shares.left_Bps[cell - begin]
            if same and not is_second and left == way.leaves_Bps[cell]:
                _forget(way, words, link)
            else:
                _note(way, words, link)
            way.leaves_Bps[cell] = left
            way.now_Bps[base + link] = left


@inner
def _set_rates(
    flows: _Flows, bundles: _Bundles, coflows: _Coflows, cells: _Cells, way: _Round, links: _Links, shares: Shares,
    coflow: int,
) -> None:  # fmt: skip
    """Rates of a Coflow's flows out of what it found, and what that leaves (`shares.left_Bps`)."""
    row_begin, cell_begin = coflows.first_row[coflow], coflows.first_cell[coflow]
    for i in range(row_begin, row_begin + way.movers[coflow]):
        way.rate_Bps[way.moving[i]] = 0.0
    used = coflows.first_cell[coflow + 1] - cell_begin
    for k in range(used):
        link = cells.link[cell_begin + k]
        shares.left_Bps[k] = way.found_Bps[cell_begin + k]
        shares.spent_Bps[k] = links.spent_Bps[link]
        shares.crowd[k] = 0
        cells.is_open[cell_begin + k] = shares.left_Bps[k] > shares.spent_Bps[k]
    takers = 0
    for bundle in range(coflows.first_bundle[coflow], coflows.first_bundle[coflow + 1]):
        if not cells.is_open[bundles.cell[bundle]]:
            continue
        for i in range(bundles.first_row[bundle], bundles.first_row[bundle] + bundles.flows[bundle]):
            if not cells.is_open[flows.last_cell[i]]:
                continue
            row, is_open = flows.row[i], True
            for hop in range(flows.path_start[row] + 1, flows.path_start[row + 1] - 1):
                is_open = is_open and cells.is_open[flows.hop_cell[hop]]
            if is_open:
                way.moving[row_begin + takers] = row
                takers += 1
                for hop in range(flows.path_start[row], flows.path_start[row + 1]):
                    shares.crowd[flows.hop_cell[hop] - cell_begin] += 1
    way.movers[coflow] = takers
    if takers > 0:
        share_out(
            shares, way.moving[row_begin : row_begin + takers], flows.path_start, flows.hop_cell, cell_begin, used,
            way.rate_Bps,
        )  # fmt: skip


@inner
def _first_end_s(
    flows: _Flows, coflows: _Coflows, first: _Round, second: _Round, queues: bool, coflow: int, now_s: float
) -> float:  # fmt: skip
    least_s = math.inf
    begin = coflows.first_row[coflow]
    for i in range(begin, begin + first.movers[coflow]):
        row = first.moving[i]
        least_s = min(least_s, flows.left_bytes[row] / _rate_Bps(first, second, queues, row))
    if queues:
        for i in range(begin, begin + second.movers[coflow]):
            row = second.moving[i]
            least_s = min(least_s, flows.left_bytes[row] / _rate_Bps(first, second, queues, row))
    return now_s + least_s


@inner
def _crosses_s(
    coflows: _Coflows, cells: _Cells, first: _Round, second: _Round, bundles: _Bundles, order: Order, coflow: int,
    now_s: float,
) -> float:  # fmt: skip
    """When a Coflow will have sent what its queue holds."""
    if coflows.lane[coflow] == len(order.limits_bytes):
        return math.inf
    rate = _coflow_Bps(coflows, first, second, bundles, coflow)
    if rate <= 0:
        return math.inf
    sent = coflows.size_bytes[coflow] - coflows.left_bytes[coflow] + rate * (now_s - coflows.moved_s[coflow])
    return float(now_s + max((order.limits_bytes[coflows.lane[coflow]] + 1.0 - sent) / rate, QUANTUM_S))
