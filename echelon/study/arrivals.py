"""Jobs that come and go: how long each takes from its arrival to its end, against being alone.

A case has a dozen jobs of all patterns, of 5 to 40 iterations each. They arrive at random, as a
Poisson process of which so many came. What they send is a given share of what the busiest link could carry in that time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from echelon.cases import random_jobs
from echelon.cases.random_jobs import Case
from echelon.study import steady
from echelon.study.contenders import BY_DUE, BY_JOB, COLLECTIVE, FAIR, GROUP, LITERAL
from echelon.study.section import Scores, Section, count
from echelon.study.steady_cases import ALONE, CLOCK
from echelonflow.scheduling import policies
from simulator.fluid import simulate

LOADS = (0.5, 0.9)
JOBS = 12
ITERATIONS = (5, 40)
"""Drawn log-uniformly."""


def policies_compared() -> list[str]:
    """Policies by name, as for steady state but for ablations."""
    orders = ("coflow(grouping=collective,order=job)", "weighted(per=job)", "srpt", "crux")
    return [FAIR, "fifo", COLLECTIVE, GROUP, LITERAL, BY_DUE, BY_JOB, *orders, CLOCK]


def sections(scale: float) -> Iterator[Section]:
    """Arrivals at each load."""
    for load in LOADS:
        yield Section(at_load(load), count(30, scale), Drawer(load), measure)


def at_load(load: float) -> str:
    """The section of a load."""
    return f"arrivals, load {load:g}"


@dataclass(frozen=True)
class Drawer:
    """Draws a case from its load and number alone."""

    load: float

    def __call__(self, number: int) -> Case:
        rng = random.Random(f"study/{at_load(self.load)}/{number}")
        case = steady.bounded(random_jobs.draw(rng, random_jobs.TOPOLOGIES[number % 2], jobs=JOBS))
        few, many = ITERATIONS
        iterations = [round(few * (many / few) ** rng.random()) for _ in case.jobs]
        loads = steady.loads_of(case.jobs, case.network)
        job = np.repeat(np.arange(JOBS), np.diff(loads.link_start))
        lasts_s = float(np.bincount(loads.link, loads.load_s * np.array(iterations)[job]).max()) / self.load
        starts_s = sorted(rng.uniform(0, lasts_s) for _ in case.jobs)
        jobs = tuple(
            dataclasses.replace(job, iterations=number, start_s=start_s)
            for job, number, start_s in zip(case.jobs, iterations, starts_s, strict=True)
        )
        return steady.perturbed(dataclasses.replace(case, jobs=jobs), rng)


def measure(case: Case) -> Scores:
    """Of every policy the seconds from arrival to end of each job; and of each job alone, at its least iteration time."""
    found: Scores = {}
    for name in policies_compared():
        with contextlib.closing(policies.load(name)) as loaded:
            ends = steady.ends_by_job_s(simulate(case.jobs, case.network, loaded), case.jobs)
        took_s = (each[-1] - job.start_s for job, each in zip(case.jobs, ends, strict=True))
        found[name] = [float(f"{time_s:.9g}") for time_s in took_s]
    alone_s = steady.loads_of(case.jobs, case.network).iteration_s
    found[ALONE] = [job.iterations * float(time_s) for job, time_s in zip(case.jobs, alone_s, strict=True)]
    return found
