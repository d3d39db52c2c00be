"""Each class has as many places of the order as any other.

Crux (SIGCOMM '24, section 4.3) says of Varys that it compresses priorities so.
"""

from __future__ import annotations

from collections.abc import Sequence

from echelonflow.model.arrays import Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.folding import Folding, by_level, positions
from echelonflow.scheduling.snapshot import Snapshot


def fold(snapshot: Snapshot, allocation: Allocation, in_force: Ints, classes: Sequence[int]) -> Folding:
    """Places in equal parts, in their order. O(n log n)."""
    place, places = positions(allocation)
    return by_level(place if places <= len(classes) else place * len(classes) // places, classes)
