"""Keeps flows apart on the links where they meet, and nowhere else: the testbed's own way.

Few classes go a long way so: flows that never queue behind each other may share one. Where classes run out all the same,
flows for which the allocation has nothing wait at their senders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Bools, Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.folding import UNDECIDED, Folding, contended
from echelonflow.scheduling.snapshot import Snapshot

HOLDS_BACK = True
SPARED = 3
"""One part in so many of the classes is spared for whoever comes later and goes first. Half of them would leave too few for flows that queue up."""


def fold(snapshot: Snapshot, allocation: Allocation, in_force: Ints, classes: Sequence[int]) -> Folding:
    """A class for every flow, so that on every link a flow of a lower rank is above those of a higher one.

    `in_force`: n classes that flows have now, UNDECIDED where they have none. Only flows that meet where they can be
    in each other's way (`contended`) are kept apart, so few classes go a long way; equal ranks get one class. A flow in
    flight keeps its class or is moved down, by as little as the order demands. Were it moved up, its new packets would
    overtake those that wait in the lower class, which TCP takes for loss.

    A new flow leaves a third of the classes that it might have free above it, unless the order demands otherwise. So whoever is to go before it later
    finds one that has none of its packets. Were it moved down for him, all that it has queued would share his class until it is gone:
    tens of milliseconds where links are slow.

    Where that leaves too few classes, flows that wait take none: those for which the allocation has nothing now, while
    others use a link of theirs. First it is those that have no class yet, then all. They are held back at their
    senders. One that is held back from the start has nothing queued, and may take any class when its time comes. So
    many flows one after another need nobody to be moved up.

    Where that is not enough either, those that are first on all their links are moved up, and nobody is put above the
    class that they leave. So what they have there is served at once, too. What even so is beyond the last class shares
    it.
    """
    path_start, path_link = _where_contended(snapshot)
    order = _Order(allocation.rank, path_start, path_link)
    held = _place_in_force(in_force, classes)
    waits = _wait(snapshot, allocation)
    last = len(classes) - 1
    for left_out in (np.zeros_like(waits), waits & (held == UNDECIDED), waits):
        place = order.places(held, ~left_out)
        if not ((place > last) & ~waits).any():
            place = order.lowered(place, held, last)
            break
    else:
        first = order.places(np.full_like(held, UNDECIDED), ~waits) == 0
        place = order.places(np.where(first, UNDECIDED, held), ~waits, queued=held)
    held_back = waits & ((place > last) | (place == UNDECIDED))
    traffic_class = np.asarray(classes, np.int64)[np.clip(place, 0, last)]
    return Folding(np.where(held_back, in_force, traffic_class), held_back)


def _wait(snapshot: Snapshot, allocation: Allocation) -> Bools:
    """The flows that may be held back: the allocation has nothing for them, and others use a link of theirs."""
    sends = allocation.rates_Bps > 0
    return snapshot.beside(sends) & ~sends


def _where_contended(snapshot: Snapshot) -> tuple[Ints, Ints]:
    """The paths of the flows, in compressed rows, less the links where they are in nobody's way."""
    counts = contended(snapshot)[snapshot.path_link]
    links = np.bincount(snapshot.hop_flow()[counts], minlength=snapshot.flows)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(links))), snapshot.path_link[counts]


def _place_in_force(in_force: Ints, classes: Sequence[int]) -> Ints:
    place_of = {traffic_class: place for place, traffic_class in enumerate(classes)}
    return np.array([place_of.get(value, UNDECIDED) for value in in_force.tolist()], np.int64)


@dataclass(frozen=True)
class _Order:
    """The flows' ranks, and the links on which they are to be kept apart, in compressed rows."""

    rank: Ints
    path_start: Ints
    path_link: Ints

    def places(self, at_least: Ints, taking_part: Bools, queued: Ints | None = None) -> Ints:
        """Least places, none less than `at_least`, that rise with rank on every link; equal ranks have equal ones.

        Flows that do not take part are in nobody's way, and are UNDECIDED. `queued`: places in which flows have packets.
        A flow served above those would starve them, and with them the whole flow before it, whose window they fill:
        nobody behind that flow is placed above them.
        """
        return self._placed(self._equals(taking_part), at_least, queued)

    def _placed(self, equals: Sequence[tuple[Ints, Ints]], at_least: Ints, queued: Ints | None = None) -> Ints:
        place = np.full(len(self.rank), UNDECIDED)
        next_free = np.zeros(self._links, np.int64)  # by link: below all placed so far
        for rows, links in equals:
            own = max(int(next_free[links].max(initial=0)), int(at_least[rows].max(initial=0)))
            place[rows] = own
            kept_free = UNDECIDED if queued is None else int(queued[rows].max(initial=UNDECIDED))
            next_free[links] = max(own + 1, kept_free)
        return place

    def lowered(self, least: Ints, held: Ints, last: int) -> Ints:
        """The `least` places, but of new flows, which hold none yet: those go lower, by up to a third, as far as flows behind them leave room.

        Who has no place, or one beyond the `last`, keeps what he has. Places rise with rank on every link as before. For the greatest place that
        a new flow may have rises with it, and what it would have if none went into the first third. So does what lies a third of
        the way from its least place to its greatest, and so do the greater and the lesser of two of these.
        """
        taking_part = (least != UNDECIDED) & (least <= last)
        is_new = taking_part & (held == UNDECIDED)
        if not is_new.any():
            return least
        equals = self._equals(taking_part)
        low = self._placed(equals, np.where(is_new, last // SPARED, held))
        place: Ints = least.copy()
        lowest = np.full(self._links, last, np.int64)  # by link: above all placed so far
        for rows, links in reversed(equals):
            greatest = int(lowest[links].min(initial=last))
            moves = is_new[rows].all()
            highest = int(least[rows[0]])
            between = highest + (greatest - highest) // SPARED
            place[rows] = min(greatest, max(int(low[rows[0]]), between)) if moves else highest
            lowest[links] = (greatest if moves else highest) - 1
        return place

    @property
    def _links(self) -> int:
        return int(self.path_link.max(initial=-1)) + 1

    def _equals(self, taking_part: Bools) -> list[tuple[Ints, Ints]]:
        """Flows of equal rank among those that take part, and their links; in the order of ranks."""
        order = np.argsort(self.rank, kind="stable")
        order = order[taking_part[order]]
        found = []
        for rows in np.split(order, np.flatnonzero(np.diff(self.rank[order])) + 1):
            paths = [self.path_link[self.path_start[row] : self.path_start[row + 1]] for row in rows.tolist()]
            found.append((rows, np.concatenate(paths or [rows])))
        return found
