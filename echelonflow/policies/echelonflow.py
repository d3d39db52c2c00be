"""EchelonFlow scheduling: flows finish in the staggered order in which computation consumes them.

The EchelonFlow paper (HotNets '22), Property 4: Coflow's smallest-bottleneck-first and MADD with
tardiness in place of completion time. Groups are served in the order of a key, stages of a group (flows
with equal ideal finish time) in the order of that time, flows of a stage so that they finish together.

`order` between groups, each divided by the group's weight, smallest first:
  tardiness  τ_H, the least maximum tardiness the group can still have: the paper's literal adaptation
  remaining  Γ of what is left of the group, as Coflow's SEBF would
  extra      τ_H less the tardiness that nothing can undo
`within` a group:
  strict     a stage gets what it can use before the next gets any
  paced      in order of ideal finish time, each flow the least rate that still meets d + τ_H
Spare capacity goes out in the same order, so that no link idles that a flow could use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from echelonflow.allocation import Allocation
from echelonflow.fill import (
    add_spare,
    dense_rank,
    effective_bottleneck_s,
    least_tardiness_s,
    quantised,
    serve_in_order,
    stages_of,
    unavoidable_tardiness_s,
)
from echelonflow.snapshot import Floats, Ints, Snapshot

ENFORCER = "priority"
WORK_CONSERVING = True


def allocate(
    snapshot: Snapshot,
    *,
    order: Literal["tardiness", "remaining", "extra"] = "tardiness",
    within: Literal["strict", "paced"] = "strict",
) -> Allocation:
    """Groups by `order`, stages by ideal finish time."""
    key = _group_key(snapshot, order) / snapshot.groups.weight
    ideal = quantised(snapshot.ideal_finish_s)
    rank = dense_rank([quantised(key)[snapshot.group], snapshot.groups.id[snapshot.group], ideal])
    stages = stages_of(rank)
    if within == "strict":
        return Allocation(serve_in_order(snapshot, stages), rank)
    return Allocation(_paced(snapshot, stages), rank)


def _group_key(snapshot: Snapshot, order: str) -> Floats:
    if order == "remaining":
        return effective_bottleneck_s(snapshot, snapshot.group, len(snapshot.groups.id))
    tardiness = least_tardiness_s(snapshot)
    return tardiness if order == "tardiness" else tardiness - unavoidable_tardiness_s(snapshot)


def _paced(snapshot: Snapshot, stages: Sequence[Ints]) -> Floats:
    """Rates where each flow takes, in order, the least that meets d + τ_H out of what is left."""
    deadline_s = snapshot.ideal_finish_s + least_tardiness_s(snapshot)[snapshot.group]
    in_time = np.maximum(deadline_s - snapshot.now_s, 1e-9)
    residual = snapshot.capacity_Bps.copy()
    rates = np.zeros(snapshot.flows)
    for rows in stages:
        for row in rows[np.argsort(snapshot.flow_id[rows])]:
            path = snapshot.path_link[snapshot.path_start[row] : snapshot.path_start[row + 1]]
            rates[row] = min(snapshot.remaining_bytes[row] / in_time[row], float(residual[path].min()))
            residual[path] -= rates[row]
    np.maximum(residual, 0.0, out=residual)
    add_spare(snapshot, stages, rates, residual)
    return rates
