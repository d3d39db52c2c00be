"""What every run of an experiment is held against (yardsticks.json): each job alone, and a bound that no scheduler beats."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from echelon.experiment.schema import Experiment
from echelonflow.errors import EchelonError
from echelonflow.model.dag import Job, Transfer
from echelonflow.model.iterations import durations_s
from echelonflow.records.run_record import as_run
from echelonflow.records.yardsticks import BoundKind, Yardsticks
from echelonflow.scheduling import policies
from echelonflow.scheduling.bounds import iteration_bound, pace_bound
from echelonflow.scheduling.steady import least_loads_of
from results.analysis.blame import ends_by_job_s
from simulator.fluid import simulate

MOST_STEPS = 2_000_000
"""Steps of all iterations of all jobs that are simulated alone: of more, slowdowns are not known."""
MOST_BOUND_STEPS, MOST_BOUND_FLOWS = 1500, 400
"""Steps of all iterations of one job, whose square is the memory that its bound takes; and flows of all jobs. In a batch
with more, each job alone is the bound."""


def yardsticks_of(experiment: Experiment, *, cheap: bool = False) -> Yardsticks:
    """The yardsticks of an experiment, as far as they can be afforded.

    Where they are to be `cheap`, a batch is bounded by each job alone: the linear program takes longer than a simulation.
    """
    jobs = experiment.jobs
    alone_s: dict[str, tuple[float, ...]] = {}
    if sum(job.iterations * len(job.dag.steps) for job in jobs) <= MOST_STEPS:
        known: dict[tuple[object, ...], tuple[float, ...]] = {}
        for job in jobs:  # copies of a job on other hosts of a network are not the same job: links may differ
            key = (id(job.dag), job.placement, job.iterations, job.discipline)
            if key not in known:
                known[key] = _alone_s(job, experiment)
            if known[key]:
                alone_s[job.name] = known[key]
    kind: BoundKind | None = None
    bound_s: float | None = None
    with contextlib.suppress(EchelonError):  # a linear program that is not solved
        kind, bound_s = _bound(experiment, jobs, cheap=cheap)
    return Yardsticks(alone_s=alone_s, bound_s=bound_s, bound_kind=kind)


def _alone_s(job: Job, experiment: Experiment) -> tuple[float, ...]:
    """How long each iteration of a job takes that has the network to itself; nothing where that cannot be simulated."""
    with contextlib.suppress(EchelonError), contextlib.closing(policies.load("fair")) as fair:
        alone = dataclasses.replace(job, start_s=0.0, after=None)
        # A job that waits for GPUs is placed as it would be with all of them free.
        queue = None if job.is_placed else experiment.queue
        record = simulate([alone], experiment.network, fair, realism=experiment.realism, queue=queue)
        ends = ends_by_job_s(record, as_run([alone], record))[job.name]
        if len(ends) == job.iterations:
            return tuple(durations_s(ends))
    return ()


def _bound(experiment: Experiment, jobs: Sequence[Job], *, cheap: bool) -> tuple[BoundKind | None, float | None]:
    """The strongest bound on the mean iteration time that holds for what counts, and that can be afforded."""
    network, counting = experiment.network, experiment.counting
    if experiment.faults or not all(
        job.is_placed for job in jobs
    ):  # which may end a job; where it will be depends on the policy
        return None, None
    if counting.warm_up is not None:
        return "steady", pace_bound(least_loads_of(jobs, network)).least
    if not counting.is_all:
        return None, None
    follow = any(job.after is not None for job in jobs)  # when these begin depends on the policy
    flows = sum(job.iterations * sum(_crosses(job, each) for each in job.dag.transfers) for job in jobs)
    largest = max(job.iterations * len(job.dag.steps) for job in jobs)
    if not cheap and not follow and largest <= MOST_BOUND_STEPS and flows <= MOST_BOUND_FLOWS:
        return "batch", iteration_bound(jobs, network).mean_s
    return "alone", float(least_loads_of(jobs, network).iteration_s.mean())


def _crosses(job: Job, transfer: Transfer) -> bool:
    return not job.is_local(transfer)
