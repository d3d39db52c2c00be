"""Max-min fair shares of equal flows of one Coflow, as progressive filling finds them link by link."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.trace_kernels.jit import inner

_STALE = 1 / 64
"""A sum that has shrunk to this share by subtraction is added up anew: what is left of it may be rounding."""


class Shares(NamedTuple):
    """The links of one Coflow, and room to work. What callers fill in: `left_Bps`, `spent_Bps`, `crowd`."""

    left_Bps: Floats
    spent_Bps: Floats
    """What counts as nothing left."""
    crowd: Ints
    """Flows that go on growing."""
    full_at: Floats
    spent_at: Floats
    pull: Floats
    """Weight of the flows that go on growing."""
    whole: Floats
    begin: Ints
    end: Ints
    used: Ints
    place: Ints
    stopped: Ints
    touched: Ints
    picked: Ints
    flow: Ints
    """Places of flows by link, in compressed rows."""
    grows: Ints
    """By place of a flow."""


def shares_for(links: int, hops: int) -> Shares:
    """Room for a Coflow with so many links, and so many hops of all its flows together."""
    left, spent, full_at, spent_at, pull, whole = np.zeros((6, links))
    crowd, begin, end, used, place, stopped, touched, picked = np.zeros((8, links), np.int64)
    flow, grows = np.zeros((2, hops), np.int64)
    return Shares(
        left,
        spent,
        crowd,
        full_at,
        spent_at,
        pull,
        whole,
        begin,
        end,
        used,
        place,
        stopped,
        touched,
        picked,
        flow,
        grows,
    )


@inner
def share_out(
    shares: Shares, rows: Ints, path_start: Ints, hop_cell: Ints, cell_begin: int, cells: int, rate_Bps: Floats
) -> None:
    """Give every flow of `rows` its rate; `shares.left_Bps` is used up. All flows grow till a link of theirs is full."""
    left, crowd, full_at, spent_at = shares.left_Bps, shares.crowd, shares.full_at, shares.spent_at
    begin, end, used = shares.begin, shares.end, shares.used
    some, room = 0, 0
    for k in range(cells):
        if crowd[k] > 0:
            begin[k] = end[k] = room
            room += crowd[k]
            used[some] = k
            shares.place[k] = some
            some += 1
            full_at[k] = left[k] / crowd[k]
            spent_at[k] = (left[k] - shares.spent_Bps[k]) / crowd[k]
    for i in range(len(rows)):
        shares.grows[i] = 1
        for hop in range(path_start[rows[i]], path_start[rows[i] + 1]):
            k = hop_cell[hop] - cell_begin
            shares.flow[end[k]] = i
            end[k] += 1
    level = 0.0
    while some > 0:
        lowest = math.inf
        for t in range(some):
            if full_at[used[t]] < lowest:
                lowest = full_at[used[t]]
        level = max(level, lowest)
        full = 0
        for t in range(some):
            if spent_at[used[t]] <= level:
                shares.picked[full] = used[t]
                full += 1
        touches = 0
        for f in range(full):
            for at in range(begin[shares.picked[f]], end[shares.picked[f]]):
                i = shares.flow[at]
                if shares.grows[i] == 0:
                    continue
                shares.grows[i] = 0
                rate_Bps[rows[i]] = level
                for hop in range(path_start[rows[i]], path_start[rows[i] + 1]):
                    k = hop_cell[hop] - cell_begin
                    if shares.stopped[k] == 0:
                        shares.touched[touches] = k
                        touches += 1
                    shares.stopped[k] += 1
        for t in range(touches):
            k = shares.touched[t]
            left[k] = max(left[k] - level * shares.stopped[k], 0.0)
            crowd[k] -= shares.stopped[k]
            shares.stopped[k] = 0
            if crowd[k] == 0:
                some -= 1
                used[shares.place[k]] = used[some]
                shares.place[used[some]] = shares.place[k]
            else:
                full_at[k] = left[k] / crowd[k]
                spent_at[k] = (left[k] - shares.spent_Bps[k]) / crowd[k]


@inner
def share_by_weight(
    shares: Shares, rows: Ints, weight: Floats, path_start: Ints, hop_cell: Ints, cell_begin: int, cells: int,
    rate_Bps: Floats,
) -> float:  # fmt: skip
    """The same in proportion to `weight` (by row), added to `rate_Bps`; returns the largest rate by weight."""
    left, crowd, full_at, spent_at = shares.left_Bps, shares.crowd, shares.full_at, shares.spent_at
    begin, end, used, pull, whole = shares.begin, shares.end, shares.used, shares.pull, shares.whole
    some, room = 0, 0
    for k in range(cells):
        if crowd[k] > 0:
            begin[k] = end[k] = room
            room += crowd[k]
            used[some] = k
            shares.place[k] = some
            some += 1
            pull[k] = 0.0
    for i in range(len(rows)):
        shares.grows[i] = 1
        for hop in range(path_start[rows[i]], path_start[rows[i] + 1]):
            k = hop_cell[hop] - cell_begin
            shares.flow[end[k]] = i
            end[k] += 1
            pull[k] += weight[rows[i]]
    for t in range(some):
        k = used[t]
        whole[k] = pull[k]
        full_at[k] = left[k] / pull[k]
        spent_at[k] = (left[k] - shares.spent_Bps[k]) / pull[k]
    level = 0.0
    while some > 0:
        lowest = math.inf
        for t in range(some):
            if full_at[used[t]] < lowest:
                lowest = full_at[used[t]]
        level = max(level, lowest)
        full = 0
        for t in range(some):
            if spent_at[used[t]] <= level:
                shares.picked[full] = used[t]
                full += 1
        touches = 0
        for f in range(full):
            for at in range(begin[shares.picked[f]], end[shares.picked[f]]):
                i = shares.flow[at]
                if shares.grows[i] == 0:
                    continue
                shares.grows[i] = 0
                rate = weight[rows[i]] * level
                rate_Bps[rows[i]] += rate
                for hop in range(path_start[rows[i]], path_start[rows[i] + 1]):
                    k = hop_cell[hop] - cell_begin
                    if shares.stopped[k] == 0:
                        shares.touched[touches] = k
                        touches += 1
                    shares.stopped[k] += 1
                    left[k] -= rate
                    pull[k] -= weight[rows[i]]
        for t in range(touches):
            k = shares.touched[t]
            crowd[k] -= shares.stopped[k]
            shares.stopped[k] = 0
            left[k] = max(left[k], 0.0)
            if crowd[k] == 0:
                some -= 1
                used[shares.place[k]] = used[some]
                shares.place[used[some]] = shares.place[k]
                continue
            if pull[k] < whole[k] * _STALE:
                pull[k] = 0.0
                for at in range(begin[k], end[k]):
                    if shares.grows[shares.flow[at]] == 1:
                        pull[k] += weight[rows[shares.flow[at]]]
                whole[k] = pull[k]
            full_at[k] = left[k] / pull[k]
            spent_at[k] = (left[k] - shares.spent_Bps[k]) / pull[k]
    return level
