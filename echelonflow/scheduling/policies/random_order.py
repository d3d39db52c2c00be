"""A random order that is kept: what any order at all brings, without knowing anything.

Every flow, Coflow or EchelonFlow (`of`) draws its place once, and keeps it until it has finished. The place is a hash
of its stable id and `seed` (the finaliser of SplitMix64; Steele, Lea and Flood, OOPSLA '14, section 3). So a decision
changes nothing but what came or went. The flows of one set share fairly. Iterations draw anew.

**Knows** nothing. **Cost.** O(n log n + nh).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from echelonflow.model.arrays import Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, stages_of
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "flows"
ENFORCER = "priority"
KNOWS_SIZES = False
WORK_CONSERVING = True


def allocate(snapshot: Snapshot, *, seed: int = 0, of: Literal["flow", "coflow", "group"] = "flow") -> Allocation:
    """Flows, Coflows or EchelonFlows in an order drawn by `seed`.

    Example: with seed 0 the long flow draws the first place, with seed 4 the short one.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 10.0 MB/s, place 0
        short: 0.0 MB/s, place 1
        >>> example.show(allocate(example.snapshot, seed=4))
        long: 0.0 MB/s, place 1
        short: 10.0 MB/s, place 0
    """
    if of == "flow":
        member = snapshot.flow_id
    else:
        member = snapshot.coflows.id[snapshot.coflow] if of == "coflow" else snapshot.groups.id[snapshot.group]
    rank = dense_rank([_drawn(member, seed), member])
    return Allocation(greedy(snapshot, stages_of(rank)), rank)


def _drawn(ids: Ints, seed: int) -> Ints:
    """A number for each id, as good as random, that depends on nothing but the id and the seed."""
    bits = ids.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    drawn: Ints = (bits ^ (bits >> np.uint64(31))).astype(np.int64)
    return drawn
