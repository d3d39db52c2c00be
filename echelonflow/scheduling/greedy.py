"""Service in an order that nobody may overtake: what priority queues over TCP do, in the limit.

Coflow's own service (MADD, then spare capacity) is in `fill`; here a set of flows takes all that it can use.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.fill import max_min_in_order
from echelonflow.scheduling.snapshot import Snapshot


def greedy(snapshot: Snapshot, stages: Sequence[Ints]) -> Floats:
    """Rates when each of `stages` (disjoint sets of rows, all rows among them), in order, takes what it can use.

    The flows of a stage share max-min fairly what the stages before left on their links. So no link that a flow could
    use stays idle, and no stage slows one before it. These are the greedy, order-preserving rates of Sincronia (SIGCOMM
    '18, section 3.2). Reads no sizes. Returns bytes/s, one per flow.
    """
    rates = np.zeros(snapshot.flows)
    max_min_in_order(snapshot, stages, np.ones(snapshot.flows), rates, snapshot.capacity_Bps.copy())
    return rates
