"""From measured cases to statements: ratios with intervals, wins and losses, agreement of two measures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from echelon.study.flow_orders import FlowOrder
from echelon.study.section import Schedule, Scores
from echelonflow.errors import InputError
from results.analysis import statistics

Ratio = tuple[float, float, float]
TIE = 0.005
"""Iteration times closer than this, relative, are a tie."""
SAME = 1e-4
"""Closer than this, relative, two orders' tardiness or iteration times are equal."""


def ratio(cases: Sequence[Scores], name: str, basis: str, place: int = 0) -> Ratio:
    """Geometric mean over cases of `name`'s score over `basis`'s, and its 95 % interval (Student's t of logarithms).

    `place` is that of the score: 0 iteration time, 1 exposed communication, 2 tardiness. Raises InputError for fewer
    than two cases.
    """
    found = statistics.ratio_of(_ratios(cases, name, basis, place))
    if found is None or found.low is None or found.high is None:
        raise InputError("an interval takes two cases at least")
    return found.mean, found.low, found.high


def p_value(cases: Sequence[Scores], name: str, basis: str, place: int = 0) -> float:
    """How likely logarithms of ratios lie so far from 0 by chance alone (`results.analysis.statistics`)."""
    return statistics.p_value([math.log(one) for one in _ratios(cases, name, basis, place)])


def _ratios(cases: Sequence[Scores], name: str, basis: str, place: int) -> list[float]:
    return [case[name][place] / case[basis][place] for case in cases]


def text(found: Ratio) -> str:
    """A ratio and its interval."""
    return f"{found[0]:.3f} [{found[1]:.3f}, {found[2]:.3f}]"


def names(cases: Sequence[Scores]) -> list[str]:
    """The policies under which every one of `cases` was run, in the order of the first case."""
    common = [name for name in cases[0] if all(name in case for case in cases)]
    return [name for name in common if isinstance(name, str) and name != "bound"]


@dataclass(frozen=True)
class Tally:
    """In how many cases one policy's iterations were shorter, equal (within `TIE`), longer."""

    wins: int
    ties: int
    losses: int

    def __str__(self) -> str:
        return f"{self.wins} / {self.ties} / {self.losses}"


def tally(cases: Sequence[Scores], name: str, rival: str) -> Tally:
    """Cases that `name` wins, ties and loses against `rival`."""
    ratios = [case[name][0] / case[rival][0] for case in cases]
    wins, losses = sum(r < 1 - TIE for r in ratios), sum(r > 1 + TIE for r in ratios)
    return Tally(wins, len(ratios) - wins - losses, losses)


def mean_gap(cases: Sequence[Scores], name: str) -> float:
    """Mean over cases of how far the policy's first score lies above the bound, relative."""
    return math.fsum(case[name][0] / case["bound"][0] - 1 for case in cases) / len(cases)


@dataclass(frozen=True)
class Agreement:
    """Over pairs of schedules of one case that differ in tardiness: what of the less tardy one's iteration time."""

    shorter: int
    equal: int
    longer: int
    best_is_best: int
    """Cases whose least tardy schedule has the shortest iteration of all schedules tried."""
    cases: int
    worst_loss: float
    """How much longer, at most, the least tardy schedule's iteration was than the shortest."""

    @property
    def pairs(self) -> int:
        return self.shorter + self.equal + self.longer


def agreement(cases: Sequence[Scores]) -> Agreement:
    """Compare all schedules of each case with each other."""
    shorter = equal = longer = best_is_best = 0
    worst = 0.0
    for case in cases:
        schedules = schedules_of(case)
        for a, b in itertools.combinations(schedules, 2):
            less, more = (a, b) if a[1] < b[1] else (b, a)
            if more[1] - less[1] <= SAME * abs(more[1]):
                continue
            if abs(less[0] - more[0]) <= SAME * more[0]:
                equal += 1
            elif less[0] < more[0]:
                shorter += 1
            else:
                longer += 1
        loss = loss_of_least_tardy(case)
        best_is_best += loss <= SAME
        worst = max(worst, loss)
    return Agreement(shorter, equal, longer, best_is_best, len(cases), worst)


def schedules_of(
    case: Mapping[Schedule, Sequence[float]] | Mapping[FlowOrder, Sequence[float]],
) -> list[tuple[float, float]]:
    """(mean iteration time, sum of tardiness) of every schedule that was tried on a case."""
    return [(values[0], values[2]) for name, values in case.items() if name != "bound"]


def loss_of_least_tardy(case: Mapping[Schedule, Sequence[float]] | Mapping[FlowOrder, Sequence[float]]) -> float:
    """How much longer the iterations of the least tardy schedule are than the shortest (0: they are the shortest).

    Among equally tardy schedules the one with the shortest iterations counts.
    """
    schedules = schedules_of(case)
    least = min(late for _, late in schedules)
    chosen = min(long for long, late in schedules if late - least <= SAME * abs(least))
    return chosen / min(long for long, _ in schedules) - 1


def order_scores(case: Scores) -> dict[FlowOrder, list[float]]:
    """The scores of all orders of flows of a tiny case."""
    return {schedule: values for schedule, values in case.items() if not isinstance(schedule, str)}
