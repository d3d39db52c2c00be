"""Shortest remaining first, flow by flow: the flow with the fewest bytes left is served first.

Optimal for the mean completion time of flows on one link (Schrage, Operations Research 1968). On a network it is what
pFabric (SIGCOMM '13, section 3) and PDQ (SIGCOMM '12, section 2) approximate. It knows all sizes and nothing of groups.
A long flow waits for as long as shorter ones keep coming.

**Knows** sizes; nothing of groups. **Cost.** O(n log n + nh).
"""

from __future__ import annotations

import numpy as np

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, stages_of
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "flows"
ENFORCER = "priority"
WORK_CONSERVING = True


def allocate(snapshot: Snapshot) -> Allocation:
    """Flows by remaining bytes, whole bytes: parts of one are rounding.

    Example: the short flow has 10 MB left and the long one 20, so the long one waits.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 0.0 MB/s, place 1
        short: 10.0 MB/s, place 0
    """
    rank = dense_rank([np.rint(snapshot.remaining_bytes).astype(np.int64), snapshot.flow_id])
    return Allocation(greedy(snapshot, stages_of(rank)), rank)


def form() -> Form:
    """The same as data."""
    return Form((Key("most_left_bytes", "flow"), Key("id", "flow")), "greedy")
