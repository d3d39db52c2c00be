"""Weighted sharing: classes of flows whose allocated rates are alike, and weights that follow what is allocated.

The EchelonFlow paper sketches it (section 5): flows go "into priority queues based on their allocated bandwidth", with
"weighted sharing of network bandwidth among the queues". No class goes before another. On each link a class has a weight,
the sum of the rates that are allocated to its flows there, and the flows of one class share fairly.

The controller goes by this on packets, and simulations do, so that both have the same classes and the same weights. Pure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import max_min
from echelonflow.scheduling.folding import UNDECIDED, Folding, contended
from echelonflow.scheduling.snapshot import Snapshot

LEAST_SHARE = 1 / 64
"""Of a link: the weight of a class to whose flows nothing is allocated there. So these move where others leave something."""
ALIKE = 1.25
"""Rates in one class differ by this factor at most, as long as there are classes. Its flows get equal shares."""
STILL_ALIKE = 1.6
"""The same of flows that are in one class already: a rate that changes by less moves nobody."""
_SETTLED = 1 + 1e-9
"""Two offers that differ by less are the same (rounding)."""


def fold(snapshot: Snapshot, allocation: Allocation, in_force: Ints, classes: Sequence[int]) -> Folding:
    """A class for every flow, by its allocated share of its slowest link: the larger, the earlier; nobody is held back.

    The first class is for shares around 1, each next one for half as much, and the last also for those to whom nothing
    is allocated. Edges lie between the powers of a half, since equal shares are often such powers.

    A flow keeps the class that it has (`in_force`, UNDECIDED: none), whatever its share is now, as the weight of the class
    follows. It leaves only where it meets a faster one there, on a link where a queue can form, or where it comes to
    meet one that is not like it. The faster one stays. So what the slower one has in the queue leaves by the weight
    of the faster one. None of it is overtaken by later packets, which TCP would take for loss. A flow whose class is taken
    by others goes to the one in which it is least unlike those that it meets: a free one, if there is any.
    """
    share = np.maximum(_shares(snapshot, allocation.rates_Bps), LEAST_SHARE)
    wanted = np.clip(np.floor(0.5 - np.log2(share)).astype(np.int64), 0, len(classes) - 1)
    place_of = {traffic_class: place for place, traffic_class in enumerate(classes)}
    held = [place_of.get(traffic_class, UNDECIDED) for traffic_class in in_force.tolist()]
    paths = _contended_paths(snapshot)
    met = _Met(len(classes))
    place = np.full(snapshot.flows, UNDECIDED)
    shares, fastest_first = share.tolist(), np.argsort(-share, kind="stable").tolist()
    for row in fastest_first:
        if held[row] != UNDECIDED and met.unlike(paths[row], held[row], shares[row]) <= STILL_ALIKE:
            place[row] = held[row]
            met.put(paths[row], held[row], shares[row])
    for row in fastest_first:
        if place[row] == UNDECIDED:
            place[row] = met.nearest(paths[row], int(wanted[row]), shares[row])
            met.put(paths[row], int(place[row]), shares[row])
    return Folding(np.asarray(classes, np.int64)[place], np.zeros(snapshot.flows, bool))


def _shares(snapshot: Snapshot, rates_Bps: Floats) -> Floats:
    """What is allocated to each flow, as a share of the slowest link of its path."""
    if not snapshot.flows:
        return rates_Bps
    slowest: Floats = np.minimum.reduceat(snapshot.capacity_Bps[snapshot.path_link], snapshot.path_start[:-1])
    return rates_Bps / slowest


def _contended_paths(snapshot: Snapshot) -> list[list[int]]:
    """The links of each flow's path on which queues can form."""
    counts, links = contended(snapshot)[snapshot.path_link].tolist(), snapshot.path_link.tolist()
    start = snapshot.path_start.tolist()
    return [[links[hop] for hop in range(a, b) if counts[hop]] for a, b in itertools.pairwise(start)]


class _Met:
    """The least and the largest share of the flows that have been placed, by link and class."""

    def __init__(self, classes: int) -> None:
        self._classes = classes
        self._least: dict[int, float] = {}
        self._largest: dict[int, float] = {}

    def unlike(self, path: Sequence[int], place: int, share: float) -> float:
        """By which factor a flow differs at most from those that it would meet in a class; 1 where it meets none."""
        found = 1.0
        for link in path:
            cell = link * self._classes + place
            found = max(found, share / self._least.get(cell, share), self._largest.get(cell, share) / share)
        return found

    def nearest(self, path: Sequence[int], wanted: int, share: float) -> int:
        """The `wanted` class if those whom a flow meets there are like it, else the one where they are least unlike it."""
        if self.unlike(path, wanted, share) <= ALIKE:
            return wanted
        return min(
            range(self._classes), key=lambda place: (self.unlike(path, place, share), abs(place - wanted), -place)
        )

    def put(self, path: Sequence[int], place: int, share: float) -> None:
        for link in path:
            cell = link * self._classes + place
            self._least[cell] = min(share, self._least.get(cell, share))
            self._largest[cell] = max(share, self._largest.get(cell, share))


def weights_Bps(snapshot: Snapshot, place: Ints, rates_Bps: Floats, classes: int) -> Floats:
    """The weight of each of so many classes on each link: what is allocated to its flows there, in bytes/s.

    `place` gives n classes from 0 on; an UNDECIDED flow counts nowhere. L rows. A class to whose flows nothing is allocated
    has `LEAST_SHARE` of the link, one without flows has 0.
    """
    hop_flow = snapshot.hop_flow()
    taking = (place != UNDECIDED)[hop_flow]
    cell = snapshot.path_link[taking] * classes + place[hop_flow][taking]
    shape = (snapshot.links, classes)
    total = np.bincount(cell, weights=rates_Bps[hop_flow][taking], minlength=snapshot.links * classes).reshape(shape)
    present = np.bincount(cell, minlength=snapshot.links * classes).reshape(shape) > 0
    least: Floats = np.where(present, LEAST_SHARE * snapshot.capacity_Bps[:, None], 0.0)
    return np.maximum(total, least)


def shared(
    snapshot: Snapshot, place: Ints, rates_Bps: Floats, classes: int, capacity_Bps: Floats | None = None
) -> Floats:
    """Rates of n flows in classes whose weights follow `rates_Bps`, which are allocated; UNDECIDED ones get nothing.

    On each link, the classes that have something to send share it by their weights, and the flows of a class share what it
    gets. `capacity_Bps` is what links carry where that is not what the snapshot says. No link is left idle that a flow
    could use.
    """
    if not snapshot.flows:
        return np.zeros(0)
    hop_flow, path_link = snapshot.hop_flow(), snapshot.path_link
    taking = place != UNDECIDED
    cell = path_link * classes + np.where(taking, place, 0)[hop_flow]
    members = np.bincount(cell, weights=taking[hop_flow], minlength=snapshot.links * classes)
    weights = weights_Bps(snapshot, place, rates_Bps, classes).ravel()
    hop_weight = weights[cell] / np.maximum(members[cell], 1.0)
    residual_Bps = (snapshot.capacity_Bps if capacity_Bps is None else capacity_Bps).copy()
    found = _filled(snapshot, hop_weight, taking, residual_Bps)
    rows = np.flatnonzero(taking)
    found[rows] += max_min(snapshot, rows, np.ones(len(rows)), residual_Bps)
    return found


def _filled(snapshot: Snapshot, hop_weight: Floats, open_flow: Bools, residual_Bps: Floats) -> Floats:
    """Progressive filling where a flow's weight may differ from link to link; uses up `residual_Bps`.

    A link offers its flows what is left on it, by their weights there. A flow takes the least offer of its path. A link that all
    its flows take is a bottleneck, and they have what they get. Where each flow has one weight, the link with the
    least offers always is. With several, flows may each wait for the other's link to be full. There the link that comes
    nearest to it counts as full, and what that leaves is given out afterwards.
    """
    hop_flow, path_link, links = snapshot.hop_flow(), snapshot.path_link, snapshot.links
    rates, open_flow = np.zeros(snapshot.flows), open_flow.copy()
    while open_flow.any():
        hops = open_flow[hop_flow]
        flow, link, weight = hop_flow[hops], path_link[hops], hop_weight[hops]
        load = np.bincount(link, weights=weight, minlength=links)
        offer = weight * residual_Bps[link] / load[link]
        least = np.full(snapshot.flows, math.inf)
        np.minimum.at(least, flow, offer)
        used = np.bincount(link, minlength=links) > 0
        full = used.copy()
        full[link[offer > least[flow] * _SETTLED]] = False
        if not full.any():
            taken = np.bincount(link, weights=least[flow], minlength=links)
            nearest = np.where(used, taken / np.where(residual_Bps > 0, residual_Bps, math.inf), -1.0)
            full[int(np.argmax(nearest))] = True
        settled = np.zeros(snapshot.flows, bool)
        settled[flow[full[link]]] = True
        rates[settled] = least[settled]
        open_flow &= ~settled
        load = np.bincount(path_link, weights=np.where(settled, rates, 0.0)[hop_flow], minlength=links)
        np.maximum(residual_Bps - load, 0.0, out=residual_Bps)
    return rates
