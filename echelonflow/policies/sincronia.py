"""Coflows in Sincronia's order: of those on the most loaded link, the one that blocks most goes last.

Sincronia (SIGCOMM '18, section 3.1): Bottleneck, Select, Scale, Iterate. Places are given out from the last. Take the
link on which what is left of all unplaced Coflows needs most time; of the Coflows on it, the one with the least weight
per second of that link goes last; the weights of the others there shrink by their share in its dual price,
w_c -= w_last * p_c / p_last; go on with the rest. Served greedily in that order, the weighted sum of completion times
of Coflows that are all there is within four times the optimum. Here it is computed anew from what is left at every
decision, with links of different rates taken into account by counting seconds instead of bytes.

Rates are greedy and order-preserving (section 3.2): each Coflow's flows share fairly all that they can use. Any
transport with priorities does; nothing bounds how long the last Coflow waits while others keep coming.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from echelonflow.allocation import Allocation
from echelonflow.fill import stages_of
from echelonflow.orders import greedy
from echelonflow.snapshot import Floats, Ints, Snapshot

ENFORCER = "priority"
WORK_CONSERVING = True

_SAME = 1e-9
"""Relative difference below which two links or two Coflows are equal: the rest is rounding."""


def allocate(snapshot: Snapshot, *, grouping: Literal["collective", "group"] = "collective") -> Allocation:
    """Coflows in BSSI order, greedy rates."""
    if grouping == "collective":
        member, ids, weight = snapshot.coflow, snapshot.coflows.id, snapshot.coflows.weight
    else:
        member, ids, weight = snapshot.group, snapshot.groups.id, snapshot.groups.weight
    rank = _places(snapshot, member, ids, weight)[member]
    return Allocation(greedy(snapshot, stages_of(rank)), rank)


def _places(snapshot: Snapshot, member: Ints, ids: Ints, weight: Floats) -> Ints:
    """The place of each Coflow in BSSI's order, from 0."""
    demand = _Demand(snapshot, member, ids)
    weight = weight[demand.by_id]
    left = weight.astype(np.float64)
    place = np.empty(len(ids), np.int64)
    for last in range(len(ids) - 1, -1, -1):
        coflows, seconds = demand.on_bottleneck()
        price = left[coflows] / seconds
        cheapest = np.flatnonzero(price <= price.min() * (1 + _SAME))[-1]  # of equals the largest id goes last
        left[coflows] = np.maximum(left[coflows] - price[cheapest] * seconds, 0.0)
        left[coflows[left[coflows] <= _SAME * weight[coflows]]] = 0.0
        place[demand.by_id[coflows[cheapest]]] = last
        demand.take(int(coflows[cheapest]))
    return place


class _Demand:
    """Seconds that each Coflow needs of each link, alone, in compressed rows both ways; Coflows in order of id."""

    def __init__(self, snapshot: Snapshot, member: Ints, ids: Ints) -> None:
        self.by_id = np.argsort(ids, kind="stable")
        row = np.empty(len(ids), np.int64)
        row[self.by_id] = np.arange(len(ids))
        hop_flow = snapshot.hop_flow()
        cells = row[member[hop_flow]] * snapshot.links + snapshot.path_link
        cell, inverse = np.unique(cells, return_inverse=True)
        size_bytes: Floats = np.zeros(len(cell))
        np.add.at(size_bytes, inverse, snapshot.remaining_bytes[hop_flow])
        self._coflow, self._link = cell // snapshot.links, cell % snapshot.links
        self._seconds = size_bytes / snapshot.capacity_Bps[self._link]
        self._start = np.searchsorted(self._coflow, np.arange(len(ids) + 1))
        self._by_link = np.argsort(self._link, kind="stable")
        self._link_start = np.searchsorted(self._link[self._by_link], np.arange(snapshot.links + 1))
        self._load_s: Floats = np.zeros(snapshot.links)
        np.add.at(self._load_s, self._link, self._seconds)
        self._waiting = np.diff(self._link_start)
        self._unplaced = np.ones(len(ids), bool)

    def on_bottleneck(self) -> tuple[Ints, Floats]:
        """The Coflows on the most loaded link, in order of id, and the seconds each needs of it."""
        load_s = np.where(self._waiting > 0, self._load_s, -np.inf)
        most_s = load_s.max()
        link = int(np.argmax(load_s >= most_s - _SAME * abs(most_s)))
        cells = self._by_link[self._link_start[link] : self._link_start[link + 1]]
        cells = cells[self._unplaced[self._coflow[cells]]]
        return self._coflow[cells], self._seconds[cells]

    def take(self, coflow: int) -> None:
        """Leave a Coflow out from now on."""
        own = slice(self._start[coflow], self._start[coflow + 1])
        self._load_s[self._link[own]] -= self._seconds[own]
        self._waiting[self._link[own]] -= 1
        self._unplaced[coflow] = False
