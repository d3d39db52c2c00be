"""What orders go by, of flows and sets of flows, where more than one policy or form needs it."""

from __future__ import annotations

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.fill import quantised
from echelonflow.scheduling.snapshot import JobTable, Snapshot

_STEPS_PER_E = 1e9
"""Intensities are ordered by their logarithm in such steps: a difference of 1e-9 of one is rounding."""


def drawn(ids: Ints, seed: int) -> Ints:
    """A number for each id, as good as random, that depends on nothing but the id and the seed."""
    bits = ids.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Ints = (bits ^ (bits >> np.uint64(31))).astype(np.int64)
    return found


def intensity(jobs: JobTable) -> Ints:
    """Logarithm of computation over time alone of each job, in whole steps; below all others where none was declared."""
    declared = jobs.compute_s > 0
    logarithm = np.log(np.where(declared, jobs.compute_s, 1.0)) - np.log(jobs.alone_s)
    return np.where(declared, np.rint(logarithm * _STEPS_PER_E), -(2.0**62)).astype(np.int64)


def layer(snapshot: Snapshot) -> Ints:
    """The layers of the n flows; the first one where their jobs declared no clock."""
    return np.zeros(snapshot.flows, np.int64) if snapshot.clock is None else snapshot.clock.layer


def coflow_due(snapshot: Snapshot, *, by_own_pace: bool = False, of_own_iteration: bool = False) -> Ints:
    """The earliest such moment among the flows in flight of each of the c Coflows, in whole microseconds."""
    earliest_s = np.full(len(snapshot.coflows.id), np.inf)
    due_s = clock_due_s(snapshot, by_own_pace=by_own_pace, of_own_iteration=of_own_iteration)
    np.minimum.at(earliest_s, snapshot.coflow, due_s)
    return quantised(earliest_s)


def clock_due_s(snapshot: Snapshot, *, by_own_pace: bool, of_own_iteration: bool) -> Floats:
    """The n latest moments at which flows may end for the next iterations of their jobs to end in time.

    In the time that the jobs under way can keep up together, or `by_own_pace` in the time that each needs alone. Or the
    moments for the end `of_own_iteration`. The ideal finish of the paper where there is no clock.
    """
    clock = snapshot.clock
    if clock is None:
        return snapshot.ideal_finish_s
    jobs = clock.under_way
    steady_s = jobs.iteration_s if by_own_pace else jobs.together_s
    row = np.searchsorted(jobs.id, snapshot.jobs.id)
    known = np.zeros(len(row), bool)
    inside = row < len(jobs.id)
    known[inside] = jobs.id[row[inside]] == snapshot.jobs.id[inside]
    of_job = np.full(len(row), np.nan)
    of_job[known] = steady_s[row[known]]
    pace_s = of_job[snapshot.groups.job[snapshot.group]]
    if of_own_iteration:
        due_s = clock.ended_s + (clock.behind - 1) * pace_s - clock.to_end_s
    else:
        due_s = clock.ended_s + clock.behind * pace_s - clock.tail_s
    return np.where(np.isfinite(due_s), due_s, snapshot.ideal_finish_s)
