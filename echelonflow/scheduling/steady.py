"""Iteration times that jobs on shared links can keep up together: the steady state to which a schedule may aim.

    minimise    the sum of T_j over the jobs
    subject to  T_j >= a_j                        a job's least iteration time, alone
                sum over j of V_jl / T_j <= 1     on every link l, where V_jl is the time that one iteration takes of it

With x_j = 1 / T_j it is the program of alpha-fair sharing for alpha = 2 (Mo and Walrand, IEEE/ACM ToN 8(5), 2000) with
an upper bound of each x_j. So x_j = min(1 / a_j, (sum over l of V_jl * price_l) ^ -1/2) for the right price of each link.
They are found by letting the price of a link grow by what is asked of it over what it has, until neither changes.

The times that come of it are a pace that can be kept up: no link is asked for more than it has, however far the search
came. So their sum bounds nothing from below. What does follows from the same prices (`echelonflow.scheduling.bounds.pace`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.clock import Paths, clock_of, least_iteration_s, link_loads_s
from echelonflow.model.dag import Job
from echelonflow.model.network import Network
from echelonflow.wire.declare import paths_of

MOST_ROUNDS = 2000
EXACT = 1e-9
"""Relative: prices that move by less are the right ones, and links that are asked for no more have room."""


@dataclass(frozen=True, eq=False)
class JobLoads:
    """What k jobs bring to links in one iteration; one row each."""

    id: Ints
    iteration_s: Floats
    """k; the least iteration time, alone."""
    link_start: Ints
    """k + 1; the links that each job uses, in compressed rows."""
    link: Ints
    load_s: Floats
    """How long one iteration keeps the link."""
    compute_s: Floats = field(default_factory=lambda: np.zeros(0))
    """k; GPU-seconds of computation in one iteration. Empty where nobody wants it, as are those below."""
    begin_s: Floats = field(default_factory=lambda: np.zeros(0))
    """k; when an iteration begins to send, alone."""
    rest_s: Floats = field(default_factory=lambda: np.zeros(0))
    """k; what is computed after it has sent all, alone."""

    @cached_property
    def together_s(self) -> Floats:
        """The k iteration times of a pace that they can keep up together; their sum is about the least. Found once."""
        return priced(self).feasible_s


def loads_of(jobs: Sequence[Job], network: Network) -> JobLoads:
    """What the jobs bring to the links, in their order, on the paths of their connections where all are declared in this order."""
    paths = _paths_by_job(jobs, network)
    return _loads(jobs, network, paths, [clock_of(job, network, paths[job.name]).iteration_s for job in jobs])


def least_loads_of(jobs: Sequence[Job], network: Network) -> JobLoads:
    """The same with iteration times that no scheduler can undercut: a job's transfers need not go Coflow by Coflow."""
    paths = _paths_by_job(jobs, network)
    return _loads(jobs, network, paths, [least_iteration_s(job, network, paths[job.name]) for job in jobs])


def _paths_by_job(jobs: Sequence[Job], network: Network) -> Mapping[str, Paths]:
    found: dict[str, dict[str, tuple[int, ...]]] = defaultdict(dict)
    for (job, transfer), path in paths_of(jobs, network).items():
        found[job][transfer] = path
    return found


def _loads(jobs: Sequence[Job], network: Network, paths: Mapping[str, Paths], iteration_s: Sequence[float]) -> JobLoads:
    loads = [link_loads_s(job, network, paths[job.name]) for job in jobs]
    return JobLoads(
        id=np.arange(len(jobs)),
        iteration_s=np.array(iteration_s, np.float64),
        link_start=np.cumsum([0, *map(len, loads)]),
        link=np.array([link for each in loads for link in each], np.int64),
        load_s=np.array([load_s for each in loads for load_s in each.values()], np.float64),
    )


@dataclass(frozen=True, eq=False)
class Priced:
    """What k jobs do at prices of the links that make them share these."""

    feasible_s: Floats
    """k; iteration times that they can keep up together: no link is asked for more than it has."""
    paid_s2: Floats
    """k; what an iteration brings to each link times the link's price, the sum over links."""
    prices_s: float
    """The sum of the prices of all links."""


def priced(jobs: JobLoads, rounds: int = MOST_ROUNDS) -> Priced:
    """What the jobs do at the right prices, or at those that `rounds` came to: 1 at least."""
    links = int(jobs.link.max(initial=-1)) + 1
    alone_s = np.maximum(jobs.iteration_s, 1e-12)
    job = np.repeat(np.arange(len(jobs.id)), np.diff(jobs.link_start))
    asked = np.bincount(jobs.link, weights=jobs.load_s / alone_s[job], minlength=links)
    if not np.any(asked > 1.0):
        return Priced(alone_s, np.zeros(len(alone_s)), 0.0)
    scarce = asked[jobs.link] > 1.0  # the others have room for all at their fastest
    job, link, load_s = job[scarce], jobs.link[scarce], jobs.load_s[scarce]
    price: Floats = np.where(asked > 1.0, np.bincount(link, np.sqrt(load_s), links) ** 2, 0.0)
    for _ in range(rounds):
        paid = np.bincount(job, weights=load_s * price[link], minlength=len(alone_s))
        prices_s = float(price.sum())
        with np.errstate(divide="ignore"):
            per_s = np.minimum(1.0 / alone_s, 1.0 / np.sqrt(paid))
        asked = np.bincount(link, weights=load_s * per_s[job], minlength=links)
        moved = price * np.abs(asked - 1.0)  # where a link has room left over it is to cost nothing
        if asked.max() < 1.0 + EXACT and moved.max() < EXACT * price.max():
            break
        price *= asked
    return Priced(np.maximum(alone_s, asked.max(initial=1.0) / per_s), paid.astype(np.float64), prices_s)
