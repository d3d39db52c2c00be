"""Coflows in Sincronia's order: of those on the most loaded link, the one that blocks most goes last.

Sincronia (SIGCOMM '18, section 3.1): Bottleneck, Select, Scale, Iterate. Places are given out from the last. Take the
link on which what is left of all unplaced Coflows needs most time. Of the Coflows on it, the one with the least weight
per second of that link goes last. The weights of the others there shrink by their share in its dual price, w_c -=
w_last * p_c / p_last. Go on with the rest. Served greedily in that order, the weighted sum of completion times of
Coflows that are all there is within four times the optimum. Here it is computed anew from what is left at every
decision, with links of different rates taken into account by counting seconds instead of bytes.

Rates are greedy and order-preserving (section 3.2): each Coflow's flows share fairly all that they can use. Any
transport with priorities does; nothing bounds how long the last Coflow waits while others keep coming.

On one link this is Smith's rule, which is optimal (tested).

**Knows** sizes. **Cost.** O(c (L + c) + nh log nh).
"""

from __future__ import annotations

import heapq
from typing import Literal

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import QUANTUM_S, stages_of
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "Coflows"
ENFORCER = "priority"
WORK_CONSERVING = True

_SAME = 1e-9
"""Relative difference below which the prices of two Coflows are equal: the rest is rounding."""


def allocate(snapshot: Snapshot, *, grouping: Literal["collective", "group"] = "collective") -> Allocation:
    """Coflows in BSSI order, greedy rates.

    Example: last on their link comes who has least weight for the time that it needs. The long flow needs 2 s at
    weight 1, the short one 1 s at weight 2.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 0.0 MB/s, place 1
        short: 10.0 MB/s, place 0
    """
    if grouping == "collective":
        member, ids, weight = snapshot.coflow, snapshot.coflows.id, snapshot.coflows.weight
    else:
        member, ids, weight = snapshot.group, snapshot.groups.id, snapshot.groups.weight
    rank = _places(snapshot, member, ids, weight)[member]
    return Allocation(greedy(snapshot, stages_of(rank)), rank)


def _places(snapshot: Snapshot, member: Ints, ids: Ints, weight: Floats) -> Ints:
    """The place of each Coflow in BSSI's order, from 0."""
    by_id = np.argsort(ids, kind="stable")
    row = np.empty(len(ids), np.int64)
    row[by_id] = np.arange(len(ids))
    demand = _Demand(snapshot, row[member], len(ids))
    whole = weight[by_id].tolist()
    left = weight[by_id].tolist()
    place = np.empty(len(ids), np.int64)
    for last in range(len(ids) - 1, -1, -1):
        waiting = demand.on_bottleneck()
        price = [left[coflow] / seconds for coflow, seconds in waiting]
        least = min(price) * (1 + _SAME)
        cheapest = max(i for i, each in enumerate(price) if each <= least)  # of equals the largest id goes last
        for coflow, seconds in waiting:
            scaled = left[coflow] - price[cheapest] * seconds
            left[coflow] = scaled if scaled > _SAME * whole[coflow] else 0.0
        chosen = waiting[cheapest][0]
        place[by_id[chosen]] = last
        demand.take(chosen)
    return place


class _Demand:
    """Seconds that each unplaced Coflow (a row, in order of id) needs of each link, alone."""

    def __init__(self, snapshot: Snapshot, member: Ints, coflows: int) -> None:
        links, hop_flow = snapshot.links, snapshot.hop_flow()
        cell, inverse = np.unique(member[hop_flow] * links + snapshot.path_link, return_inverse=True)
        size_bytes: Floats = np.zeros(len(cell))
        np.add.at(size_bytes, inverse, snapshot.remaining_bytes[hop_flow])
        seconds = size_bytes / snapshot.capacity_Bps[cell % links]
        self._on_link: list[list[tuple[int, float]]] = [[] for _ in range(links)]
        self._of_coflow: list[list[tuple[int, float]]] = [[] for _ in range(coflows)]
        self._load_s = [0.0] * links
        for key, need_s in zip(cell.tolist(), seconds.tolist(), strict=True):
            coflow, link = divmod(key, links)
            self._on_link[link].append((coflow, need_s))
            self._of_coflow[coflow].append((link, need_s))
            self._load_s[link] += need_s
        self._placed = [False] * coflows
        self._heap = [(self._key(link), link) for link in range(links)]
        heapq.heapify(self._heap)

    def on_bottleneck(self) -> list[tuple[int, float]]:
        """The Coflows on the most loaded link, in order of id, each with the seconds that it needs of it."""
        while True:
            key, link = self._heap[0]
            if key != self._key(link):  # loads only shrink, so what is on top may be stale, but never too low
                heapq.heapreplace(self._heap, (self._key(link), link))
                continue
            waiting = [(coflow, seconds) for coflow, seconds in self._on_link[link] if not self._placed[coflow]]
            if waiting:
                self._on_link[link] = waiting
                return waiting
            heapq.heappop(self._heap)

    def take(self, coflow: int) -> None:
        """Leave a Coflow out from now on."""
        self._placed[coflow] = True
        for link, seconds in self._of_coflow[coflow]:
            self._load_s[link] -= seconds

    def _key(self, link: int) -> int:
        """The link's load, negative because heaps begin with the least; in whole quanta, so that ties go by link."""
        return -round(self._load_s[link] / QUANTUM_S)
