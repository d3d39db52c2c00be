"""CASSINI: jobs are held back until what they send interleaves, and kept there."""

from __future__ import annotations

import doctest
import itertools

import pytest

from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.slots import HeldIterations, Slots
from echelonflow.scheduling import policies
from echelonflow.scheduling.policies import cassini
from simulator.fluid import simulate

NETWORK = topologies.build("single-switch", {"hosts": 4, "rate_bps": 8e6})
LINK_BPS = float(NETWORK.capacity_Bps[0])
ITERATIONS = 24
CLOSE = 0.02
"""Relative: slots lie on angles of 5 degrees, so the first iterations may be that much longer."""


def job(name, compute_s, send_s, ends=("h1", "h2"), start_s=0.0, iterations=ITERATIONS):
    """A job that computes, then sends from each host to the next one."""
    ranks = range(len(ends) - 1)
    steps = (
        *(Compute(f"c{r}", r, compute_s) for r in ranks),
        *(Transfer(f"t{r}", r, r + 1, round(send_s * LINK_BPS), f"t{r}", (f"c{r}",)) for r in ranks),
    )
    groups = tuple(Group(f"g{r}", "test", (f"t{r}",), (0.0,)) for r in ranks)
    nexts = tuple((f"t{r}", f"c{other}") for r in ranks for other in ranks)
    return Job(name, JobDag(len(ends), steps, groups, nexts), ends, iterations, start_s=start_s)


def simulated(jobs, policy):
    """The durations of the iterations of each job, and what was counted."""
    record = simulate(jobs, NETWORK, policies.load(policy))
    durations = {}
    for one in jobs:
        ends = [
            max(f.finish_s for f in record.flows if (f.job, f.iteration) == (one.name, k))
            for k in range(one.iterations)
        ]
        durations[one.name] = [b - a for a, b in itertools.pairwise(ends)]
    return durations, record.counters


def steady(durations):
    """Mean iteration of each job, after the first few and before the first job ends."""
    return {name: sum(times[4:-4]) / len(times[4:-4]) for name, times in durations.items()}


def test_two_jobs_of_equal_periods_interleave():
    jobs = [job("a", 1.0, 0.9), job("b", 1.0, 0.9, start_s=0.2)]
    fair, held = (steady(simulated(jobs, policy)[0]) for policy in ("fair", "cassini"))
    assert min(fair.values()) > 2.5
    assert held == pytest.approx({"a": 1.9, "b": 1.9}, rel=CLOSE)


def test_a_job_is_held_back_once_and_then_has_its_slot():
    jobs = [job("a", 1.0, 0.9), job("b", 1.0, 0.9, start_s=0.2)]
    _, counters = simulated(jobs, "cassini")
    assert counters["times that slots were computed"] == 4, "two came, and two went"
    assert 1 <= counters["iterations held back"] < 2 * ITERATIONS


def test_periods_of_which_one_is_twice_the_other():
    jobs = [job("a", 1.0, 0.8), job("b", 3.0, 0.6, start_s=0.3, iterations=ITERATIONS // 2)]
    held = steady(simulated(jobs, "cassini")[0])
    assert held == pytest.approx({"a": 1.8, "b": 3.6}, rel=CLOSE)


def test_jobs_around_a_loop_of_links():
    jobs = [job("a", 2.2, 0.9, ("h1", "h2", "h3")), job("b", 2.2, 0.9, ("h2", "h3", "h4"), 0.1), job("c", 2.2, 0.9, ("h1", "h4"), 0.2), job("d", 2.2, 0.9, ("h1", "h2"), 0.3)]  # fmt: skip
    fair, held = (steady(simulated(jobs, policy)[0]) for policy in ("fair", "cassini"))
    assert held == pytest.approx(dict.fromkeys("abcd", 3.1), rel=CLOSE)
    assert sum(fair.values()) > sum(held.values())


@pytest.mark.parametrize("misfits", ["stretch", "leave"])
def test_three_jobs_that_do_not_fit_are_no_slower_than_under_fair_sharing(misfits):
    jobs = [job(name, 1.0, 0.8, start_s=at_s) for name, at_s in (("a", 0.0), ("b", 0.15), ("c", 0.4))]
    fair, held = (steady(simulated(jobs, policy)[0]) for policy in ("fair", f"cassini(misfits={misfits})"))
    for name in "abc":
        assert held[name] < fair[name] * (1 + CLOSE)


def test_periods_that_cannot_interleave_are_left_alone():
    """In 6 s one sends three times and the other twice, evenly: wherever these are, they meet, though the link has room."""
    jobs = [job("a", 1.4, 0.6), job("b", 2.2, 0.8, start_s=0.3)]
    fair, _ = simulated(jobs, "fair")
    held, counters = simulated(jobs, "cassini")
    assert (held, counters["iterations held back"]) == (fair, 0)


def test_a_job_that_is_alone_is_never_held_back():
    jobs = [job("a", 1.0, 0.9), job("b", 1.0, 0.9, ("h3", "h4"), 0.2)]
    durations, counters = simulated(jobs, "cassini")
    assert counters["iterations held back"] == 0
    assert durations["a"] == pytest.approx([1.9] * (ITERATIONS - 1))


def test_slots_are_computed_anew_when_a_job_comes():
    """The third job comes later; from then on all three interleave."""
    jobs = [job("a", 2.0, 0.9), job("b", 2.0, 0.9), job("c", 2.0, 0.9, start_s=20.0, iterations=12)]
    durations, _ = simulated(jobs, "cassini")
    assert durations["c"][3:] == pytest.approx([2.9] * 8, rel=CLOSE)
    assert sum(durations["a"][10:16]) / 6 == pytest.approx(2.9, rel=CLOSE)


@pytest.mark.parametrize(
    ("now_s", "begin_s"),
    [(5.0, 5.0), (5.1, 5.1), (5.11, 7.0), (6.9, 7.0), (4.0, 5.0), (1.0, 1.0), (-1.5, -1.0), (7.0 - 1e-12, 7.0 - 1e-12)],
)
def test_who_is_late_by_more_than_the_tolerance_waits_for_the_next_slot(now_s, begin_s):
    assert Slots(5.0, 2.0, 0.1).begin_s(now_s) == pytest.approx(begin_s, abs=1e-15)


def test_the_first_step_decides_for_its_iteration():
    held = HeldIterations(Slots(0.0, 2.0, 0.1))
    assert held.begin_s(1, 0.05) == 0.05
    assert held.begin_s(1, 0.3) == 0.3, "its iteration began in time"
    assert held.begin_s(2, 2.5) == 4.0
    assert held.begin_s(2, 2.6) == 4.0
    assert (held.held, held.held_s) == (1, 1.5)


@pytest.mark.parametrize("options", ["angles=3", "angles=721", "tolerance=-0.1", "tolerance=1", "misfits=hope"])
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(InputError, match="policy cassini"):
        policies.load(f"cassini({options})")


def test_the_worked_example_of_slots():
    (example,) = doctest.DocTestFinder(recurse=False).find(cassini.slots, "slots", cassini, vars(cassini))
    assert len(example.examples) == 4
    assert doctest.DocTestRunner().run(example).failed == 0
