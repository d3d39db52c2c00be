"""How an order of flows is folded into few traffic classes: by the controller, and by simulations with classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Bools, Ints
from echelonflow.scheduling.allocation import FEASIBILITY_TOLERANCE, Allocation
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.wire.classes import DATA_CLASSES

UNDECIDED = -1
"""Class of a flow that no decision has reached yet."""


class Folding(NamedTuple):
    """What `fold` says of n flows."""

    traffic_class: Ints
    """n; UNDECIDED for a flow that has none yet and is held back."""
    held_back: Bools
    """n: whether the sender is to send nothing for now."""


def fold(snapshot: Snapshot, allocation: Allocation, in_force: Ints, classes: Sequence[int] = DATA_CLASSES) -> Folding:
    """A class for every flow, so that on every link a flow of a lower rank is above those of a higher one.

    `in_force`: n classes that flows have now, UNDECIDED where they have none. Only flows that meet where they can be
    in each other's way (`contended`) are kept apart, so few classes go a long way; equal ranks get one class. A flow in
    flight keeps its class or is moved down, by as little as the order demands. Were it moved up, its new packets would
    overtake those that wait in the lower class, which TCP takes for loss.

    Where that leaves too few classes, those that are first on all their links are moved up, and nobody is put above the
    class that they leave. So what they have there is served at once, too. What even so is beyond the last class is held
    back at its sender if the allocation has nothing for it now, and else shares the last class. A flow that is held
    back from the start has nothing queued, and may take any class when its time comes.
    """
    path_start, path_link = _where_contended(snapshot)
    held = _place_in_force(in_force, classes)
    nothing = np.full(snapshot.flows, UNDECIDED)
    place = _places(allocation.rank, path_start, path_link, held, nothing)
    if place.max(initial=0) >= len(classes):
        first = _places(allocation.rank, path_start, path_link, nothing, nothing) == 0
        place = _places(allocation.rank, path_start, path_link, np.where(first, UNDECIDED, held), held)
    held_back = (place >= len(classes)) & (allocation.rates_Bps == 0)
    traffic_class = np.asarray(classes, np.int64)[np.minimum(place, len(classes) - 1)]
    return Folding(np.where(held_back, in_force, traffic_class), held_back)


def contended(snapshot: Snapshot) -> Bools:
    """For each link, whether flows can be in each other's way there.

    They cannot where the first links of all flows on it together let no more through than it carries: no queue forms.
    """
    capacity = snapshot.capacity_Bps
    first = snapshot.path_link[snapshot.path_start[:-1]]
    comes_from = np.unique(np.stack((snapshot.path_link, first[snapshot.hop_flow()])), axis=1)
    inflow = np.bincount(comes_from[0], weights=capacity[comes_from[1]], minlength=snapshot.links)
    found: Bools = inflow > capacity * (1 + FEASIBILITY_TOLERANCE)
    found[first] = True
    return found


def _where_contended(snapshot: Snapshot) -> tuple[Ints, Ints]:
    """The paths of the flows, in compressed rows, less the links where they are in nobody's way."""
    counts = contended(snapshot)[snapshot.path_link]
    links = np.bincount(snapshot.hop_flow()[counts], minlength=snapshot.flows)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(links))), snapshot.path_link[counts]


def _place_in_force(in_force: Ints, classes: Sequence[int]) -> Ints:
    place_of = {traffic_class: place for place, traffic_class in enumerate(classes)}
    return np.array([place_of.get(value, UNDECIDED) for value in in_force.tolist()], np.int64)


def _places(rank: Ints, path_start: Ints, path_link: Ints, at_least: Ints, waiting: Ints) -> Ints:
    """Least places, none less than `at_least`, that rise with rank on every link; equal ranks have equal ones.

    `waiting`: places in which flows have packets queued. A flow served above those would starve them, and with them
    the whole flow before it, whose window they fill: nobody behind that flow is placed above them.
    """
    place = np.zeros(len(rank), np.int64)
    next_free = np.zeros(int(path_link.max(initial=-1)) + 1, np.int64)  # by link: below all flows placed so far
    order = np.argsort(rank, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(rank[order])) + 1):
        links = np.concatenate([path_link[path_start[row] : path_start[row + 1]] for row in rows.tolist()] or [rows])
        own = max(int(next_free[links].max(initial=0)), int(at_least[rows].max(initial=0)))
        place[rows] = own
        next_free[links] = max(own + 1, int(waiting[rows].max(initial=UNDECIDED)))
    return place
