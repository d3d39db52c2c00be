"""Arrivals that a process draws."""

from __future__ import annotations

import itertools
import statistics

import pytest

from echelon.experiment.arrivals import with_arrivals
from echelon.experiment.specs import ArrivalsSpec
from echelonflow.model.dag import Compute, Job, JobDag

JOBS = [Job(f"j{i}", JobDag(1, (Compute("c", 0, 1.0),)), ("h1",)) for i in range(2000)]


def starts(process: str, seed: int | None = 1, experiment: int = 0, stretch: float = 1.0) -> list[float]:
    spec = ArrivalsSpec(process=process, every="2 s", seed=seed)
    return [job.start_s for job in with_arrivals(JOBS, (), spec, experiment, stretch)]


def test_poisson_arrivals_have_exponential_gaps_of_the_mean_that_is_asked_for():
    drawn = starts("poisson")
    gaps = [later - earlier for earlier, later in itertools.pairwise(drawn)]
    assert drawn[0] == 0.0
    assert statistics.fmean(gaps) == pytest.approx(2.0, rel=0.05)
    assert statistics.pstdev(gaps) == pytest.approx(2.0, rel=0.1)


def test_they_follow_from_the_seed_or_that_of_the_experiment():
    assert starts("poisson", 1) == starts("poisson", 1, experiment=9)
    assert starts("poisson", None, experiment=1) == starts("poisson", 1)
    assert starts("poisson", 2) != starts("poisson", 1)


def test_even_arrivals_are_even_and_time_can_be_stretched():
    assert starts("even")[:3] == pytest.approx([0.0, 2.0, 4.0])
    assert starts("even", stretch=3.0)[:3] == pytest.approx([0.0, 6.0, 12.0])


def test_a_job_that_says_when_it_starts_keeps_its_start():
    spec = ArrivalsSpec(process="even", every="2 s")
    found = with_arrivals(JOBS[:3], {"j1"}, spec, 0, 1.0)
    assert [job.start_s for job in found] == pytest.approx([0.0, 0.0, 2.0])
