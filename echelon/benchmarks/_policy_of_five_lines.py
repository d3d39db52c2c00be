"""A policy as a user would write one, in numpy: its cost is measured by `echelon bench decisions`."""

from __future__ import annotations

import numpy as np

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, stages_of
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.snapshot import Snapshot

ENFORCER = "priority"


def allocate(snapshot: Snapshot) -> Allocation:
    """Flows in order of release."""
    rank = dense_rank([np.rint(snapshot.release_s * 1e6).astype(np.int64), snapshot.flow_id])
    return Allocation(greedy(snapshot, stages_of(rank)), rank)
