"""The first places of the order have a class each; all others share the last one.

That is how Sincronia is compressed to the priorities of a switch (Crux, SIGCOMM '24, section 4.3, calls it so).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from echelonflow.model.arrays import Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.folding import Folding, by_level, positions
from echelonflow.scheduling.snapshot import Snapshot


def fold(snapshot: Snapshot, allocation: Allocation, in_force: Ints, classes: Sequence[int]) -> Folding:
    """Class by place in the order, the last class for all places beyond. O(n log n)."""
    place, _ = positions(allocation)
    return by_level(np.minimum(place, len(classes) - 1), classes)
