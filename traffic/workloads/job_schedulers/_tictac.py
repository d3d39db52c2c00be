"""What TicTac knows of a graph of computations and receives, and the two orders that it makes of it.

A computation is its duration and the set of receives that it needs, directly or through others. M of a receive is its
time. P is the time of the computations that need it alone, of those receives that are still to come. M+ is the least
time of all receives of a computation that needs it and others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from echelonflow.bounds import check_most
from echelonflow.model.discipline import Window
from traffic.workloads.tensors import TensorModel, TensorPlan, whole_tensors

SOURCE = "Hashemi, Jyothi, Campbell, TicTac: Accelerating Distributed Deep Learning with Communication Scheduling (MLSys 2019)"
Form = Literal["faithful", "fixed"]

MOST_ORDERED = 500
"""Receives that are put in order: each computation knows all that it needs, and TAC looks at all of them after every choice."""


@dataclass(frozen=True, slots=True)
class Computation:
    """`duration_s` seconds, once everything in `needs` (places of receives) has arrived."""

    duration_s: float
    needs: frozenset[int]


@dataclass(frozen=True, slots=True)
class Properties:
    """P, M and M+ of one receive, seconds; M+ is infinite where every computation needs one receive alone."""

    place: int
    p_s: float
    m_s: float
    m_plus_s: float


def chain(forward_s: Sequence[float]) -> list[Computation]:
    """Layers in a row: each needs its own receive and, through the layers before it, theirs (BeyondBoundsError for too many)."""
    check_most("tensors to put in order by what needs them", len(forward_s), MOST_ORDERED, {})
    return [Computation(time_s, frozenset(range(i + 1))) for i, time_s in enumerate(forward_s)]


def properties(
    computations: Sequence[Computation], m_s: Sequence[float], outstanding: Sequence[int]
) -> list[Properties]:
    """Of every receive that is still `outstanding`, in that order."""
    there = frozenset(outstanding)
    p_s = dict.fromkeys(outstanding, 0.0)
    m_plus_s = dict.fromkeys(outstanding, math.inf)
    needed = [(each, each.needs & there) for each in computations]
    sums = [(math.fsum(m_s[r] for r in needs), needs) for _, needs in needed if len(needs) > 1]
    for each, needs in needed:
        if len(needs) == 1:
            p_s[next(iter(needs))] += each.duration_s
    seen: set[int] = set()
    for total_s, needs in sorted(sums, key=lambda entry: entry[0]):
        for receive in needs - seen:  # an earlier sum is the least
            m_plus_s[receive] = total_s
        seen |= needs
    return [Properties(r, p_s[r], m_s[r], m_plus_s[r]) for r in outstanding]


def tic_ranks(computations: Sequence[Computation], receives: int) -> list[int]:
    """Timing-independent: every receive costs 1, the least M+ first; equal ones share a rank."""
    found = properties(computations, [1.0] * receives, range(receives))
    in_order = sorted(each.m_plus_s for each in found)
    return [in_order.index(each.m_plus_s) for each in found]


def before(a: Properties, b: Properties) -> int:
    """TAC's comparison as it stands: negative if `a` goes before `b`. It is not transitive.

    Of two, the one goes first after which the other's wait is covered by more computation; then the smaller M+.

    >>> long, short, middle = Properties(0, 3, 9, 1), Properties(1, 1, 1, 2), Properties(2, 9, 3, 3)
    >>> before(long, short), before(short, middle), before(middle, long)
    (-1, -1, -1)
    """
    first, second = min(b.p_s, a.m_s), min(a.p_s, b.m_s)
    if first == second:
        first, second = a.m_plus_s, b.m_plus_s
    return (first > second) - (first < second)


def fixed_key(each: Properties) -> tuple[int, float, float, int]:
    """A total order that agrees with the comparison wherever that decides by time: Johnson's rule (1954).

    First those that unlock at least as much time as they take, the shortest first; then the others, those that unlock
    most first. M+ and the place decide only what is left.
    """
    if each.m_s <= each.p_s:
        return 0, each.m_s, each.m_plus_s, each.place
    return 1, -each.p_s, each.m_plus_s, each.place


def tac_order(computations: Sequence[Computation], m_s: Sequence[float], form: Form = "fixed") -> list[int]:
    """Timing-aware: the places of all receives, the first to go first; all is computed anew after every choice.

    `faithful` sorts by `before` and takes the first, so that with ties and cycles the order of the list decides.
    """
    outstanding = list(range(len(m_s)))
    found: list[int] = []
    while outstanding:
        known = properties(computations, m_s, outstanding)
        key = functools.cmp_to_key(before) if form == "faithful" else fixed_key
        known.sort(key=key)
        found.append(known[0].place)
        outstanding = [each.place for each in known[1:]]
    return found


def places(order: Sequence[int]) -> list[int]:
    """Where in `order` each of its members stands: `order` the other way round."""
    return sorted(range(len(order)), key=order.__getitem__)


def one_by_one(model: TensorModel, priority: Sequence[int], *, crosses: bool) -> TensorPlan:
    """Whole tensors by `priority`, one under way at a time, in TensorFlow's steps unless it `crosses` their barrier."""
    units = whole_tensors(model, priority)
    return TensorPlan(units, Window(slots=1), barrier=False, pulls_wait=not crosses, pulls_alone=True)
