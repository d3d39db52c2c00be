"""How much of a policy's gain is left where its order meets few classes, late decisions, wrong profiles, and jitter.

Mixed jobs in steady state. Each policy is measured as it is meant to be, and then with one thing at a time that keeps a real
system from it. Times are in shares of what the case itself has. Fair sharing, the basis, meets the same jitter.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from echelon.cases.random_jobs import Case
from echelon.study import steady
from echelon.study.contenders import BY_DUE, COLLECTIVE, FAIR, LITERAL
from echelon.study.section import Scores, Section, count
from echelon.study.steady_cases import ALONE, BOUND, CLOCK, Drawer
from echelonflow.model.dag import Compute, Job, Transfer, derived_offsets
from simulator.realism import Realism

NAME = "steady state, sensitivity"
CASES = 20
CLASSES = (1, 2, 3, 4, 6, 8)
"""Traffic classes that an order is folded into."""
LATENCIES = (0.001, 0.01, 0.05)
"""Time that a decision takes to be in force, as a share of the mean iteration time that the jobs can keep up together."""
ERRORS = (0.05, 0.2, 0.5)
"""Each computation is declared longer or shorter by up to this share, at random; arrangements follow from that."""
SIZES = (0.05, 0.2, 0.5)
"""Each transfer is declared larger or smaller by up to this share, at random."""
JITTERS = (0.01, 0.05, 0.2)
"""Mean time by which a computation ends late, as a share of the mean computation."""
EXACT, FEW, LATE, WRONG, SIZED, JITTER = "exact", "classes", "latency", "profile error", "size error", "jitter"


def policies_compared() -> list[str]:
    """Those whose gains are to be known; fair sharing has none."""
    return [COLLECTIVE, LITERAL, BY_DUE, CLOCK]


@dataclass(frozen=True)
class Level:
    """One thing that is not ideal, and how much of it there is; none of it with `EXACT`."""

    what: str
    amount: float = 0.0

    def __str__(self) -> str:
        if self.what == EXACT:
            return EXACT
        return f"{self.what} {self.amount:g}" if self.what == FEW else f"{self.what} {self.amount:.1%}"

    @property
    def is_felt_by_fair(self) -> bool:
        """Whether fair sharing, which decides nothing and reads no profile, is another with it."""
        return self.what in (EXACT, JITTER)


def levels() -> list[Level]:
    """Every level, nothing first."""
    amounts = ((FEW, CLASSES), (LATE, LATENCIES), (WRONG, ERRORS), (SIZED, SIZES), (JITTER, JITTERS))
    return [Level(EXACT), *(Level(what, amount) for what, each in amounts for amount in each)]


def key(policy: str, level: Level) -> str:
    """Under which name a case's scores hold a policy at a level."""
    return policy if level.what == EXACT else f"{policy} | {level}"


def sections(scale: float) -> Iterator[Section]:
    """One family of mixed cases."""
    yield Section(NAME, count(CASES, scale), Drawer(NAME), measure)


def measure(case: Case) -> Scores:
    """Of every policy at every level the iteration times of all jobs, and how many iterations count of the one with fewest."""
    found: Scores = {}
    for level in levels():
        realism, profiles = realism_of(level, case), profiles_of(level, case)
        for policy in policies_compared() if not level.is_felt_by_fair else (FAIR, *policies_compared()):
            counted = steady.measure(case, policy, realism, profiles)
            found[key(policy, level)] = [*(float(f"{time_s:.9g}") for time_s in counted.iteration_s), counted.fewest]
    loads = steady.loads_of(case.jobs, case.network)
    found[BOUND], found[ALONE] = loads.together_s.tolist(), loads.iteration_s.tolist()
    return found


def realism_of(level: Level, case: Case) -> Realism:
    """What departs from the ideal at a level."""
    if level.what == FEW:
        return Realism(classes=round(level.amount), enforcer="priority")
    if level.what == LATE:
        together_s = steady.loads_of(case.jobs, case.network).together_s
        return Realism(decision_latency_s=level.amount * float(together_s.mean()), undecided="last-class")
    if level.what == JITTER:
        lasts_s = [step.duration_s for job in case.jobs for step in job.dag.computes if step.duration_s > 0]
        return Realism(late_s=level.amount * statistics.fmean(lasts_s))
    return Realism()


def profiles_of(level: Level, case: Case) -> Sequence[Job] | None:
    """The jobs as they are declared at a level; None where that is how they are."""
    if level.what not in (WRONG, SIZED):
        return None
    draw = random.Random(f"study/{NAME}/{case.words}")
    change = _profiled if level.what == WRONG else _sized
    return [change(job, level.amount, draw) for job in case.jobs]


def _sized(job: Job, error: float, draw: random.Random) -> Job:
    """The same job with other sizes of its transfers."""
    steps = tuple(
        dataclasses.replace(step, size_bytes=max(round(step.size_bytes * draw.uniform(1 - error, 1 + error)), 1))
        if isinstance(step, Transfer)
        else step
        for step in job.dag.steps
    )
    return dataclasses.replace(job, dag=job.dag.with_values(steps, job.dag.groups, job.dag.parameters))


def _profiled(job: Job, error: float, draw: random.Random) -> Job:
    """The same job with other computations, and the arrangement that follows from them."""
    steps = tuple(
        dataclasses.replace(step, duration_s=step.duration_s * draw.uniform(1 - error, 1 + error))
        if isinstance(step, Compute)
        else step
        for step in job.dag.steps
    )
    dag = job.dag.with_values(steps, job.dag.groups, job.dag.parameters)
    offset_s = derived_offsets(dag)
    groups = (
        dataclasses.replace(group, offsets_s=tuple(offset_s[transfer] for transfer in group.transfers))
        for group in dag.groups
    )
    return dataclasses.replace(job, dag=dag.with_groups(groups))
