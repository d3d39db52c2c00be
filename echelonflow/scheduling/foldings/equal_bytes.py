"""Each class has about as many bytes still to be sent as any other.

Places of the order are taken in turn. A place belongs to the class in which the middle of its bytes lies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from echelonflow.model.arrays import Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.folding import Folding, by_level, positions
from echelonflow.scheduling.snapshot import Snapshot


def fold(snapshot: Snapshot, allocation: Allocation, in_force: Ints, classes: Sequence[int]) -> Folding:
    """Places by the bytes of those before them. O(n log n)."""
    place, places = positions(allocation)
    if places <= len(classes):
        return by_level(place, classes)
    of_place = np.bincount(place, weights=snapshot.remaining_bytes, minlength=places)
    middle = np.cumsum(of_place) - of_place / 2
    share = middle / max(float(of_place.sum()), 1.0)
    level = np.minimum((share * len(classes)).astype(np.int64), len(classes) - 1)
    return by_level(level[place], classes)
