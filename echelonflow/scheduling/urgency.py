"""What EchelonFlow orders by: how much time groups, stages and jobs still need, and how late they are or would be.

A stage is the flows of a group with the same ideal finish time. All values are in seconds, so they are the same
for twice the bytes on a network twice as fast. "Pending" bytes are declared but not yet released.
"""

from __future__ import annotations

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling import kernels
from echelonflow.scheduling.fill import (
    by_ideal_finish,
    dense_rank,
    effective_bottleneck_s,
    least_tardiness_s,
    quantised,
)
from echelonflow.scheduling.snapshot import Snapshot

_NEVER = np.iinfo(np.int64).max


def group_bottleneck_s(snapshot: Snapshot, *, pending: bool) -> Floats:
    """Γ of what is left of each group, with or without pending bytes: seconds at its slowest link, alone."""
    groups, links = snapshot.groups, snapshot.links
    if not pending:
        return effective_bottleneck_s(snapshot, snapshot.group, len(groups.id))
    hop_flow = snapshot.hop_flow()
    waiting = np.repeat(np.arange(len(groups.id), dtype=np.int64), np.diff(groups.pending_start))
    cell = np.concatenate(
        (snapshot.group[hop_flow] * links + snapshot.path_link, waiting * links + groups.pending_link)
    )
    size_bytes = np.concatenate((snapshot.remaining_bytes[hop_flow], groups.pending_bytes))
    found, inverse = np.unique(cell, return_inverse=True)
    volume = np.bincount(inverse, weights=size_bytes, minlength=len(found))
    longest: Floats = np.zeros(len(groups.id))
    np.maximum.at(longest, found // links, volume / snapshot.capacity_Bps[found % links])
    return longest


def group_tardiness_s(snapshot: Snapshot, *, pending: bool) -> Floats:
    """τ_H of each group (`fill.least_tardiness_s`), with or without what pending bytes add to it.

    Of pending flows only their sum on each link is known, and that none is due after the group's last ideal finish,
    r + span. Let V be all of the group's bytes on a link. Whatever is released when, its last byte there comes at now +
    V / c at the earliest. So τ >= now + V / c - (r + span).
    """
    tardiness_s = least_tardiness_s(snapshot)
    if not pending:
        return tardiness_s
    last_due_s = snapshot.groups.reference_s + snapshot.groups.span_s
    return np.maximum(tardiness_s, snapshot.now_s + group_bottleneck_s(snapshot, pending=True) - last_due_s)


def stage_bottleneck_s(snapshot: Snapshot) -> Floats:
    """For each flow, Γ of its group's flows in flight up to and with its own stage; equal within a stage.

    That is the earliest that the stage can end, from now, if the group is alone and served in order of ideal finish.
    A stage counts no less than those before it, also where they share no link.
    """
    if snapshot.flows == 0:
        return np.zeros(0)
    ideal = quantised(snapshot.ideal_finish_s)
    sets = by_ideal_finish(snapshot)
    rows = sets.rows
    needed_s = np.zeros(snapshot.flows)
    kernels.needed(
        sets.start, rows, *map(np.ascontiguousarray, (snapshot.path_start, snapshot.path_link)),
        *map(np.ascontiguousarray, (snapshot.remaining_bytes, snapshot.capacity_Bps)),
        needed_s, np.zeros(snapshot.links), np.empty(snapshot.links, np.int64),
    )  # fmt: skip
    group, ideal = snapshot.group[rows], ideal[rows]
    last = np.flatnonzero(np.append((group[1:] != group[:-1]) | (ideal[1:] != ideal[:-1]), True))
    of_stage = np.empty(snapshot.flows)
    of_stage[rows] = np.repeat(needed_s[last], np.diff(last, prepend=-1))
    return of_stage


def modified_due_s(snapshot: Snapshot) -> Floats:
    """For each flow, when its stage should end, from now: when it is due, or as soon as it can if that is later.

    The modified due date of Baker and Bertrand (J. Operations Management, 1982) for the sum of tardiness on one
    machine, with the stage as the task. Earliest due date first among those that can be in time, shortest first among
    those that cannot. What a stage needs includes its group's stages before it. Positive.
    """
    return np.maximum(stage_bottleneck_s(snapshot), snapshot.ideal_finish_s - snapshot.now_s)


def weighted(key_s: Floats, weight: Floats) -> Ints:
    """Whole quanta of a key, smallest first, where more weight means sooner.

    Divided by the weight, as in Smith's rule; a key below zero is multiplied, or weight would put it off.
    """
    return quantised(np.where(key_s >= 0, key_s / weight, key_s * weight))


def overdue_moments_s(snapshot: Snapshot, patience: float) -> Floats:
    """When each group's patience ends: r + span + patience * (its time alone); infinite for infinite patience."""
    groups = snapshot.groups
    if np.isinf(patience):
        return np.full(len(groups.id), np.inf)
    moments: Floats = groups.reference_s + groups.span_s + patience * groups.alone_s
    return moments


def overdue_order(snapshot: Snapshot, moments_s: Floats) -> Ints:
    """Place of each group that is overdue, by the moment since when; all others share the last place."""
    return dense_rank([np.where(moments_s <= snapshot.now_s, quantised(moments_s), _NEVER)])


def job_keys(snapshot: Snapshot) -> list[Ints]:
    """For each flow, what its job is ordered by where small jobs go first: the time that an iteration's bytes need alone."""
    job, jobs = snapshot.groups.job[snapshot.group], snapshot.jobs
    weight = snapshot.groups.weight_of_jobs(len(jobs.id))
    return [weighted(jobs.alone_s, weight)[job], jobs.id[job]]
