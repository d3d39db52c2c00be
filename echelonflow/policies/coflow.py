"""Coflow scheduling as Varys does it: smallest effective bottleneck first, flows finish together.

Varys (SIGCOMM '14): Coflows in the order of Γ, the time that what is left of each needs at its slowest
link (SEBF); each gets the least rates at which its flows finish together (MADD) out of what those before
it left; spare capacity goes out in the same order. A Coflow of weight w counts as Γ / w.

`grouping=collective` takes each collective and each micro-batch's transfer as a Coflow of its own, as a
Coflow user would; `grouping=group` takes a whole EchelonFlow as one Coflow (the EchelonFlow paper, Fig. 2b).
Its flows share a class, so on real packets only rates can express it.
"""

from __future__ import annotations

from typing import Literal

from echelonflow.allocation import Allocation
from echelonflow.fill import dense_rank, effective_bottleneck_s, quantised, serve_in_order, stages_of
from echelonflow.snapshot import Snapshot

ENFORCER = "rate"


def allocate(snapshot: Snapshot, *, grouping: Literal["collective", "group"] = "collective") -> Allocation:
    """SEBF order, MADD rates, work-conserving."""
    member, table = (
        (snapshot.coflow, snapshot.coflows) if grouping == "collective" else (snapshot.group, snapshot.groups)
    )
    bottleneck = effective_bottleneck_s(snapshot, member, len(table.id)) / table.weight
    rank = dense_rank([quantised(bottleneck)[member], table.id[member]])
    return Allocation(serve_in_order(snapshot, stages_of(rank)), rank)
