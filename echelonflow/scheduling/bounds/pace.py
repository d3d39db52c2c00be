"""A lower bound on what iterations take of jobs that go on together for long: links carry no more than they can.

With T_j, a_j and V_jl of `echelonflow.scheduling.steady`, weights w_j and any prices p_l >= 0 of the links, no iteration times
that respect every link have a smaller weighted sum than

    sum over j of min over T >= a_j of (w_j T + sum over l of p_l V_jl / T)   -   sum over l of p_l

This is Lagrange's dual function (Boyd and Vandenberghe, Convex Optimization, 2004, section 5.1). It holds for the prices of
every round of the search, and comes near the least sum as they come near the right ones.

What it leaves out: the order of transfers within a job, which a_j knows only where the job is alone. Times of a window count from
the first iteration that begins in it to the last one that ends. So links carry some of that before, and in windows of few
iterations a mean may be a little below.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats
from echelonflow.scheduling.steady import MOST_ROUNDS, JobLoads, priced


@dataclass(frozen=True)
class PaceBound:
    """Weighted means over jobs of iteration times that they can keep up together, in seconds times the weights' unit."""

    least: float
    """None has a smaller mean."""
    reached: float
    """Times that links allow have this mean: the least is between the two."""

    @property
    def gap(self) -> float:
        """How far apart the two are, as a share of the lower one; 0 where nothing takes any time."""
        return self.reached / self.least - 1.0 if self.least else 0.0


def pace_bound(jobs: JobLoads, weight: Floats | None = None, *, rounds: int = MOST_ROUNDS) -> PaceBound:
    """The bound on the mean over k jobs of their iteration times, each times its `weight` (k, above 0; else 1).

    With weights of 1 over the least iteration time alone it is the mean slowdown. Fewer `rounds` make a wider gap.
    `jobs` are those of `steady.least_loads_of`: other iteration times may be undercut.
    """
    if weight is not None:  # in times that are scaled by their weights it is the same program
        of_load = np.repeat(weight, np.diff(jobs.link_start))
        jobs = dataclasses.replace(jobs, iteration_s=jobs.iteration_s * weight, load_s=jobs.load_s * of_load)
    found = priced(jobs, rounds)
    times_s = np.maximum(jobs.iteration_s, np.sqrt(found.paid_s2))
    shared_s = np.divide(found.paid_s2, times_s, out=np.zeros_like(times_s), where=times_s > 0)
    sums = float((times_s + shared_s).sum()) - found.prices_s, float(found.feasible_s.sum())
    least, reached = (each / max(len(jobs.id), 1) for each in sums)
    return PaceBound(least, reached)
