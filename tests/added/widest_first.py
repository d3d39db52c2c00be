"""The Coflow with most flows first: what a policy looks like that is only tried out.

Coflows go by the number of their flows in flight, the largest first, and then by their stable ids. The flows of a Coflow
share fairly all that they can use.

**Knows** which flows belong together. **Cost.** O(n log n + nh).
"""

from __future__ import annotations

import numpy as np

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, stages_of
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "Coflows"
ENFORCER = "priority"
KNOWS_SIZES = False
WORK_CONSERVING = True


def allocate(snapshot: Snapshot) -> Allocation:
    """Coflows by their number of flows.

    Example: each Coflow has one flow, so the ids decide.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 10.0 MB/s, place 0
        short: 0.0 MB/s, place 1
    """
    width = np.bincount(snapshot.coflow, minlength=len(snapshot.coflows.id))
    rank = dense_rank([-width[snapshot.coflow], snapshot.coflows.id[snapshot.coflow]])
    return Allocation(greedy(snapshot, stages_of(rank)), rank)
