"""The arithmetic that policies share: sharing out capacity, and least possible tardiness.

Flows are rows of a snapshot. All functions leave their inputs unchanged except `residual_Bps`, the
capacity that is left on each link, which the filling functions use up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from echelonflow.snapshot import Floats, Ints, Snapshot

QUANTUM_S = 1e-6
"""Times closer than this are equal when flows or groups are ordered."""

_SPENT = 1e-9
"""Share of a link's capacity below which what is left on it counts as nothing (rounding)."""


def quantised(times_s: Floats) -> Ints:
    """Whole quanta of `times_s`, so that rounding never decides an order; infinities stay extreme."""
    limit = float(2**62)
    return np.clip(np.rint(times_s / QUANTUM_S), -limit, limit).astype(np.int64)


def dense_rank(keys: Sequence[Ints]) -> Ints:
    """Place of each row when ordered by the first key, then the next, ...; equal rows share a place."""
    rows = len(keys[0])
    if rows == 0:
        return np.zeros(0, np.int64)
    order = np.lexsort(tuple(reversed(keys)))
    new = np.zeros(rows, np.int64)
    for key in keys:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    rank = np.empty(rows, np.int64)
    rank[order] = np.cumsum(new)
    return rank


class Hops:
    """The (flow, link) incidence of some rows of a snapshot, in compressed rows."""

    def __init__(self, snapshot: Snapshot, rows: Ints) -> None:
        lengths = snapshot.path_start[rows + 1] - snapshot.path_start[rows]
        self.rows = rows
        self.flow = np.repeat(np.arange(len(rows), dtype=np.int64), lengths)
        starts = np.repeat(snapshot.path_start[rows] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        self.link = snapshot.path_link[starts + np.arange(len(self.flow))] if len(rows) else snapshot.path_link[:0]

    def load(self, amount: Floats, links: int) -> Floats:
        """Sum of `amount` (one per row) over the flows on each link."""
        return np.bincount(self.link, weights=amount[self.flow], minlength=links).astype(np.float64)


def max_min(snapshot: Snapshot, rows: Ints, weights: Floats, residual_Bps: Floats) -> Floats:
    """Weighted max-min fair rates of `rows` on what is left, which is used up.

    All rates grow in proportion to `weights` (positive) until a link is full; its flows stop there and
    the others go on (progressive filling; Bertsekas and Gallager, Data Networks, section 6.5.2). With
    weights = remaining bytes the first stop is MADD, and the rest shares spare capacity so that flows
    still finish together as far as they can. Returns bytes/s, one per row.
    """
    hops = Hops(snapshot, rows)
    rates = np.zeros(len(rows))
    growing = np.ones(len(rows), bool)
    spent = _SPENT * snapshot.capacity_Bps
    while True:
        full = residual_Bps <= spent
        growing[hops.flow[full[hops.link]]] = False
        if not growing.any():
            return rates
        pull = hops.load(np.where(growing, weights, 0.0), snapshot.links)
        used = pull > 0
        level = float(np.min(residual_Bps[used] / pull[used]))
        rates[growing] += weights[growing] * level
        residual_Bps[used] = residual_Bps[used] - pull[used] * level
        np.maximum(residual_Bps, 0.0, out=residual_Bps)


def madd(snapshot: Snapshot, rows: Ints, residual_Bps: Floats) -> Floats:
    """The least rates at which `rows` finish together as early as the bottleneck allows; uses them up.

    Minimum allocation for desired duration (Varys, SIGCOMM '14, section 4.2). Where a link on some
    path has nothing left no common finish exists, and all rates are 0. Bytes/s, one per row.
    """
    hops = Hops(snapshot, rows)
    remaining = snapshot.remaining_bytes[rows]
    volume = hops.load(remaining, snapshot.links)
    used = volume > 0
    if np.any(residual_Bps[used] <= _SPENT * snapshot.capacity_Bps[used]):
        return np.zeros(len(rows))
    speed = float(np.min(residual_Bps[used] / volume[used]))
    residual_Bps[used] = np.maximum(residual_Bps[used] - volume[used] * speed, 0.0)
    return remaining * speed


def serve_in_order(snapshot: Snapshot, stages: Sequence[Ints]) -> Floats:
    """Rates when `stages` (disjoint sets of rows, all rows among them) are served one after the other.

    First every stage in order takes its MADD rates out of what is left, so that a stage's flows finish
    together and take no more than that needs. Then what is still unused goes to the stages in the same
    order, in proportion to remaining bytes: no link that a flow could use stays idle.
    """
    residual = snapshot.capacity_Bps.copy()
    rates = np.zeros(snapshot.flows)
    for rows in stages:
        rates[rows] = madd(snapshot, rows, residual)
    add_spare(snapshot, stages, rates, residual)
    return rates


def add_spare(snapshot: Snapshot, stages: Sequence[Ints], rates_Bps: Floats, residual_Bps: Floats) -> None:
    """Give what is left to `stages` in order, in proportion to remaining bytes; adds to `rates_Bps`."""
    open_link = residual_Bps > _SPENT * snapshot.capacity_Bps
    hop_flow = snapshot.hop_flow()
    blocked = np.bincount(hop_flow[~open_link[snapshot.path_link]], minlength=snapshot.flows) > 0
    for rows in stages:
        candidates = rows[~blocked[rows]]
        if candidates.size:
            rates_Bps[candidates] += max_min(snapshot, candidates, snapshot.remaining_bytes[candidates], residual_Bps)


def stages_of(rank: Ints) -> list[Ints]:
    """The rows of each rank, in order of rank."""
    if len(rank) == 0:
        return []
    order = np.argsort(rank, kind="stable")
    cuts = np.flatnonzero(np.diff(rank[order])) + 1
    return [rows.astype(np.int64) for rows in np.split(order, cuts)]


def effective_bottleneck_s(snapshot: Snapshot, member: Ints, sets: int) -> Floats:
    """Varys's Γ of each of `sets` sets of flows: seconds its remaining bytes need at the slowest link, alone.

    `member` gives the set of each flow (n rows). Returns one value per set.
    """
    hop_flow = snapshot.hop_flow()
    cell, inverse = np.unique(member[hop_flow] * snapshot.links + snapshot.path_link, return_inverse=True)
    volume = np.bincount(inverse, weights=snapshot.remaining_bytes[hop_flow], minlength=len(cell))
    longest: Floats = np.zeros(sets)
    np.maximum.at(longest, cell // snapshot.links, volume / snapshot.capacity_Bps[cell % snapshot.links])
    return longest


def unavoidable_tardiness_s(snapshot: Snapshot) -> Floats:
    """Lateness of each group that nothing can undo: what finished late, and what is late already."""
    late: Floats = snapshot.groups.incurred_tardiness_s.copy()
    np.maximum.at(late, snapshot.group, snapshot.now_s - snapshot.ideal_finish_s)
    return late


def least_tardiness_s(snapshot: Snapshot) -> Floats:
    """τ_H of each group: the least maximum tardiness it could still have if it were alone.

    On every link, with V_k the bytes of the first k of its flows in order of ideal finish time d, any
    schedule has τ >= V_k / c - (d_k - now); τ_H is the largest of these and of what is already incurred
    (design, section 3). Exact on one link, a lower bound on a network. Declared but unreleased bytes
    are not counted: their release may come too late to matter.
    """
    tau: Floats = snapshot.groups.incurred_tardiness_s.copy()
    if snapshot.flows == 0:
        return tau
    hop_flow = snapshot.hop_flow()
    ideal = snapshot.ideal_finish_s[hop_flow]
    cell = snapshot.group[hop_flow] * snapshot.links + snapshot.path_link
    order = np.lexsort((ideal, cell))
    cell, ideal = cell[order], ideal[order]
    total = np.cumsum(snapshot.remaining_bytes[hop_flow][order])
    first = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
    before = np.concatenate(([0.0], total))[first]
    volume = total - np.repeat(before, np.diff(np.concatenate((first, [len(cell)]))))
    bound = volume / snapshot.capacity_Bps[cell % snapshot.links] - (ideal - snapshot.now_s)
    np.maximum.at(tau, cell // snapshot.links, bound)
    return tau
