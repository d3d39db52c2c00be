"""The least maximum tardiness that one group can have when it is alone on the network: exact, by linear programs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats
from echelonflow.scheduling.bounds.flow_set import FlowSet
from echelonflow.scheduling.bounds.program import Program, Rows


def exact_tardiness_s(flows: FlowSet) -> float:
    """The optimum of the group in `flows` (one group), seconds; at least what it has incurred already.

    With the maximum tardiness at most τ, flow i may send in [release_i, due_i + τ]. Cut time at all these. Within an
    interval only the bytes of each flow count, since constant rates will do. So a linear program decides that has one
    variable per flow and interval, and τ. The order of the cuts changes where due_j + τ passes a release; between two
    such τ the program is exact. What is feasible stays so for larger τ, so the first feasible range is found by
    bisection. Where all flows are released, one program is solved.

    Raises InputError if there are several groups. Source: docs/design.md, "Scheduling"; deadlines that move with a bound on
    lateness as in Labetoulle, Lawler, Lenstra and Rinnooy Kan (1984), on links in place of machines.
    """
    if flows.groups != 1:
        raise InputError(f"the optimum of one group was asked for; {flows.groups} were given")
    # No flow can have less than its release and its own time on its slowest link.
    paths = flows.paths()
    own_s = np.array(
        [size / flows.capacity_Bps[path].min() for size, path in zip(flows.size_bytes, paths, strict=True)]
    )
    least_s = float(np.max(flows.release_s + own_s - flows.due_s))
    turns = np.unique(np.subtract.outer(flows.release_s, flows.due_s))
    ranges = [least_s, *turns[turns > least_s].tolist(), np.inf]
    low, high = 0, len(ranges) - 2
    best = None
    while low <= high:
        middle = (low + high) // 2
        found = _least_within(flows, ranges[middle], ranges[middle + 1])
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle - 1
    assert best is not None, "with unlimited tardiness every flow can be sent"
    return max(best, float(flows.at_least_s[0]))


@dataclass(frozen=True)
class _Cuts:
    """Cuts of time at `at_s + moves * τ`, in the order that they have for the τ in question."""

    at_s: Floats
    moves: Floats
    first: list[int]
    """For each flow, the interval in which it may begin."""
    last: list[int]
    """For each flow, the first interval in which it may not send any more."""


def _cuts(flows: FlowSet, tau_s: float) -> _Cuts:
    n = flows.flows
    at_s = np.concatenate((flows.release_s, flows.due_s))
    moves = np.concatenate((np.zeros(n), np.ones(n)))
    where = at_s + moves * tau_s
    # Equal times share one cut; between turns they are equal for all τ, or differ for all.
    _, place = np.unique(np.round(where, 12), return_inverse=True)
    order = np.zeros(place.max() + 1, np.int64)
    order[place] = np.arange(2 * n)
    return _Cuts(at_s[order], moves[order], place[:n].tolist(), place[n:].tolist())


def _least_within(flows: FlowSet, low_s: float, high_s: float) -> float | None:
    """The least feasible τ in [low, high], where the order of cuts does not change; None if there is none."""
    middle_s = (low_s + high_s) / 2 if np.isfinite(high_s) else low_s + 1.0
    cuts = _cuts(flows, middle_s)
    unit_s, unit_Bps = max(float(np.ptp(cuts.at_s)), 1e-6), float(flows.capacity_Bps.max())
    intervals = len(cuts.at_s) - 1
    bytes_row, capacity_row = Rows(), Rows()
    rows = {}
    tau = 0  # column; τ is counted from `low_s`, so that it is never negative
    column = 1
    for link in sorted(set(flows.path_link.tolist())):
        for k in range(intervals):
            share = float(flows.capacity_Bps[link]) / unit_Bps
            length_s = cuts.at_s[k + 1] - cuts.at_s[k] + (cuts.moves[k + 1] - cuts.moves[k]) * low_s
            rows[link, k] = capacity_row.add(share * float(length_s) / unit_s)
            if cuts.moves[k + 1] != cuts.moves[k]:
                capacity_row.put(rows[link, k], tau, -share * float(cuts.moves[k + 1] - cuts.moves[k]))
    for i, path in enumerate(flows.paths()):
        whole = bytes_row.add(float(flows.size_bytes[i]) / (unit_Bps * unit_s))
        for k in range(cuts.first[i], cuts.last[i]):
            bytes_row.put(whole, column, 1.0)
            for link in path.tolist():
                capacity_row.put(rows[link, k], column, 1.0)
            column += 1
    cost = np.zeros(column)
    cost[tau] = 1.0
    upper = np.full(column, np.inf)
    upper[tau] = (high_s - low_s) / unit_s
    found = Program(cost, capacity_row, bytes_row).solve(np.zeros(column), upper)
    return None if found is None else low_s + float(found[tau]) * unit_s
