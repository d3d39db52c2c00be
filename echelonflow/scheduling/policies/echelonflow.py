"""EchelonFlow scheduling: flows finish in the staggered order in which computation consumes them.

The EchelonFlow paper (HotNets '22), Property 4: Coflow's smallest-bottleneck-first and MADD with
tardiness in place of completion time. Stages of a group (flows with equal ideal finish time) are served in the order of
that time. The flows of a stage finish together. Groups, stages or jobs are served in the order of a key.

`order`, smallest first, a key divided by the weight:
  tardiness  groups by τ_H, the least maximum tardiness they can still have: the paper's literal adaptation
  remaining  groups by Γ of what is left, as Coflow's SEBF would
  extra      groups by τ_H less the tardiness that nothing can undo
  due        stages, of whatever group, by when they should end: when due, or as soon as they can if that is later
  job        jobs by the time that the bytes of one iteration need at their slowest link, alone; the stages of a job
             as by `due`. The order of jobs does not change while they run, so they fall into step
`pending` bytes, declared but not released: `count` them in the groups' τ_H and Γ, or `ignore` them.
`within` a group:
  strict     a stage gets what it can use before the next gets any
  paced      in order of ideal finish time, each flow the least rate that still meets d + τ_H
Spare capacity goes out in the same order, so that no link idles that a flow could use.

The default is `due`: where jobs go on its iterations are shorter than those of `job` at every load, and on every large network
(`docs/results.md`, "In steady state"). `clock` is shorter still. Over closed batches `job` is the shortest, as short jobs leave first
(`echelon bench forms`). Where jobs come and go the two differ by little. Where only the sum of tardiness counts,
`order=remaining,pending=count` is better.

No group starves. A group is overdue from r + span + `patience` * alone on. Here r is its reference time, r + span its
last ideal finish, and alone the time that its bytes need at its slowest link. Overdue groups go before all others, in
the order of that moment. So once a group's moment m is past, no flow of it waits for a group whose moment is later,
whatever `order` says and however many groups keep coming. On a link of capacity c, what it has in flight there ends at
the latest V / c after m. Here V is what was left at m, and is still to come, of all groups with moments up to m, itself
included. Groups that come after m have later moments, so V is finite. With patience=inf there is no such bound.

`reuse=iterations` remembers orders (`echelonflow.scheduling.reuse`). Where the same flows are in flight as in an
earlier iteration they are not ordered again. They are if the situation has drifted by more than `drift` since, or the
order is older than `interval` seconds.

With every group a Coflow and `order=remaining` it is `coflow(grouping=group)` bit for bit. On one link, one group's
maximum tardiness is the earliest-due-date optimum, in every form (both tested).

**Knows** sizes and arrangements. **Cost.** O(nh log nh).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling import kernels, urgency
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import (
    RowSets,
    add_spare,
    dense_rank,
    least_tardiness_s,
    quantised,
    serve_in_order,
    stages_of,
    unavoidable_tardiness_s,
)
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.reuse import OrderMemory
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "EchelonFlows"
ENFORCER = "priority"
WORK_CONSERVING = True
STARVATION_FREE = True

Order = Literal["tardiness", "remaining", "extra", "due", "job"]
STAGE_ORDERS = ("due", "job")
Reuse = Literal["none", "iterations"]


def validate(
    *, patience: float = 10.0, reuse: Reuse = "none", drift: float = 0.3, interval: float = math.inf, **_: object
) -> None:
    """InputError for values that make no sense."""
    if not patience > 0:
        raise InputError(f"patience is {patience}; it must be positive (inf: groups may starve)")
    if not drift >= 0:
        raise InputError(f"drift is {drift}; it must be 0 or more (0.3: by three tenths)")
    if not interval > 0:
        raise InputError(f"interval is {interval}; it must be a positive number of seconds")


def memory(*, reuse: Reuse = "none", drift: float = 0.3, interval: float = math.inf, **_: object) -> OrderMemory | None:
    """What is kept from one decision to the next."""
    return OrderMemory(drift, interval) if reuse == "iterations" else None


def allocate(
    snapshot: Snapshot,
    *,
    order: Order = "due",
    within: Literal["strict", "paced"] = "strict",
    pending: Literal["count", "ignore"] = "ignore",
    patience: float = 10.0,
    reuse: Reuse = "none",
    drift: float = 0.3,
    interval: float = math.inf,
    memory: OrderMemory | None = None,
) -> Allocation:
    """Overdue groups first, then by `order`; valid until the next group is overdue.

    Example: the first micro-batch is wanted a second before the second one, so it is sent first. `paced` gives it only
    what both need to be equally late.

        >>> from echelonflow.scheduling.examples import two_micro_batches
        >>> example = two_micro_batches()
        >>> example.show(allocate(example.snapshot))
        first: 10.0 MB/s, place 0
        second: 0.0 MB/s, place 1
        >>> example.show(allocate(example.snapshot, within="paced"))
        first: 6.7 MB/s, place 0
        second: 3.3 MB/s, place 1
    """

    def compute() -> Ints:
        return dense_rank(_keys(snapshot, order, pending == "count"))

    rank = compute() if memory is None else memory.rank(snapshot, compute)
    moments_s = urgency.overdue_moments_s(snapshot, patience)
    if np.any(moments_s <= snapshot.now_s):
        rank = dense_rank([urgency.overdue_order(snapshot, moments_s)[snapshot.group], rank])
    stages = stages_of(rank)
    rates = serve_in_order(snapshot, stages) if within == "strict" else _paced(snapshot, stages)
    to_come_s = moments_s[moments_s > snapshot.now_s]
    return Allocation(rates, rank, float(to_come_s.min(initial=math.inf)))


def form(
    *,
    order: Order = "due",
    within: Literal["strict", "paced"] = "strict",
    pending: Literal["count", "ignore"] = "ignore",
    patience: float = 10.0,
    reuse: Reuse = "none",
    **_: object,
) -> Form | None:
    """The same as data; none where orders are remembered."""
    if reuse != "none":
        return None
    due = Key("due_in_s", "stage", per_weight=True)
    first: dict[str, tuple[Key, ...]] = {
        "tardiness": (Key("tardiness_s", "group", per_weight=True),),
        "remaining": (Key("bottleneck_s", "group", per_weight=True),),
        "extra": (Key("extra_s", "group", per_weight=True),),
        "due": (due,),
        "job": (Key("alone_s", "job", per_weight=True), Key("id", "job"), due),
    }
    keys = (*first[order], Key("id", "group"), Key("due_s", "stage"))
    counts_pending = pending == "count" and order not in STAGE_ORDERS
    return Form(keys, "madd" if within == "strict" else "paced", patience=patience, counts_pending=counts_pending)


def _keys(snapshot: Snapshot, order: Order, pending: bool) -> list[Ints]:
    """For each flow, what it is ordered by, then what breaks ties; the flows of a stage are equal in all."""
    group, groups = snapshot.group, snapshot.groups
    ties = [groups.id[group], quantised(snapshot.ideal_finish_s)]
    if order not in STAGE_ORDERS:
        return [urgency.weighted(_group_key_s(snapshot, order, pending), groups.weight)[group], *ties]
    due = urgency.weighted(urgency.modified_due_s(snapshot), groups.weight[group])
    return [*(urgency.job_keys(snapshot) if order == "job" else ()), due, *ties]


def _group_key_s(snapshot: Snapshot, order: Order, pending: bool) -> Floats:
    if order == "remaining":
        return urgency.group_bottleneck_s(snapshot, pending=pending)
    tardiness_s = urgency.group_tardiness_s(snapshot, pending=pending)
    return tardiness_s if order == "tardiness" else tardiness_s - unavoidable_tardiness_s(snapshot)


def _paced(snapshot: Snapshot, stages: RowSets) -> Floats:
    """Rates where each flow takes, in order, the least that meets d + τ_H out of what is left."""
    deadline_s = snapshot.ideal_finish_s + least_tardiness_s(snapshot)[snapshot.group]
    wanted_Bps = snapshot.remaining_bytes / np.maximum(deadline_s - snapshot.now_s, 1e-9)
    place = np.repeat(np.arange(len(stages)), np.diff(stages.start))
    rows = stages.rows[np.lexsort((snapshot.flow_id[stages.rows], place))]
    residual = snapshot.capacity_Bps.copy()
    rates = np.zeros(snapshot.flows)
    kernels.paced(rows, snapshot.path_start, snapshot.path_link, wanted_Bps, residual, rates)
    np.maximum(residual, 0.0, out=residual)
    add_spare(snapshot, stages, rates, residual)
    return rates
