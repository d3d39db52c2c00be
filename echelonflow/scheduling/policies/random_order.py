"""A random order that is kept: what any order at all brings, without knowing anything.

Every flow, Coflow or EchelonFlow (`of`) draws its place once, and keeps it until it has finished. The place is a hash
of its stable id and `seed` (the finaliser of SplitMix64; Steele, Lea and Flood, OOPSLA '14, section 3). So a decision
changes nothing but what came or went. The flows of one set share fairly. Iterations draw anew.

**Knows** nothing. **Cost.** O(n log n + nh).
"""

from __future__ import annotations

from typing import Literal

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, stages_of
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.measures import drawn
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
    rank = dense_rank([drawn(member, seed), member])
    return Allocation(greedy(snapshot, stages_of(rank)), rank)


def form(*, seed: int = 0, of: Literal["flow", "coflow", "group"] = "flow") -> Form:
    """The same as data."""
    return Form((Key("drawn", of, seed=seed), Key("id", of)), "greedy")
