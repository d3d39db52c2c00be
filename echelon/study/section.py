"""What a study is made of: families of cases, and what is measured of each case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from echelon.cases.random_jobs import Case
from echelon.study import flow_orders

Schedule = str | flow_orders.FlowOrder
"""A policy by name, or an order of flows."""
Scores = dict[Schedule, list[float]]
"""What was measured of one case: of each schedule, and under "bound" of what no scheduler can beat."""


@dataclass(frozen=True)
class Section:
    """A family of cases: how case number n is drawn, and what is measured of it."""

    name: str
    cases: int
    draw: Callable[[int], Case]
    measure: Callable[[Case], Scores]


def count(cases: int, scale: float) -> int:
    """So many cases, times `scale`; two at least, or there is no interval."""
    return max(round(cases * scale), 2)
