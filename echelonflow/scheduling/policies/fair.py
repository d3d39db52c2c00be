"""Per-flow fair sharing: what TCP approximates when nobody schedules.

Max-min fair rates over the flows' paths (Bertsekas and Gallager, Data Networks, section 6.5.2). All
flows share one place in the order, so that on real packets they share one class and TCP shares it out.

**Knows** paths alone. **Cost.** At most L rounds, each O(nh).
"""

from __future__ import annotations

import numpy as np

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import max_min
from echelonflow.scheduling.forms import Form
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "flows"
ENFORCER = "priority"
KNOWS_SIZES = False
WORK_CONSERVING = True
STARVATION_FREE = True


def allocate(snapshot: Snapshot) -> Allocation:
    """Equal shares of every bottleneck.

    Example: two flows on one link get half of it each.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 5.0 MB/s, place 0
        short: 5.0 MB/s, place 0
    """
    rows = np.arange(snapshot.flows, dtype=np.int64)
    rates = max_min(snapshot, rows, np.ones(snapshot.flows), snapshot.capacity_Bps.copy())
    return Allocation(rates, np.zeros(snapshot.flows, np.int64))


def form() -> Form:
    """The same as data."""
    return Form((), "greedy")
