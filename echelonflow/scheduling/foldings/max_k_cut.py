"""Crux's compression: places that meet on links are to be in different classes, where it matters most.

Crux (SIGCOMM '24, section 4.3, algorithm 1). Places of the order are nodes of a graph. An edge leads from a place to each
later one with which it shares a link. It weighs what is lost if both are in one class: the GPU intensity of the
earlier one, as the later one loses in either case. Wanted are K classes in an order that no edge opposes, with the
greatest weight of edges between them. For one topological order of the graph, cut into K pieces, the best is
found by dynamic programming. That is done for several orders drawn at random, and the best of all counts.

**Differs.** Crux's nodes are jobs; here they are places of the order, which in a policy that orders jobs are the same. A place of
flows whose jobs declared no computation weighs as little as the least of the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.folding import Folding, by_level, contended, positions
from echelonflow.scheduling.snapshot import Snapshot


def fold(
    snapshot: Snapshot, allocation: Allocation, in_force: Ints, classes: Sequence[int], *, orders: int = 10
) -> Folding:
    """The greatest cut of p places over `orders` topological orders (the paper's 10). O(orders p² K + p l)."""
    place, places = positions(allocation)
    if places <= len(classes):
        return by_level(place, classes)
    meets = _meets(snapshot, place, places)
    weight = np.where(meets, _intensity(snapshot, place, places)[:, None], 0.0)
    rng = random.Random(places)
    best, level = -1.0, np.zeros(places, np.int64)
    for number in range(orders):
        # The order itself is one of them.
        order = np.arange(places) if number == 0 else _topological(meets, rng)
        cut, ends = _greatest_cut(weight[np.ix_(order, order)], len(classes))
        if cut > best:
            best = cut
            level[order] = np.searchsorted(ends, np.arange(places), side="right")
    return by_level(level[place], classes)


def _meets(snapshot: Snapshot, place: Ints, places: int) -> Bools:
    """P × p: whether the row's place comes before the column's, and both have a flow on a link where a queue can form."""
    uses = np.zeros((places, snapshot.links), bool)
    matters = contended(snapshot)[snapshot.path_link]
    uses[place[snapshot.hop_flow()][matters], snapshot.path_link[matters]] = True
    found: Bools = np.triu(uses.astype(np.float32) @ uses.T.astype(np.float32) > 0, 1)
    return found


def _intensity(snapshot: Snapshot, place: Ints, places: int) -> Floats:
    """p: computation over time alone of the job at each place, the largest where there are several."""
    jobs = snapshot.jobs
    declared = (jobs.compute_s > 0) & (jobs.alone_s > 0)
    value = np.divide(jobs.compute_s, jobs.alone_s, out=np.zeros(len(jobs.id)), where=declared)
    value[~declared] = value[declared].min(initial=np.inf) if declared.any() else 1.0
    found = np.zeros(places)
    np.maximum.at(found, place, value[snapshot.groups.job[snapshot.group]])
    return found


def _topological(meets: Bools, rng: random.Random) -> Ints:
    """The places in an order, drawn at random, in which each comes after all that have an edge to it."""
    waits_for = meets.sum(axis=0)
    free = [int(node) for node in np.flatnonzero(waits_for == 0)]
    order = []
    while free:
        node = free.pop(rng.randrange(len(free)))
        order.append(node)
        after = np.flatnonzero(meets[node])
        waits_for[after] -= 1
        free += [int(other) for other in after[waits_for[after] == 0]]
    return np.array(order, np.int64)


def _greatest_cut(weight: Floats, pieces: int) -> tuple[float, Ints]:
    """The greatest weight of edges between `pieces` pieces of a sequence of p nodes, and where all but the last one end.

    `weight` is p × p, of edges from row to column in the order of the sequence. Call f(i, k) what k pieces of the first i nodes cut
    at most, and C(j, i) the weight from the first j of them to the others. Then f(i, k) is the largest f(j, k - 1) + C(j, i) over all j.
    """
    nodes = len(weight)
    total = np.zeros((nodes + 1, nodes + 1))
    total[1:, 1:] = weight.cumsum(axis=0).cumsum(axis=1)
    between = total - np.diag(total)[:, None]  # row j, column i: from the first j to those from j + 1 to i
    j, i = np.indices(between.shape)
    between[j >= i] = -np.inf
    best = np.where(np.arange(nodes + 1) > 0, 0.0, -np.inf)  # of one piece
    chosen = []
    for _ in range(pieces - 1):
        reached = best[:, None] + between
        chosen.append(reached.argmax(axis=0))
        best = reached.max(axis=0)
    ends, end = [], nodes
    for at in reversed(chosen):
        end = int(at[end])
        ends.append(end)
    return float(best[nodes]), np.array(ends[::-1], np.int64)
