"""Jobs in steady state: iteration times counted only while all jobs of a case run.

In a closed batch short jobs leave, so that an order is rewarded for serving them first. Here each job is given as many
iterations as last about as long as everybody's, at the pace that they can keep up together. What is counted begins when
every job has ended its first iterations, and ends with the first job. Nothing may hang on a tie: sizes are made larger
or smaller by a tenth of a per cent, at random.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from echelon.cases.random_jobs import Case
from echelonflow.model import counting
from echelonflow.model.arrays import Floats
from echelonflow.model.counting import STEADY
from echelonflow.model.dag import Compute, Job
from echelonflow.model.iterations import ends_s, mean_duration_s
from echelonflow.model.network import Network
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import policies
from echelonflow.scheduling import steady as paces
from simulator.fluid import simulate
from simulator.realism import EXACT, Realism

WARM_UP = counting.WARM_UP
"""Iterations of each job that do not count."""
ROUNDS = 12
"""So many iterations of the slowest job fit into the time that all are to run together."""
LONGER = 1.5
"""By so much longer each job is to last than that: it may be faster than its share."""
FEWEST = 4
"""Iterations of each job that are to count."""
MOST_ROUNDS = 4 * ROUNDS
"""Where a job starves, the others are not waited for any longer than this."""
TIE_BREAK = 0.001
loads_of = paces.loads_of


def load_by_link(jobs: Sequence[Job], network: Network) -> Floats:
    """What the jobs ask of each of n links at the pace that each has alone, over what it has."""
    loads = loads_of(jobs, network)
    job = np.repeat(np.arange(len(jobs)), np.diff(loads.link_start))
    asked = np.bincount(loads.link, loads.load_s / loads.iteration_s[job], minlength=len(network.links))
    return asked.astype(np.float64)


def perturbed(case: Case, rng: random.Random) -> Case:
    """The same case with every size a little larger or smaller."""
    jobs = []
    for job in case.jobs:
        steps = tuple(
            step
            if isinstance(step, Compute)
            else dataclasses.replace(
                step, size_bytes=max(round(step.size_bytes * rng.uniform(1 - TIE_BREAK, 1 + TIE_BREAK)), 1)
            )
            for step in job.dag.steps
        )
        jobs.append(dataclasses.replace(job, dag=job.dag.with_values(steps, job.dag.groups, job.dag.parameters)))
    return Case(tuple(jobs), case.network, case.words)


def bounded(case: Case) -> Case:
    """The same case whose ranks do not run away from each other, as memory forbids it.

    A rank begins an iteration when every rank has done its first computation of the one before. Without that, the first
    stage of a pipeline that waits for nobody piles up flows without end where the network is overloaded. A job that
    floods the network has no steady state, and what is found depends on how long it is looked at.
    """
    jobs = []
    for job in case.jobs:
        first: dict[int, str] = {}
        for name in job.dag.order:
            step = job.dag.by_name[name]
            if isinstance(step, Compute):
                first.setdefault(step.rank, name)
        ties = [(earlier, later) for earlier in first.values() for later in first.values()]
        edges = tuple(dict.fromkeys((*job.dag.next_iteration, *ties)))
        jobs.append(dataclasses.replace(job, dag=dataclasses.replace(job.dag, next_iteration=edges)))
    return dataclasses.replace(case, jobs=tuple(jobs))


@dataclass(frozen=True)
class Steady:
    """What was counted while all jobs ran."""

    iteration_s: list[float]
    """Mean iteration time of each job. Of one that starves it is at least that: the time until the first job has ended."""
    fewest: int
    """Iterations that count of the job that has fewest."""


def measure(case: Case, policy: str, realism: Realism = EXACT, profiles: Sequence[Job] | None = None) -> Steady:
    """The jobs of `case` under `policy`, in steady state; `profiles` are the same jobs as they are declared.

    The window is made longer until `FEWEST` iterations of every job count, or one starves.
    """
    together_s = loads_of(case.jobs, case.network).together_s
    rounds = ROUNDS
    while True:
        lasts_s = LONGER * rounds * float(together_s.max())
        jobs = [
            dataclasses.replace(job, iterations=WARM_UP + math.ceil(lasts_s / own_s))
            for job, own_s in zip(case.jobs, together_s.tolist(), strict=True)
        ]
        declared = profiles and [
            dataclasses.replace(profile, iterations=job.iterations) for profile, job in zip(profiles, jobs, strict=True)
        ]
        with contextlib.closing(policies.load(policy)) as loaded:
            record = simulate(jobs, case.network, loaded, realism=realism, profiles=declared)
        ends = ends_by_job_s(record, jobs)
        counted, end_s = while_all_run(ends), min(each[-1] for each in ends)
        fewest = max(min(map(len, counted)) - 1, 0)
        if fewest >= FEWEST:
            return Steady([mean_duration_s(each[1:], each[0]) for each in counted], fewest)
        rounds *= 2
        if rounds > MOST_ROUNDS:
            started = zip(jobs, ends, strict=True)
            done = [(job.start_s, sum(at_s <= end_s for at_s in each)) for job, each in started]
            return Steady([(end_s - start_s) / max(iterations, 1) for start_s, iterations in done], fewest)


def while_all_run(ends: Sequence[Sequence[float]]) -> list[list[float]]:
    """Of the ends of each job's iterations, those from when every job has ended its first ones until the first job has ended.

    Each job has more than `WARM_UP`.
    """
    begin_s, end_s = STEADY.bounds_s({str(place): each for place, each in enumerate(ends)})
    return [[at_s for at_s in each if begin_s <= at_s <= end_s] for each in ends]


def ends_by_job_s(record: RunRecord, jobs: Sequence[Job]) -> list[list[float]]:
    """When the iterations of each job ended."""
    last_s: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    steps: Iterable[tuple[str, int, float]] = itertools.chain(
        ((c.job, c.iteration, c.finish_s) for c in record.computes),
        ((f.job, f.iteration, f.finish_s) for f in record.flows),
    )
    for job, iteration, finish_s in steps:
        last_s[job][iteration] = max(last_s[job][iteration], finish_s)
    return [ends_s((last_s[job.name][k] for k in range(job.iterations)), job.start_s) for job in jobs]
