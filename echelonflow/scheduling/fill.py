"""The arithmetic that policies share: sharing out capacity, and least possible tardiness.

Flows are rows of a snapshot. All functions leave their inputs unchanged except `residual_Bps`, the
capacity that is left on each link, which the filling functions use up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling import kernels
from echelonflow.scheduling.snapshot import Snapshot

QUANTUM_S = 1e-6
"""Times closer than this are equal when flows or groups are ordered."""

Number = TypeVar("Number", bound=np.generic)

_WORD_BITS = 62
_FEW = 1000
"""Rows up to which numpy's overhead for each step counts for more than the rows do."""
_SPENT = 1e-9
"""Share of a link's capacity below which what is left on it counts as nothing (rounding)."""


def quantised(times_s: Floats) -> Ints:
    """Whole quanta of `times_s`, so that rounding never decides an order; infinities stay extreme."""
    limit = float(2**62)
    return np.clip(np.rint(times_s / QUANTUM_S), -limit, limit).astype(np.int64)


def dense_rank(keys: Sequence[Ints]) -> Ints:
    """Place of each row when ordered by the first key, then the next, ...; equal rows share a place."""
    if len(keys[0]) <= _FEW:
        return _rank_of_few(keys)
    first, length = _runs(keys)
    words = _packed([key[first] for key in keys])
    while len(words) > 1:
        shorter = _packed([_places(words[0]), *words[1:]])
        words = shorter if len(shorter) < len(words) else _packed([_places(word) for word in words])
    return np.repeat(_places(words[0]), length)


def _rank_of_few(keys: Sequence[Ints]) -> Ints:
    """The same by sorting rows by all keys: slower for many rows, but in fewer steps."""
    order = np.lexsort(keys[::-1])
    new = np.zeros(len(order), bool)
    for key in keys:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(new)
    return rank


def _runs(keys: Sequence[Ints]) -> tuple[Ints, Ints]:
    """First row and length of each run of rows with equal keys: rows of a group, of a stage are often neighbours."""
    new = np.ones(len(keys[0]), bool)
    new[1:] = keys[0][1:] != keys[0][:-1]
    for key in keys[1:]:
        new[1:] |= key[1:] != key[:-1]
    first = np.flatnonzero(new)
    length = np.empty_like(first)
    length[:-1] = first[1:] - first[:-1]
    length[-1:] = len(new) - first[-1:]
    return first, length


def _places(key: Ints) -> Ints:
    """Dense rank by one key."""
    first, length = _runs([key])
    order = np.argsort(key[first])
    ordered = key[first][order]
    new = np.zeros(len(first), np.int64)
    new[1:] = ordered[1:] != ordered[:-1]
    rank = np.empty(len(first), np.int64)
    rank[order] = np.cumsum(new)
    return np.repeat(rank, length)


def _packed(keys: Sequence[Ints]) -> list[Ints]:
    """The same order in as few keys as have room for their ranges: sorting by one is much faster than by two."""
    words: list[Ints] = []
    room = 0
    for key in keys:
        least, most = int(key.min()), int(key.max())
        short = key
        if most - least > len(key) and 4 * len(_runs([key])[0]) <= len(key):  # few different values, easily ranked
            short = _places(key)
            least, most = 0, int(short.max())
        bits = (most - least).bit_length()
        if words and bits <= room:
            words[-1] = (words[-1] << bits) | (short - least)
        else:
            words.append(short - least if bits < _WORD_BITS else short)
            room = _WORD_BITS
        room -= bits
    return words


def in_order_of(member: Ints) -> Ints:
    """Rows sorted by `member` (not negative, below 2^32); equal ones keep their order."""
    order = np.argsort(member.astype(np.uint16), kind="stable")  # 16 bits are sorted by counting
    if len(member) and member.max() >> 16:
        order = order[np.argsort((member[order] >> 16).astype(np.uint16), kind="stable")]
    return order.astype(np.int64)


@dataclass(frozen=True, eq=False)
class RowSets(Sequence[Ints]):
    """Sets of rows, in order: set i is `rows[start[i]:start[i + 1]]`."""

    start: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.start) - 1

    @overload
    def __getitem__(self, i: int) -> Ints: ...

    @overload
    def __getitem__(self, i: slice) -> Sequence[Ints]: ...

    def __getitem__(self, i: int | slice) -> Ints | Sequence[Ints]:
        if isinstance(i, slice):
            return [self[k] for k in range(len(self))[i]]
        place = range(len(self))[i]
        return self.rows[self.start[place] : self.start[place + 1]]

    @staticmethod
    def of(sets: Sequence[Ints]) -> RowSets:
        """The same sets in one piece."""
        if isinstance(sets, RowSets):
            return sets
        start = np.cumsum([0, *map(len, sets)], dtype=np.int64)
        return RowSets(start, np.concatenate([np.zeros(0, np.int64), *sets]).astype(np.int64))


def sets_of(member: Ints, sets: int) -> RowSets:
    """The rows of each of `sets` sets, in order of rows; `member` says in which a row is."""
    start = np.zeros(sets + 1, np.int64)
    np.cumsum(np.bincount(member, minlength=sets), out=start[1:])
    return RowSets(start, in_order_of(member))


def stages_of(rank: Ints) -> RowSets:
    """The rows of each rank (dense: every place up to the last is taken), in order of rank."""
    return sets_of(rank, int(rank.max()) + 1 if len(rank) else 0)


class Hops:
    """The (flow, link) incidence of some rows of a snapshot, in compressed rows."""

    def __init__(self, snapshot: Snapshot, rows: Ints) -> None:
        lengths = snapshot.path_start[rows + 1] - snapshot.path_start[rows]
        self.rows = rows
        self.flow = np.repeat(np.arange(len(rows), dtype=np.int64), lengths)
        starts = np.repeat(snapshot.path_start[rows] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        self.start = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        self.link = snapshot.path_link[starts + np.arange(len(self.flow))] if len(rows) else snapshot.path_link[:0]

    def load(self, amount: Floats, links: int) -> Floats:
        """Sum of `amount` (one per row) over the flows on each link."""
        return np.bincount(self.link, weights=amount[self.flow], minlength=links).astype(np.float64)


def max_min(snapshot: Snapshot, rows: Ints, weights: Floats, residual_Bps: Floats) -> Floats:
    """Weighted max-min fair rates of `rows` on what is left, which is used up.

    All rates grow in proportion to `weights` (positive) until a link is full. Its flows stop there, and the others go
    on (progressive filling; Bertsekas and Gallager, Data Networks, section 6.5.2). With weights = remaining bytes the
    first stop is MADD, and the rest shares spare capacity so that flows still finish together as far as they can.
    Returns bytes/s, one per row.
    """
    hops = Hops(snapshot, rows)
    rates = np.zeros(len(rows))
    one = RowSets(np.array([0, len(rows)], np.int64), np.arange(len(rows), dtype=np.int64))
    _fill(one, hops.start, hops.link, weights, snapshot.capacity_Bps, residual_Bps, rates)
    return rates


def max_min_in_order(
    snapshot: Snapshot, stages: Sequence[Ints], weights: Floats, rates_Bps: Floats, residual_Bps: Floats
) -> None:
    """`max_min` of one stage after the other out of what is left; `weights` has n entries, one per flow.

    Adds to `rates_Bps` (n entries) and uses up `residual_Bps`.
    """
    path_start, path_link = _block(snapshot.path_start), _block(snapshot.path_link)
    stages, spent = RowSets.of(stages), residual_Bps <= _SPENT * snapshot.capacity_Bps
    if spent.any():
        closed = spent[path_link]
        shut = np.zeros(len(closed) + 1, np.int64)
        np.cumsum(closed, out=shut[1:])
        stages = _only(stages, shut[path_start[1:]] == shut[path_start[:-1]])
    _fill(
        stages,
        path_start,
        path_link,
        weights,
        snapshot.capacity_Bps,
        residual_Bps,
        rates_Bps,
    )


def madd(snapshot: Snapshot, rows: Ints, residual_Bps: Floats) -> Floats:
    """The least rates at which `rows` finish together as early as the bottleneck allows; uses them up.

    Minimum allocation for desired duration (Varys, SIGCOMM '14, section 4.2). Where a link on some
    path has nothing left no common finish exists, and all rates are 0. Bytes/s, one per row.
    """
    hops = Hops(snapshot, rows)
    rates = np.zeros(len(rows))
    one = RowSets(np.array([0, len(rows)], np.int64), np.arange(len(rows), dtype=np.int64))
    _madd(one, hops.start, hops.link, snapshot.remaining_bytes[rows], snapshot.capacity_Bps, residual_Bps, rates)
    return rates


def serve_in_order(snapshot: Snapshot, stages: Sequence[Ints]) -> Floats:
    """Rates when `stages` (disjoint sets of rows, all rows among them) are served one after the other.

    First every stage in order takes its MADD rates out of what is left, so that a stage's flows finish
    together and take no more than that needs. Then what is still unused goes to the stages in the same
    order, in proportion to remaining bytes: no link that a flow could use stays idle.
    """
    stages = RowSets.of(stages)
    residual = snapshot.capacity_Bps.copy()
    rates = np.zeros(snapshot.flows)
    _madd(
        stages,
        snapshot.path_start,
        snapshot.path_link,
        snapshot.remaining_bytes,
        snapshot.capacity_Bps,
        residual,
        rates,
    )
    add_spare(snapshot, stages, rates, residual)
    return rates


def add_spare(snapshot: Snapshot, stages: Sequence[Ints], rates_Bps: Floats, residual_Bps: Floats) -> None:
    """Give what is left to `stages` in order, in proportion to remaining bytes; adds to `rates_Bps`."""
    max_min_in_order(snapshot, stages, snapshot.remaining_bytes, rates_Bps, residual_Bps)


def _only(stages: RowSets, wanted: Bools) -> RowSets:
    """The stages without the rows that are not wanted; those left without any are left out."""
    keep = wanted[stages.rows]
    before = np.zeros(len(keep) + 1, np.int64)
    np.cumsum(keep, out=before[1:])
    start = before[stages.start]
    filled = np.concatenate((start[1:] > start[:-1], [True]))
    return RowSets(start[filled], stages.rows[keep])


def _madd(
    stages: RowSets, path_start: Ints, path_link: Ints, remaining_bytes: Floats, capacity_Bps: Floats,
    residual_Bps: Floats, rates_Bps: Floats,
) -> None:  # fmt: skip
    links = len(capacity_Bps)
    kernels.madd(
        _block(stages.start), _block(stages.rows), _block(path_start), _block(path_link), _block(remaining_bytes),
        _SPENT * capacity_Bps, residual_Bps, rates_Bps, np.zeros(links), np.empty(links, np.int64),
    )  # fmt: skip


def _fill(
    stages: RowSets, path_start: Ints, path_link: Ints, weights: Floats, capacity_Bps: Floats, residual_Bps: Floats,
    rates_Bps: Floats,
) -> None:  # fmt: skip
    links = len(capacity_Bps)
    crowd, changed = np.zeros((2, links), np.int64)
    kernels.fill(
        _block(stages.start), _block(stages.rows), _block(path_start), _block(path_link), _block(weights),
        _SPENT * capacity_Bps, residual_Bps, rates_Bps, np.zeros(links), crowd, changed, *np.empty((2, links)),
        *np.empty((5, links), np.int64), np.empty(len(path_start), np.int64), np.empty(len(path_link), np.int64),
    )  # fmt: skip


def _block(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """`array` in one piece, as kernels take it."""
    return np.ascontiguousarray(array)


def effective_bottleneck_s(snapshot: Snapshot, member: Ints, sets: int) -> Floats:
    """Varys's Γ of each of `sets` sets of flows: seconds its remaining bytes need at the slowest link, alone.

    `member` gives the set of each flow (n rows). Returns one value per set.
    """
    longest: Floats = np.zeros(sets)
    _lateness(snapshot, sets_of(member, sets), np.zeros(snapshot.flows), longest)
    return longest


def unavoidable_tardiness_s(snapshot: Snapshot) -> Floats:
    """Lateness of each group that nothing can undo: what finished late, and what is late already."""
    late: Floats = snapshot.groups.incurred_tardiness_s.copy()
    np.maximum.at(late, snapshot.group, snapshot.now_s - snapshot.ideal_finish_s)
    return late


def least_tardiness_s(snapshot: Snapshot) -> Floats:
    """τ_H of each group: the least maximum tardiness it could still have if it were alone.

    On every link, let V_k be the bytes of the first k of its flows in order of ideal finish time d. Any schedule has τ
    >= V_k / c - (d_k - now); τ_H is the largest of these and of what is already incurred (docs/design.md,
    "Scheduling"). Exact on one link, a lower bound on a network. Declared but unreleased bytes are not counted: their
    release may come too late to matter.
    """
    tau: Floats = snapshot.groups.incurred_tardiness_s.copy()
    _lateness(snapshot, by_ideal_finish(snapshot), snapshot.ideal_finish_s - snapshot.now_s, tau)
    return tau


def by_ideal_finish(snapshot: Snapshot) -> RowSets:
    """The flows of each group in order of ideal finish time."""
    groups = sets_of(snapshot.group, len(snapshot.groups.id))
    ideal, group = snapshot.ideal_finish_s[groups.rows], snapshot.group[groups.rows]
    if np.any((ideal[1:] < ideal[:-1]) & (group[1:] == group[:-1])):  # most often they are in order already
        return RowSets(groups.start, groups.rows[np.lexsort((ideal, group))])
    return groups


def _lateness(snapshot: Snapshot, sets: RowSets, slack_s: Floats, worst_s: Floats) -> None:
    kernels.lateness(
        sets.start, sets.rows, _block(snapshot.path_start), _block(snapshot.path_link),
        _block(snapshot.remaining_bytes), slack_s, _block(snapshot.capacity_Bps), worst_s,
        np.zeros(snapshot.links), np.empty(snapshot.links, np.int64),
    )  # fmt: skip
