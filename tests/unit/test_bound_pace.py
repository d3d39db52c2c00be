"""The bound on iteration times of jobs that go on together: near the least sum, and below whatever is simulated."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from echelon.cases import random_jobs
from echelon.study import steady
from echelonflow.model.arrays import Floats
from echelonflow.scheduling.bounds import pace_bound
from echelonflow.scheduling.steady import JobLoads, least_loads_of, loads_of, priced
from results.analysis.connection_paths import paths_of
from simulator.fluid import simulate

FEW = 1e-3
"""Relative: a gap that says that the bound is nearly the least mean."""
POLICIES = ("fair", "clock", "echelonflow")


def loads(alone_s, *by_link):
    """Jobs with these iteration times alone; `by_link` has for each job {link: seconds}."""
    start = np.cumsum([0, *map(len, by_link)])
    link = np.array([at for each in by_link for at in each], np.int64)
    load_s = np.array([seconds for each in by_link for seconds in each.values()], np.float64)
    return JobLoads(np.arange(len(alone_s)), np.array(alone_s, np.float64), start, link, load_s)


def drawn(seed: int, jobs: int, links: int) -> JobLoads:
    rng = np.random.default_rng(seed)
    by_link = []
    for _ in range(jobs):
        used = rng.choice(links, rng.integers(1, max(links // 2, 2)), replace=False)
        by_link.append({int(link): float(rng.uniform(0.05, 1.0)) for link in used})
    return loads([max(*each.values(), rng.uniform(0.2, 2.0)) for each in by_link], *by_link)


def least_by_programs(jobs: JobLoads, weight: Floats) -> float:
    """The least weighted mean, from below, by linear programs: 1 / x is at least each of its tangents (Kelley's cutting planes)."""
    count, links = len(jobs.id), int(jobs.link.max()) + 1
    job = np.repeat(np.arange(count), np.diff(jobs.link_start))
    share = np.zeros((links, count))  # of a link, at the pace that a job has alone
    share[jobs.link, job] = jobs.load_s / jobs.iteration_s[job]
    weighted_s = weight * jobs.iteration_s
    rows, most = [np.hstack([share, np.zeros_like(share)])], [np.ones(links)]
    tangents = [np.full(count, at) for at in (1.0, 0.5, 0.25, 0.1)]
    for _ in range(40):
        for at in tangents:
            rows.append(np.hstack([-np.diag(weighted_s / at**2), -np.eye(count)]))
            most.append(-2.0 * weighted_s / at)
        found = linprog(
            np.r_[np.zeros(count), np.ones(count)], A_ub=np.vstack(rows), b_ub=np.concatenate(most),
            bounds=[(1e-6, 1.0)] * count + [(0.0, None)] * count, method="highs",
        )  # fmt: skip
        at = found.x[:count]
        if float((weighted_s / at).sum()) < found.fun * (1 + 1e-6):
            break
        tangents = [at]
    return float(found.fun) / count


def test_with_room_for_all_it_is_the_mean_of_those_alone():
    found = pace_bound(loads([4.0, 5.0], {0: 2.0}, {0: 2.5}))
    assert (found.least, found.reached, found.gap) == (4.5, 4.5, 0.0)


def test_on_one_link_the_least_sum_is_known():
    found = pace_bound(loads([1.0, 4.0], {0: 1.0}, {0: 4.0}))  # 3 and 6: as the roots of what they bring
    assert found.least == pytest.approx(4.5, rel=1e-8)
    assert found.reached == pytest.approx(4.5, rel=1e-8)


def test_the_least_slowdown_is_another_than_that_of_the_least_sum():
    jobs = loads([1.0, 4.0], {0: 1.0}, {0: 4.0})
    found = pace_bound(jobs, 1.0 / jobs.iteration_s)
    assert found.least == pytest.approx(2.0, rel=1e-8), "both twice as long as alone: 2 and 8"
    assert np.mean(jobs.together_s / jobs.iteration_s) == pytest.approx((3.0 + 1.5) / 2, rel=1e-6)


def test_nobody_and_those_that_do_nothing():
    assert pace_bound(loads([])).least == 0.0
    assert pace_bound(loads([2.0, 0.0], {}, {})).least == 1.0


@pytest.mark.parametrize(("jobs", "links"), [(5, 3), (20, 12), (40, 60)])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_what_linear_programs_find(jobs, links, weighted):
    case = drawn(jobs, jobs, links)
    weight = 1.0 / case.iteration_s if weighted else np.ones(jobs)
    found, by_programs = pace_bound(case, weight), least_by_programs(case, weight)
    assert found.least == pytest.approx(by_programs, rel=1e-4)
    assert found.reached >= by_programs * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_the_gap_is_small_with_tens_of_jobs_and_links(seed, jobs, links, weighted):
    case = drawn(seed, jobs, links)
    found = pace_bound(case, 1.0 / case.iteration_s if weighted else None)
    assert -1e-9 <= found.gap < FEW


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 10), st.integers(1, 30))
def test_wherever_the_search_is_stopped_it_bounds_from_below_and_times_can_be_kept_up(seed, jobs, links, rounds):
    case = drawn(seed, jobs, links)
    assert pace_bound(case, rounds=rounds).least <= pace_bound(case).reached * (1 + 1e-9)
    times_s = priced(case, rounds).feasible_s
    job = np.repeat(np.arange(jobs), np.diff(case.link_start))
    assert np.bincount(case.link, case.load_s / times_s[job]).max() <= 1 + 1e-9


def case_on(topology, jobs, seed, ecmp_seed):
    """Jobs that have a steady state, on a network that spreads connections."""
    rng = random.Random(seed)
    case = random_jobs.draw(rng, topology, jobs=jobs)
    network = dataclasses.replace(case.network, ecmp_seed=ecmp_seed)
    return steady.perturbed(steady.bounded(dataclasses.replace(case, network=network)), rng)


@pytest.mark.parametrize(
    ("topology", "jobs", "seed"),
    [("one-link", 3, 2), ("one-link", 3, 3), ("leaf-spine", 4, 3), ("leaf-spine", 4, 5), ("fabric-16", 10, 0)],
)
def test_no_policy_is_below_it_in_simulation(topology, jobs, seed):
    held(case_on(topology, jobs, seed, ecmp_seed=1), POLICIES)


def test_nor_with_many_jobs_and_links_where_connections_of_a_pair_of_hosts_part():
    case = case_on("fabric-64", 16, 1, ecmp_seed=1)
    nearest = held(case, ("fair", "clock"))
    by_destination = dataclasses.replace(case.network, ecmp_seed=None)
    elsewhere = pace_bound(least_loads_of(case.jobs, by_destination)).least
    assert elsewhere > nearest, "the bound of other paths is none, or this case would not tell"


def held(case, policies):
    """The least mean iteration time under `policies`, none of which is below its bound."""
    jobs = least_loads_of(case.jobs, case.network)
    of_times, of_slowdowns = pace_bound(jobs), pace_bound(jobs, 1.0 / jobs.iteration_s)
    assert max(of_times.gap, of_slowdowns.gap) < FEW
    means_s = []
    for policy in policies:
        times_s = np.array(steady.measure(case, policy).iteration_s)
        assert times_s.mean() >= of_times.least, policy
        assert np.mean(times_s / jobs.iteration_s) >= of_slowdowns.least, policy
        means_s.append(float(times_s.mean()))
    return min(means_s)


def test_loads_are_what_the_simulation_carries():
    case = case_on("leaf-spine", 6, 4, ecmp_seed=3)
    record = simulate(case.jobs, case.network, steady.policies.load("fair"))
    flow, paths = paths_of(record.flows, case.network)
    carried = np.zeros(len(case.network.links))
    for each, which in zip(record.flows, flow, strict=True):
        for link in paths[which]:
            carried[link] += each.size_bytes / case.network.capacity_Bps[link]
    jobs = loads_of(case.jobs, case.network)
    iterations = np.repeat([job.iterations for job in case.jobs], np.diff(jobs.link_start))
    assert np.bincount(jobs.link, jobs.load_s * iterations, len(carried)) == pytest.approx(carried)
