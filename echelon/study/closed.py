"""Closed batches: every job does a few iterations, and is gone. One random case under many policies.

A case is drawn from its section's name and number alone, so it can be made again, one by one and in any order.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from echelon.cases import random_groups, random_jobs
from echelon.cases.random_jobs import Case
from echelon.study import flow_orders, steady
from echelon.study.contenders import BY_DUE, BY_JOB, COLLECTIVE, FAIR, GROUP, compared, roster
from echelon.study.section import Scores, Section, count
from echelonflow.model.dag import Job
from echelonflow.model.network import Network
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import bounds, policies
from results.analysis.rows import group_rows, iteration_rows
from simulator.fluid import simulate

ITERATIONS = 2
ALONE, BESIDE_ITS_LIKE = "alone", "beside its like"
MIXED, GROUPS = "mixed", "groups"
ONE_JOB, TWO_JOBS, TINY = "orders of one job", "orders of two jobs", "all orders of a tiny job"
ORDERS = 12
"""Random orders of flows that are tried on a case."""
TINY_FLOWS = 5
ITERATION_PROGRAMS = 10
"""Programs spent to bound one case's iterations."""
BOUND_INTERVALS, BOUND_PROGRAMS = 100, 200
"""How finely time is cut, and programs spent, to bound one random set of groups; fewer where a policy reaches it."""


@dataclass(frozen=True)
class Score:
    """What one policy did in one case: seconds; means over jobs, weighted sums over groups."""

    iteration_s: float
    exposed_s: float
    tardiness_s: float

    def to_list(self) -> list[float]:
        """Nine digits, for a file."""
        return [float(f"{value:.9g}") for value in (self.iteration_s, self.exposed_s, self.tardiness_s)]


def score(record: RunRecord, jobs: Sequence[Job]) -> Score:
    """Mean iteration time and exposed communication over jobs, and the weighted sum of all groups' tardiness."""
    rows = iteration_rows(record, jobs)
    weight = {(job.name, group.name): job.weight * group.weight for job in jobs for group in job.dag.groups}
    late = [
        weight[row.job, row.group] * row.tardiness_s for row in group_rows(record, jobs) if row.tardiness_s is not None
    ]
    return Score(
        _by_job([(r.job, r.duration_s) for r in rows]), _by_job([(r.job, r.exposed_s) for r in rows]), math.fsum(late)
    )


def _by_job(values: Sequence[tuple[str, float]]) -> float:
    """Mean over jobs of the mean of each job's values."""
    own: dict[str, list[float]] = {}
    for job, value in values:
        own.setdefault(job, []).append(value)
    return math.fsum(math.fsum(v) / len(v) for v in own.values()) / len(own)


def run(jobs: Sequence[Job], network: Network, policy: str) -> Score:
    """Simulate `jobs` under `policy`."""
    with contextlib.closing(policies.load(policy)) as loaded:
        return score(simulate(jobs, network, loaded), jobs)


def sections(scale: float = 1.0) -> Iterator[Section]:
    """All families: each pattern alone and beside its like, all mixed, groups alone, and those of Property 1."""
    for pattern in random_jobs.PATTERNS:
        for jobs, company in ((1, ALONE), (2, BESIDE_ITS_LIKE)):
            name = family(pattern, company)
            yield Section(name, count(20, scale), _Drawer(name, (pattern,), jobs), measure)
    yield Section(MIXED, count(40, scale), _Drawer(MIXED, (), 0), measure)
    yield Section(GROUPS, count(200, scale), groups_case, measure_groups)
    yield Section(ONE_JOB, count(20, scale), _Drawer(ONE_JOB, (), 1), measure_orders)
    yield Section(TWO_JOBS, count(20, scale), _Drawer(TWO_JOBS, (), 2), measure_orders)
    yield Section(TINY, count(20, scale), tiny_case, measure_all_orders)


def family(pattern: str, company: str) -> str:
    """The section of a pattern's cases, each in that company."""
    return f"{pattern}, {company}"


@dataclass(frozen=True)
class _Drawer:
    """Draws a section's cases; a class, so that it can be sent to another process."""

    name: str
    patterns: tuple[str, ...]
    jobs: int

    def __call__(self, number: int) -> Case:
        topology = random_jobs.TOPOLOGIES[number % 2]
        rng = random.Random(f"study/{self.name}/{number}")
        return steady.perturbed(random_jobs.draw(rng, topology, self.patterns, self.jobs, ITERATIONS), rng)


def measure(case: Case) -> Scores:
    """Scores of `case` under each policy, and under "bound" the least mean iteration time of any scheduler."""
    found: Scores = {name: run(case.jobs, case.network, name).to_list() for name in compared()}
    least_s = min(values[0] for values in found.values())
    bound = bounds.iteration_bound(case.jobs, case.network, programs=ITERATION_PROGRAMS, enough_s=least_s)
    found["bound"] = [bound.mean_s]
    return found


def groups_case(number: int) -> Case:
    """Random groups number `number`: 2 to 6 staggered EchelonFlows and Coflows, releases known."""
    return random_groups.draw(random.Random(f"study/groups/{number}"), random_groups.TOPOLOGIES[number % 2])


def measure_groups(case: Case) -> Scores:
    """Weighted sum of tardiness of `case` under each policy, and under "bound" the least of any scheduler."""
    found: Scores = {name: [_tardiness_s(case, name)] for name in roster()}
    flows = bounds.of_jobs(case.jobs, case.network)
    least = min(values[0] for values in found.values())
    bound = bounds.sum_of_tardiness(flows, BOUND_INTERVALS, programs=BOUND_PROGRAMS, enough_s=least)
    found["bound"] = [bound.total_s]
    return found


def measure_orders(case: Case) -> Scores:
    """Scores under some policies and `ORDERS` random orders of flows."""
    rng = random.Random(case.words)
    names = flow_orders.flow_names(case.jobs)
    compared_with = (FAIR, COLLECTIVE, GROUP, BY_DUE, BY_JOB)
    found: Scores = {name: run(case.jobs, case.network, name).to_list() for name in compared_with}
    for number in range(ORDERS):
        rng.shuffle(names)
        found[f"order {number}"] = run_order(case, names).to_list()
    return found


def run_order(case: Case, order: Sequence[flow_orders.FlowName]) -> Score:
    """Simulate `case` with its flows served in `order`."""
    return score(simulate(case.jobs, case.network, flow_orders.by_order(case.jobs, order)), case.jobs)


def tiny_case(number: int) -> Case:
    """A job with at most `TINY_FLOWS` flows on one link: all orders can be tried."""
    rng = random.Random(f"study/{TINY}/{number}")
    while True:
        pattern = rng.choice(("pipeline", "1f1b", "gpipe", "data-parallel", "layered"))
        case = random_jobs.draw(rng, "one-link", [pattern], 1, 1)
        if 3 <= len(flow_orders.flow_names(case.jobs)) <= TINY_FLOWS:
            return case


def measure_all_orders(case: Case) -> Scores:
    """Scores under every order of flows, under the policies that are compared, and the bound on iterations."""
    found = measure(case)
    for order in flow_orders.all_of(case.jobs):
        found[order] = run_order(case, order).to_list()
    return found


def _tardiness_s(case: Case, policy: str) -> float:
    record = simulate(case.jobs, case.network, policies.load(policy))
    weight = {(job.name, group.name): job.weight * group.weight for job in case.jobs for group in job.dag.groups}
    rows = group_rows(record, case.jobs)
    return math.fsum(weight[row.job, row.group] * row.tardiness_s for row in rows if row.tardiness_s is not None)
