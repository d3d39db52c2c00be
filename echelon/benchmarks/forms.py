"""Every form of EchelonFlow, and Coflow in both groupings, on random jobs: which is best, and by how much.

Fluid simulation of 2 to 4 jobs of random patterns, on one link and on a leaf-spine. Of each case, the mean iteration
time and the sum of the groups' tardiness, relative to fair sharing in the same case. Means over cases are geometric,
with 95 % intervals (Student's t over cases). What the default form must show: iterations no longer than Coflow's with
each collective a Coflow, case by case.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from echelon.benchmarks import Figure, Say
from echelon.cases.random_jobs import TOPOLOGIES, Case, draw
from echelonflow.errors import InputError
from echelonflow.scheduling import policies
from echelonflow.scheduling.policies.echelonflow import STAGE_ORDERS
from results.analysis.rows import group_rows, iteration_rows
from results.analysis.statistics import estimate
from simulator.fluid import simulate

CASES = 20
"""Cases on each topology, for each repeat."""
DEFAULT = "echelonflow"
BASIS = "fair"
RIVAL = "coflow(grouping=collective)"


@dataclass(frozen=True)
class Score:
    """What one policy did in one case: seconds, means and sums over all jobs."""

    iteration_s: float
    tardiness_s: float


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` times `CASES` cases on each topology."""
    figures = []
    for topology in TOPOLOGIES:
        cases = [draw(random.Random(f"{topology} {n}"), topology) for n in range(CASES * repeat)]
        scores: dict[str, list[Score]] = {name: [] for name in (BASIS, *names())}
        for n, case in enumerate(cases):
            for name, found in scores.items():
                found.append(score(case, name))
            if n % 10 == 9:
                say(f"{topology}: {n + 1} of {len(cases)} cases")
        figures += [_figure(topology, name, scores) for name in names()]
    return figures


def names() -> Iterator[str]:
    """The policies that are compared: the default, Coflow, then every form that differs."""
    yield DEFAULT
    yield RIVAL
    yield "coflow(grouping=group)"
    for order, within, pending in itertools.product(*(_words(option) for option in ("order", "within", "pending"))):
        if order in STAGE_ORDERS and pending == "count":
            continue  # the same as with `ignore`: a stage's time is that of its flows in flight
        yield f"echelonflow(order={order},within={within},pending={pending})"


def score(case: Case, policy: str) -> Score:
    """Simulate `case` under `policy`."""
    record = simulate(case.jobs, case.network, policies.load(policy))
    durations_s = [row.duration_s for row in iteration_rows(record, case.jobs)]
    tardiness_s = [row.tardiness_s for row in group_rows(record, case.jobs) if row.tardiness_s is not None]
    return Score(math.fsum(durations_s) / len(durations_s), math.fsum(tardiness_s))


def relative(values: Sequence[float], basis: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of the ratios, case by case, and its 95 % interval (InputError for fewer than two cases)."""
    found = estimate([math.log(value / base) for value, base in zip(values, basis, strict=True)])
    if found is None or found.low is None or found.high is None:
        raise InputError("an interval takes two cases at least")
    return math.exp((found.low + found.high) / 2), math.exp(found.low), math.exp(found.high)


def _words(option: str) -> tuple[str, ...]:
    (found,) = [each for each in policies.options(DEFAULT) if each.key == option]
    return found.words


def _figure(topology: str, name: str, scores: dict[str, list[Score]]) -> Figure:
    iterations = {key: [s.iteration_s for s in found] for key, found in scores.items()}
    tardiness = {key: [s.tardiness_s for s in found] for key, found in scores.items()}
    against = relative(iterations[name], iterations[RIVAL])
    measured = (
        f"iterations {_text(relative(iterations[name], iterations[BASIS]))}, tardiness "
        f"{_text(relative(tardiness[name], tardiness[BASIS]))} of fair; iterations {_text(against)} of Coflow"
    )
    must, ok = "reported", None
    if name == DEFAULT:
        must, ok = "no longer than Coflow's", against[0] <= 1.0
    return Figure(f"{topology}: {name}", measured, must, ok)


def _text(ratio: tuple[float, float, float]) -> str:
    return f"{ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f})"
