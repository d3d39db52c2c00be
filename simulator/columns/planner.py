"""Looks ahead for the policy `lookahead`: rolls a running simulation forward under candidates, and improves the best one.

A roll-out is a copy of the columns that goes on by itself, so it begins exactly where the jobs are. A search that tries many
orders finds what is good for the end of its roll-outs, and pays for it later. So candidates, and what a search has made of
the best one, are judged by roll-outs that go `JUDGED` times as far. All that is by chance follows from the policy's seed and
the number of plans so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling import policies
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.policies.lookahead import InForce

STEP = 0.3
"""Due times are moved by so much of the job's iteration time, one standard deviation."""
JUDGED = 2
CLOCK = "clock"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy, and by how many seconds the due times of each declared flow are earlier."""

    policy: Policy
    earlier_s: Floats


RollOut = Callable[[Candidate, int], float]
"""What is to be small, when a candidate has been in force for so many iterations of the slowest job."""


@dataclass(frozen=True, eq=False)
class Flows:
    """What is declared of flows: an id without its iteration, and places of its Coflow and job."""

    template: Ints
    coflow: Ints
    job: Ints


@dataclass(frozen=True, eq=False)
class Found:
    """The best of all that was tried, and how many futures that took."""

    best: Candidate
    roll_outs: int
    judged: int
    """How many candidates were judged, those included that a search or an earlier plan has made."""


def always() -> bool:
    """That there is time left, where no time passes."""
    return True


def best_of(
    in_force: InForce,
    flows: Flows,
    pace_s: Floats,
    roll_out: RollOut,
    *,
    goes_on: Callable[[], bool] = always,
    remembered: Candidate | None = None,
) -> Found:
    """The best of all candidates, of what is in force, and of what a search makes of the best by clocks.

    `pace_s` are the iteration times that the jobs can keep up together. What is in force is judged first, and then all others as
    long as it `goes_on`. A plan that is `remembered` is a candidate too; where it is the best there is no search.
    """
    none = np.zeros(len(flows.job))
    candidates = [Candidate(policies.load(name), none) for name in in_force.candidates]
    if remembered is not None:
        candidates.append(remembered)
    if in_force.plans:
        candidates.append(Candidate(in_force.chosen, in_force.of(flows.template)))
    far = JUDGED * in_force.rounds
    values = [math.inf] * len(candidates)
    roll_outs = 0
    places = range(len(candidates))
    for place in (places[-1], *places[:-1]) if in_force.plans else places:
        if roll_outs and not goes_on():
            break
        values[place] = roll_out(candidates[place], far)
        roll_outs += 1
    best = candidates[int(np.argmin(values))]
    by_clock = [p for p in places if candidates[p].policy.name.startswith(CLOCK) and values[p] < math.inf]
    if in_force.tries and by_clock and goes_on() and (remembered is None or best is not remembered):
        begin = candidates[min(by_clock, key=values.__getitem__)]
        improved, tries = _improved(in_force, begin, flows, pace_s, roll_out, goes_on)
        candidates.append(improved)
        values.append(roll_out(improved, far))
        roll_outs += tries + 2
    return Found(candidates[int(np.argmin(values))], roll_outs, sum(value < math.inf for value in values))


def _improved(
    in_force: InForce, begin: Candidate, flows: Flows, pace_s: Floats, roll_out: RollOut, goes_on: Callable[[], bool]
) -> tuple[Candidate, int]:  # fmt: skip
    """An order by clocks, with due times moved as long as that makes it better; and how many moves were tried."""
    rng = np.random.default_rng((in_force.seed, in_force.plans))
    found, value = begin, roll_out(begin, in_force.rounds)
    sets = [flows.coflow, flows.job] if len(np.unique(flows.job)) > 1 else [flows.coflow]
    tries = 0
    while tries < in_force.tries and goes_on():
        tries += 1
        member = sets[rng.integers(len(sets))]
        flow = rng.integers(len(member))
        moved = np.where(member == member[flow], rng.normal(0.0, STEP * pace_s[flows.job[flow]]), 0.0)
        tried = Candidate(found.policy, found.earlier_s + moved)
        if (tried_value := roll_out(tried, in_force.rounds)) < value:
            found, value = tried, tried_value
    return found, tries


def value_s(iteration_s: Floats, alone_s: Floats, slowdown: float) -> float:
    """The mean over jobs of iteration times; longer by as many times as a job is beyond a slowdown against `alone_s`.

    Jobs whose time is not a number count for nothing.
    """
    counts = np.isfinite(iteration_s)
    if not counts.any():
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = float(np.nanmax(iteration_s[counts] / alone_s[counts]))
    beyond = max(worst / slowdown, 1.0) if math.isfinite(worst) else 1.0
    return float(np.mean(iteration_s[counts])) * beyond


def iteration_times_s(ends_s: Sequence[Floats], left: Sequence[int], begin_s: float, end_s: float) -> Floats:
    """By job the time that an iteration takes while all of them go on, from `begin_s` to `end_s` at most.

    `left` is how many iterations each job has still. It is over when the first job has ended its last one: what others gain
    from that is nothing to aim for. All that a job waits counts. The iteration that is under way at the end counts by the time that it has taken,
    as the share of the mean so far, of one at most. For jobs that have none left it is not a number.
    """
    later = [ends[ends > begin_s] for ends in ends_s]
    lasts = [ends[number - 1] for ends, number in zip(later, left, strict=True) if 0 < number <= len(ends)]
    over_s = min([end_s, *lasts])
    times_s = np.full(len(later), np.nan)
    for place, (ends, number) in enumerate(zip(later, left, strict=True)):
        if number > 0:
            counted = ends[ends <= over_s]
            n = len(counted)
            share = min((over_s - counted[-1]) / ((counted[-1] - begin_s) / n), 1.0) if n else 1.0
            times_s[place] = (over_s - begin_s) / (n + share)
    return times_s
