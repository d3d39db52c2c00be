"""What is left of a policy where its order is folded into few classes, by every way to fold.

Eight mixed jobs in steady state on a fabric, so that there are far more places in the order than classes. Each policy is measured
as it is meant to be, with rates of its own and as many places as it likes, and then with every folding into few classes.
"""

from __future__ import annotations

from collections.abc import Iterator

from echelon.cases import random_jobs
from echelon.cases.random_jobs import Case
from echelon.study import steady
from echelon.study.contenders import BY_DUE, COLLECTIVE, FAIR
from echelon.study.section import Scores, Section, count
from echelon.study.steady_cases import ALONE, BOUND, CLOCK, Drawer
from echelonflow.scheduling import folding
from simulator.realism import MAX_CLASSES, Realism

NAME = "steady state, few queues"
CASES = 20
HOSTS, JOBS = 32, 8
CLASSES = tuple(range(1, MAX_CLASSES + 1))
"""Data classes; the testbed's switches have seven, and one for acknowledgements."""


def policies_compared() -> list[str]:
    """Those that are folded; fair sharing, the basis, needs one class."""
    return [COLLECTIVE, BY_DUE, "crux", CLOCK]


def foldings() -> list[str]:
    """Every way to fold, the testbed's own first."""
    return sorted(folding.names(), key=lambda name: (name != folding.DEFAULT, name))


def key(policy: str, way: str, classes: int) -> str:
    """Under which name a case's scores hold a policy that is folded."""
    return f"{policy} | {way} {classes}"


def sections(scale: float) -> Iterator[Section]:
    """One family of cases on a fabric."""
    topology = f"{random_jobs.FABRIC}{HOSTS}"
    yield Section(NAME, count(CASES, scale), Drawer(NAME, jobs=JOBS, topology=topology), measure)


def measure(case: Case) -> Scores:
    """Of every policy, unfolded and folded, the iteration times of all jobs, and how many iterations count of the one with fewest."""
    found: Scores = {name: _scores(case, name, Realism()) for name in (FAIR, *policies_compared())}
    for name in policies_compared():
        for way in foldings():
            for classes in CLASSES:
                realism = Realism(classes=classes, enforcer="priority", folding=way)
                found[key(name, way, classes)] = _scores(case, name, realism)
    loads = steady.loads_of(case.jobs, case.network)
    found[BOUND], found[ALONE] = loads.together_s.tolist(), loads.iteration_s.tolist()
    return found


def _scores(case: Case, policy: str, realism: Realism) -> list[float]:
    counted = steady.measure(case, policy, realism)
    return [*(float(f"{time_s:.9g}") for time_s in counted.iteration_s), counted.fewest]
