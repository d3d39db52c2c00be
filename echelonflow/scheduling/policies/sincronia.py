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

from typing import Literal

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling import kernels
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import sets_of, stages_of
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "Coflows"
ENFORCER = "priority"
WORK_CONSERVING = True


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


def form(*, grouping: Literal["collective", "group"] = "collective") -> Form:
    """The same as data."""
    return Form((Key("bssi", "coflow" if grouping == "collective" else "group"),), "greedy")


def _places(snapshot: Snapshot, member: Ints, ids: Ints, weight: Floats) -> Ints:
    """The place of each Coflow in BSSI's order, from 0."""
    count, links, hops = len(ids), snapshot.links, len(snapshot.path_link)
    by_id = np.argsort(ids, kind="stable")
    row = np.empty(count, np.int64)
    row[by_id] = np.arange(count)
    sets = sets_of(row[member], count)
    cell_start, cell_link, need_s = np.zeros(count + 1, np.int64), np.zeros(hops, np.int64), np.zeros(hops)
    kernels.demands(
        sets.start, sets.rows, snapshot.path_start, snapshot.path_link, snapshot.remaining_bytes,
        snapshot.capacity_Bps, cell_start, cell_link, need_s, np.zeros(links),
    )  # fmt: skip
    cells = int(cell_start[-1])
    if np.isnan(need_s[:cells]).any():  # compiled loops would make an order of what is not a number
        raise FloatingPointError("bytes left are not known")
    found: Ints = np.zeros(count, np.int64)
    kernels.bssi(
        cell_start, cell_link[:cells], need_s[:cells], weight[by_id], found, np.zeros(count), np.zeros(links),
        *np.zeros((4, links), np.int64), np.zeros(cells, np.int64), np.zeros(cells),
    )  # fmt: skip
    return found[row]
