"""A lower bound on the weighted sum of the tardiness of several groups that share a network."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace

import numpy as np

from echelonflow.errors import RunError
from echelonflow.model.arrays import Floats
from echelonflow.scheduling.bounds.flow_set import FlowSet, compressed
from echelonflow.scheduling.bounds.one_group import exact_tardiness_s
from echelonflow.scheduling.bounds.program import Program, Rows

INTERVALS = 80
"""Intervals that time is cut into; more make the bound tighter (error: about half an interval) and slower."""
MOST_EXACT_FLOWS = 40
"""Groups with more flows than this are bounded link by link, not by their exact optimum."""
MOST_SETS = 16
CLOSE = 1e-3
"""Relative improvement of a bound that is not worth another program."""


@dataclass(frozen=True)
class SumBound:
    """`total_s` bounds the weighted sum of tardiness; `alone_s` (g) bounds each group's own, whatever else is there."""

    total_s: float
    alone_s: Floats
    programs: int
    """Linear programs that were solved."""


def sum_of_tardiness(
    flows: FlowSet, intervals: int = INTERVALS, *, programs: int = 1, enough_s: float = math.inf, exact: bool = True
) -> SumBound:
    """No schedule has a smaller sum of weight times tardiness than `total_s`, seconds.

    Proof. Take any schedule, fluid and preemptive, and let x_ik be the bytes of flow i sent in interval k of a grid
    (the last interval has no end). (1) The x_ik of a flow add up to its size, and in each interval each link
    carries at most capacity times length. (2) Let S be flows of one group H on one link of capacity c, and V their
    bytes. Let M be the mean, over these bytes, of the moment at which each crosses the link. All cross at a rate of at
    most c, and the last at C_S, so that M <= C_S - V / 2c. Some flow of S ends at C_S; its due time is at most D_S, the
    latest of S, so C_S <= D_S + T_H. (3) A byte sent in interval k is sent at max(start of k, release) or later: sum of
    x_ik * max(start_k, release_i) <= V * M. Together T_H >= sum(x_ik * max(start_k, release_i)) / V
    + V / 2c - D_S for every S: linear in x and T. So every schedule is a point of the linear program below, whose
    optimum therefore is a bound. Used for S are, on each link, the first flows of H in order of due time. (4) T_H is
    at least what H could have alone, as computed exactly (`exact`; otherwise link by link).

    With `programs` > 1 the bound is made tighter by branching. Either T_H <= m, and then no flow of H is sent in an
    interval that begins after due time + m; or T_H >= m. Each is again such a program, and the smaller optimum bounds.
    The least bound is split next, at the group whose bytes end latest after its T_H. This goes on until `programs` are
    solved or the bound is within 0.1 % of `enough_s` (what some schedule reaches). On one link, with equal releases and
    every group a Coflow, one program is tight but for the grid. The reason is mean busy times (Goemans, Queyranne,
    Schulz, Skutella and Wang, SIAM J. Discrete Math. 2002).

    Raises RunError if the solver fails.
    """
    merged = _merged(flows)
    alone_s = np.array([_alone_s(merged.only(g), exact) for g in range(merged.groups)])
    relaxed = _Relaxation(merged, alone_s, intervals)
    first = relaxed.solve(np.zeros(merged.groups), np.full(merged.groups, np.inf))
    if first is None:
        raise RunError("the bound's linear program has no solution; this is a fault of the program")
    open_nodes = [(first.total_s, 0, first)]
    solved = 1
    while solved < programs:
        bound_s, _, node = open_nodes[0]
        group = int(np.argmax(merged.weight * (node.ends_s - node.late_s)))
        loose_s = float(merged.weight[group] * (node.ends_s - node.late_s)[group])
        if min(loose_s, enough_s - bound_s) <= CLOSE * abs(bound_s):
            break
        heapq.heappop(open_nodes)
        middle_s = (node.late_s[group] + node.ends_s[group]) / 2
        for low_s, high_s in ((node.low_s[group], middle_s), (middle_s, node.high_s[group])):
            low, high = node.low_s.copy(), node.high_s.copy()
            low[group], high[group] = low_s, high_s
            child = relaxed.solve(low, high)
            solved += 1
            if child is not None:
                heapq.heappush(open_nodes, (max(child.total_s, bound_s), solved, child))
    return SumBound(open_nodes[0][0], alone_s, solved)


@dataclass(frozen=True, eq=False)
class _Node:
    """A solved relaxation where the tardiness of each group, beyond what it has alone, lies in [low, high]."""

    low_s: Floats
    high_s: Floats
    late_s: Floats
    """g; the program's tardiness of each group, beyond what it has alone."""
    ends_s: Floats
    """g; the tardiness that the last bytes of each group have in the program's own schedule."""
    total_s: float


class _Relaxation:
    """The linear program: the tardiness of each group beyond what it has alone, then bytes per flow and interval."""

    def __init__(self, flows: FlowSet, alone_s: Floats, intervals: int) -> None:
        self._flows, self._alone_s = flows, alone_s
        grid_s = _grid_s(flows, intervals)
        # Units that make all numbers moderate, whatever the network's speed.
        self._unit_s, unit_Bps = max(float(np.ptp(grid_s)), 1e-6), float(flows.capacity_Bps.max())
        sizes = flows.size_bytes / (unit_Bps * self._unit_s)
        self._first = (np.searchsorted(grid_s, flows.release_s, side="right") - 1).clip(0)
        counts = len(grid_s) - self._first
        self._start = np.cumsum([0, *counts.tolist()]) + flows.groups
        variables = int(self._start[-1])
        self._interval = np.concatenate([np.arange(first, len(grid_s)) for first in self._first])
        self._flow = np.repeat(np.arange(flows.flows), counts)
        self._begin_s, self._end_s = grid_s[self._interval], np.append(grid_s[1:], np.inf)[self._interval]
        at_most, equal = Rows(), Rows()
        self._limit_links(at_most, grid_s, unit_Bps)
        for i in range(flows.flows):
            columns = np.arange(self._start[i], self._start[i + 1])
            equal.put_all(equal.add(float(sizes[i])), columns, np.ones(len(columns)))
        self._tie_tardiness(at_most, sizes, float(grid_s[0]), unit_Bps)
        cost = np.zeros(variables)
        cost[: flows.groups] = flows.weight
        self._program = Program(cost, at_most, equal)

    def _limit_links(self, at_most: Rows, grid_s: Floats, unit_Bps: float) -> None:
        """In each interval but the last, each link carries at most capacity times length."""
        rows: dict[tuple[int, int], int] = {}
        for i, path in enumerate(self._flows.paths()):
            for column in range(self._start[i], self._start[i + 1] - 1):
                k = int(self._interval[column - self._flows.groups])
                for link in path.tolist():
                    if (link, k) not in rows:
                        share = float(self._flows.capacity_Bps[link]) / unit_Bps
                        rows[link, k] = at_most.add(share * float(grid_s[k + 1] - grid_s[k]) / self._unit_s)
                    at_most.put(rows[link, k], column, 1.0)

    def _tie_tardiness(self, at_most: Rows, sizes: Floats, zero_s: float, unit_Bps: float) -> None:
        """T_H is at least the mean moment of a set's bytes, and half its time, less its latest due time."""
        flows = self._flows
        for members, link in _sets(flows):
            group, volume = int(flows.group[members[0]]), float(sizes[members].sum())
            half_s = volume * self._unit_s * unit_Bps / float(flows.capacity_Bps[link]) / 2
            latest_s = float(flows.due_s[members].max())
            row = at_most.add((self._alone_s[group] + latest_s - half_s - zero_s) / self._unit_s)
            at_most.put(row, group, -1.0)
            for i in members:
                columns = np.arange(self._start[i], self._start[i + 1])
                begin_s = np.maximum(self._begin_s[columns - flows.groups], flows.release_s[i]) - zero_s
                at_most.put_all(row, columns, begin_s / self._unit_s / volume)

    def solve(self, low_s: Floats, high_s: Floats) -> _Node | None:
        """The optimum where each group's tardiness beyond what it has alone lies in [low, high]; None if it cannot."""
        flows, g = self._flows, self._flows.groups
        deadline_s = flows.due_s + (self._alone_s + high_s)[flows.group]
        rounding_s = 1e-9 * self._unit_s
        upper = np.where(self._begin_s > deadline_s[self._flow] + rounding_s, 0.0, np.inf)
        point = self._program.solve(
            np.concatenate((low_s / self._unit_s, np.zeros(len(upper)))), np.concatenate((high_s / self._unit_s, upper))
        )
        if point is None:
            return None
        late_s = point[:g] * self._unit_s
        used = np.flatnonzero(point[g:] > 1e-7)
        ends_s = late_s.copy()
        own = flows.group[self._flow[used]]
        np.maximum.at(ends_s, own, self._end_s[used] - flows.due_s[self._flow[used]] - self._alone_s[own])
        ends_s = np.minimum(ends_s, high_s)
        ends_s[~np.isfinite(ends_s)] = (late_s + self._unit_s)[~np.isfinite(ends_s)]
        return _Node(low_s, high_s, late_s, ends_s, float((late_s + self._alone_s) @ flows.weight))


def _alone_s(flows: FlowSet, exact: bool) -> float:
    if exact and flows.flows <= MOST_EXACT_FLOWS:
        return exact_tardiness_s(flows)
    return link_bound_s(flows)


def link_bound_s(flows: FlowSet) -> float:
    """The largest of one group's bounds on single links: bytes released from r on and due by d need V / c.

    A lower bound on the tardiness of the one group in `flows`, exact on one link (preemptive earliest due date).
    """
    least = float(flows.at_least_s[0])
    hop_flow = np.repeat(np.arange(flows.flows), np.diff(flows.path_start))
    for link in np.unique(flows.path_link):
        rows = hop_flow[flows.path_link == link]
        rows = rows[np.argsort(flows.due_s[rows], kind="stable")]
        for release_s in np.unique(flows.release_s[rows]):
            later = rows[flows.release_s[rows] >= release_s]
            busy_s = np.cumsum(flows.size_bytes[later]) / flows.capacity_Bps[link]
            least = max(least, float(np.max(release_s + busy_s - flows.due_s[later])))
    return least


def _sets(flows: FlowSet) -> list[tuple[list[int], int]]:
    """On each link, the first flows of each group in order of due time, as lists of rows with the link.

    With more than `MOST_SETS` due times only so many of these sets are used: any of them is valid.
    """
    found = []
    hop_flow = np.repeat(np.arange(flows.flows), np.diff(flows.path_start))
    for link in np.unique(flows.path_link).tolist():
        there = hop_flow[flows.path_link == link]
        for group in np.unique(flows.group[there]):
            rows = there[flows.group[there] == group]
            rows = rows[np.argsort(flows.due_s[rows], kind="stable")]
            ends = np.flatnonzero(np.diff(flows.due_s[rows], append=np.inf)) + 1
            if len(ends) > MOST_SETS:
                ends = ends[np.linspace(0, len(ends) - 1, MOST_SETS).round().astype(np.int64)]
            found += [(rows[:end].tolist(), link) for end in ends.tolist()]
    return found


def _grid_s(flows: FlowSet, intervals: int) -> Floats:
    """Even cuts of time from the first release to when the last link, busy whenever it can be, has done its work.

    A schedule may end later (the last interval has no end); most need not, and shorter intervals bound better.
    """
    hop_flow = np.repeat(np.arange(flows.flows), np.diff(flows.path_start))
    begin_s = end_s = float(flows.release_s.min())
    for link in np.unique(flows.path_link):
        rows = hop_flow[flows.path_link == link]
        rows = rows[np.argsort(flows.release_s[rows], kind="stable")]
        busy_s = flows.size_bytes[rows] / flows.capacity_Bps[link]
        # The work that is left at a release, and then: the link is done when the latest such chain is.
        left_s = np.cumsum(busy_s[::-1])[::-1]
        end_s = max(end_s, float(np.max(flows.release_s[rows] + left_s)))
    return np.linspace(begin_s, end_s, intervals + 1)


def _merged(flows: FlowSet) -> FlowSet:
    """Flows that differ in nothing but size as one: a fluid schedule cannot tell them apart."""
    paths = [tuple(path.tolist()) for path in flows.paths()]
    place: dict[tuple[object, ...], int] = {}
    for i, path in enumerate(paths):
        place.setdefault((flows.group[i], flows.release_s[i], flows.due_s[i], path), len(place))
    of = np.array([place[flows.group[i], flows.release_s[i], flows.due_s[i], path] for i, path in enumerate(paths)])
    _, first = np.unique(of, return_index=True)
    start, link = compressed([paths[i] for i in first])
    return replace(
        flows,
        size_bytes=np.bincount(of, weights=flows.size_bytes).astype(np.float64),
        release_s=flows.release_s[first],
        due_s=flows.due_s[first],
        group=flows.group[first],
        path_start=start,
        path_link=link,
    )
