"""Iteration times that jobs can keep up together, by hand and against a general solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from echelonflow.scheduling.steady import JobLoads, priced


def feasible_s(jobs):
    return priced(jobs).feasible_s


def loads(alone_s, *by_link):
    """Jobs with these iteration times alone; `by_link` has for each job {link: seconds}."""
    start = np.cumsum([0, *map(len, by_link)])
    link = np.array([at for each in by_link for at in each], np.int64)
    load_s = np.array([seconds for each in by_link for seconds in each.values()], np.float64)
    alone = np.array(alone_s, np.float64)
    return JobLoads(np.arange(len(alone)), alone, start, link, load_s)


def test_with_room_for_all_everybody_goes_as_fast_as_alone():
    assert feasible_s(loads([4.0, 5.0], {0: 2.0}, {0: 2.5})).tolist() == [4.0, 5.0]


def test_on_one_link_times_are_as_the_roots_of_what_they_bring_to_it():
    assert feasible_s(loads([1.0, 4.0], {0: 1.0}, {0: 4.0})) == pytest.approx([3.0, 6.0])


def test_one_that_cannot_go_faster_leaves_the_rest_to_the_others():
    assert feasible_s(loads([1.0, 7.0], {0: 1.0}, {0: 4.0})) == pytest.approx([7 / 3, 7.0])


def test_one_that_meets_two_others_on_links_of_their_own_gives_way():
    through, one, other = feasible_s(loads([1.0] * 3, {0: 1.0, 1: 1.0}, {0: 1.0}, {1: 1.0}))
    assert one == pytest.approx(other)
    assert through > 1.3 * one


def test_nobody_is_under_way():
    assert feasible_s(loads([])).tolist() == []


def test_jobs_that_bring_nothing_take_their_own_time():
    assert feasible_s(loads([2.0, 0.0], {}, {})) == pytest.approx([2.0, 0.0])


@st.composite
def cases(draw):
    jobs, links = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    seconds = st.integers(1, 20).map(lambda tenths: tenths / 10)
    by_link = [draw(st.dictionaries(st.integers(0, links - 1), seconds, min_size=1)) for _ in range(jobs)]
    return loads([max(*each.values(), draw(seconds)) for each in by_link], *by_link), links


@settings(max_examples=60)
@given(cases())
def test_no_general_solver_finds_a_smaller_sum(case):
    jobs, links = case
    found_s = feasible_s(jobs)
    load = np.zeros((len(found_s), links))
    load[np.repeat(np.arange(len(found_s)), np.diff(jobs.link_start)), jobs.link] = jobs.load_s
    assert np.all(found_s >= jobs.iteration_s)
    assert np.max((load / found_s[:, None]).sum(axis=0)) <= 1 + 1e-9
    start_s = jobs.iteration_s * max(1.0, (load / jobs.iteration_s[:, None]).sum(axis=0).max())
    best = minimize(
        np.sum, start_s, jac=np.ones_like, bounds=[(alone_s, None) for alone_s in jobs.iteration_s], method="SLSQP",
        constraints={
            "type": "ineq",
            "fun": lambda times_s: 1 - (load / times_s[:, None]).sum(axis=0),
            "jac": lambda times_s: (load / times_s[:, None] ** 2).T,
        },
        options={"maxiter": 500, "ftol": 1e-12},
    )  # fmt: skip
    assert found_s.sum() <= best.fun * (1 + 1e-4)


def test_they_are_found_once():
    jobs = loads([1.0, 1.0], {0: 1.0}, {0: 1.0})
    assert jobs.together_s is jobs.together_s
    assert jobs.together_s == pytest.approx([2.0, 2.0])
