"""Circles, the affinity graph, and shifts that leave as little as possible beyond the capacity of links."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from echelonflow.scheduling import time_shifts
from echelonflow.scheduling.time_shifts import Profile, affinity, shifts, unified

ANGLES = 72


def profile(job, period_s, *pieces, began_s=0.0):
    """An iteration that keeps links: (link, since when, for how long, share of the link)."""
    link, begin_s, lasts_s, share = zip(*pieces, strict=True)
    lasts_s = np.array(lasts_s, float)
    return Profile(
        job, period_s, began_s, np.array(link), np.array(begin_s, float), lasts_s, lasts_s * np.array(share, float)
    )


def found(*profiles, **options):
    """The shifts of the jobs in the only part of their affinity graph."""
    ((jobs, vertices),) = affinity(profiles)
    return shifts(profiles, jobs, vertices, angles=ANGLES, **options)


def least_excess(profiles, links, step_s, period_s):
    """By trying all shifts of jobs with equal periods: the least sum over links, as a share of the circle."""
    moments = (np.arange(ANGLES) + 0.5) * step_s

    def asked(one, link, shift_s):
        total = np.zeros(ANGLES)
        for on, begin_s, lasts_s, load_s in zip(one.link, one.begin_s, one.lasts_s, one.load_s, strict=True):
            if on == link:
                total += (((moments - begin_s - shift_s) % period_s) < lasts_s) * load_s / lasts_s
        return total

    return min(
        sum(
            np.maximum(sum(asked(p, link, k * step_s) for p, k in zip(profiles, (0, *ks), strict=True)) - 1, 0).mean()
            for link in links
        )
        for ks in itertools.product(range(ANGLES), repeat=len(profiles) - 1)
    )


def test_jobs_that_share_no_link_are_in_no_part():
    a, b = profile("a", 4.0, (0, 2.0, 2.0, 1.0)), profile("b", 4.0, (1, 2.0, 2.0, 1.0))
    assert affinity([a, b]) == []


def test_links_that_the_same_jobs_share_are_one_vertex():
    pieces = [(link, 2.0, 2.0, 1.0) for link in range(3)]
    a, b, c = profile("a", 4.0, *pieces), profile("b", 4.0, *pieces[:2]), profile("c", 4.0, pieces[2])
    assert affinity([a, b, c]) == [([0, 1, 2], [[0, 1], [2]])]


@pytest.mark.parametrize(
    ("periods_s", "perimeter_s", "turns"),
    [
        ((2.0, 2.0), 2.0, [1, 1]),
        ((2.0, 3.0), 6.0, [3, 2]),
        ((0.4, 0.6, 1.0), 6.0, [15, 10, 6]),
        ((4.0, 1.0), 4.0, [1, 4]),
    ],
)
def test_the_perimeter_is_the_least_common_multiple(periods_s, perimeter_s, turns):
    found_s, of_each = unified(periods_s)
    assert found_s == pytest.approx(perimeter_s)
    assert of_each == turns


def test_periods_without_a_common_multiple_are_rounded_up_and_by_little():
    perimeter_s, turns = unified([1.0, 2**0.5])
    for period_s, count in zip([1.0, 2**0.5], turns, strict=True):
        assert 1.0 <= perimeter_s / count / period_s < 1.02


def test_iterations_that_are_too_short_for_angles_count_by_their_mean():
    best = found(profile("a", 1.0, (0, 0.0, 0.5, 1.0)), profile("b", 1e5, (0, 0.0, 5e4, 0.5)))
    assert best.score == pytest.approx(1.0)
    assert best.of_job["a"].every_s == pytest.approx(1.0)
    best = found(profile("a", 1.0, (0, 0.0, 0.5, 1.0)), profile("b", 1e5, (0, 0.0, 5e4, 1.0)))
    assert best.score == pytest.approx(0.75), "half the time half of what the first one asks is too much"


def test_two_halves_interleave_and_the_first_job_stays():
    half = (0, 2.0, 2.0, 1.0)
    best = found(profile("a", 4.0, half, began_s=1.0), profile("b", 4.0, half, began_s=1.5))
    assert (best.score, best.complete) == (1.0, True)
    assert best.of_job["a"].first_s == pytest.approx(1.0)
    assert best.of_job["b"].first_s % 4.0 == pytest.approx(3.0)
    assert {shift.every_s for shift in best.of_job.values()} == {4.0}


def test_of_equal_shifts_those_count_that_wait_least():
    quarter = (0, 0.0, 1.0, 1.0)
    best = found(profile("a", 4.0, quarter), profile("b", 4.0, quarter, began_s=2.0))
    assert best.of_job["b"].first_s == pytest.approx(2.0), "it interleaves where it is"


def test_periods_of_which_one_is_twice_the_other_interleave():
    best = found(profile("a", 2.0, (0, 0.0, 1.0, 1.0)), profile("b", 4.0, (0, 0.0, 1.0, 1.0)))
    assert best.score == 1.0
    assert best.of_job["b"].first_s % 2.0 == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(6))
def test_no_other_shift_has_less_excess(seed):
    """Against trying them all: three jobs of one period on two links, which make a loop."""
    rng = np.random.default_rng(seed)
    step_s = 4.0 / ANGLES

    def drawn(job):
        pieces = [
            (link, rng.integers(ANGLES) * step_s, rng.integers(10, 40) * step_s, rng.choice([0.5, 1.0]))
            for link in range(2)
        ]
        return profile(job, 4.0, *pieces)

    profiles = [drawn(job) for job in "abc"]
    best = found(*profiles)
    assert best.complete
    placed = [best.of_job[p.job].first_s for p in profiles]
    moved = [
        Profile(p.job, p.period_s, p.began_s, p.link, p.begin_s + at_s, p.lasts_s, p.load_s)
        for p, at_s in zip(profiles, placed, strict=True)
    ]
    total = sum(np.maximum(sum(_asked(one, link) for one in moved) - 1, 0).mean() for link in range(2))
    assert total == pytest.approx(least_excess(profiles, range(2), step_s, 4.0), abs=1e-6)


def _asked(one, link):
    return time_shifts._Circle(4.0, ANGLES).asked(one, 1, link)


def test_a_graph_without_loops_is_walked_from_link_to_link():
    """a and b share one link, b and c another one: each link is solved by itself, and both scores are 1."""
    half = [(link, 2.0, 2.0, 1.0) for link in range(2)]
    best = found(profile("a", 4.0, half[0]), profile("b", 4.0, *half), profile("c", 4.0, half[1]))
    assert best.score == 1.0
    at_s = {job: shift.first_s % 4.0 for job, shift in best.of_job.items()}
    assert at_s == pytest.approx({"a": 0.0, "b": 2.0, "c": 0.0})


def test_jobs_around_a_loop_are_solved_together():
    """Three jobs, each pair of which shares a link, a third of the time each: one shift is right on all links."""
    third = (2.0, 1.0, 1.0)
    pairs = {"a": (0, 1), "b": (1, 2), "c": (2, 0)}
    best = found(*(profile(job, 3.0, *((link, *third) for link in links)) for job, links in pairs.items()))
    assert best.score == 1.0
    assert sorted(round(shift.first_s % 3.0, 6) for shift in best.of_job.values()) == [0.0, 1.0, 2.0]


def test_what_does_not_fit_has_a_score_below_one():
    much = (0, 0.0, 2.4, 1.0)
    best = found(profile("a", 4.0, much), profile("b", 4.0, much))
    assert best.score == pytest.approx(1 - 0.8 / 4.0, abs=1 / ANGLES)
    assert found(profile("a", 4.0, much), profile("b", 4.0, much), stretch=1.25).score == pytest.approx(1.0, abs=1e-9)


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    monkeypatch.setattr(time_shifts, "MOST_NODES", 3)
    rng = np.random.default_rng(1)
    jobs = [profile(job, 4.0, (0, rng.uniform(0, 4), 1.7, 0.8)) for job in "abcd"]
    assert not found(*jobs).complete
