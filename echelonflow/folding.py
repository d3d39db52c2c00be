"""How an order of flows is folded into few traffic classes: by the controller, and by simulations with classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from echelonflow.allocation import FEASIBILITY_TOLERANCE
from echelonflow.classes import DATA_CLASSES
from echelonflow.snapshot import Bools, Ints, Snapshot

UNDECIDED = -1
"""Class of a flow that no decision has reached yet."""


def fold(snapshot: Snapshot, rank: Ints, in_force: Ints, classes: Sequence[int] = DATA_CLASSES) -> Ints:
    """A class for every flow, so that on every link a flow of a lower rank is above those of a higher one.

    `rank`: n places in the order (0 is served first; equal ranks share, and get one class); `in_force`: n classes that
    flows have now, UNDECIDED where they have none. Only flows that meet where they can be in each other's way
    (`contended`) are kept apart, so few classes go a long way. A flow in flight keeps its class or is moved down, by as
    little as the order demands: moved up, its new packets would overtake those that wait in the lower class, which TCP
    takes for loss. Where that leaves too few classes, those that are first on all their links are moved up, with nobody
    put above the class that they leave: they are served at once, whatever they have there. Where even so there are too
    few, what comes last in the order shares the last one. Returns n classes.
    """
    path_start, path_link = _where_contended(snapshot)
    held = _place_in_force(in_force, classes)
    nothing = np.full(len(rank), UNDECIDED)
    place = _places(rank, path_start, path_link, held, nothing)
    if len(place) and place.max() >= len(classes):
        first = _places(rank, path_start, path_link, nothing, nothing) == 0
        place = _places(rank, path_start, path_link, np.where(first, UNDECIDED, held), held)
    return np.asarray(classes, np.int64)[np.minimum(place, len(classes) - 1)]


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
