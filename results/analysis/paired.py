"""Policies compared pair by pair: runs that were neighbours in time had the same machine, and its noise cancels out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.analysis.statistics import Estimate, estimate, half_width

if TYPE_CHECKING:
    # A summary holds comparisons, which are made of its runs.
    from results.analysis.figures import JobFigures
    from results.analysis.summary import RunResult

NARROW = 0.01
"""An interval is narrow that reaches no further than this share of the compared policy's iteration time, either way."""
MOST_PAIRS = 1000
"""More than that are not proposed: the policies are as good as equal, or the machine is not fit for the question."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One policy against another on one job, over pairs of valid runs."""

    policy: str
    """Policy that is compared. From the experiment file."""
    against: str
    """Policy that it is compared with: the one that was named, else the first. From the experiment file."""
    job: str
    """Name of the job. From the experiment file."""
    pairs: int
    """Number of pairs: valid runs of the same repeat, then what is left over, in the order in which it was made. Computed."""
    iteration_difference_s: Estimate | None
    """Iteration time of the policy less that of the other, pair by pair; null where there is no pair. Computed."""
    exposed_difference_s: Estimate | None
    """Exposed communication of the policy less that of the other, pair by pair. Computed."""
    speedup: Estimate | None
    """Iteration time of the other policy over that of this one, pair by pair. Computed."""
    narrow_s: float | None
    """How far the interval of `iteration_difference_s` may reach either way and still be narrow: 1 % of the other policy's
    median iteration time. Computed."""
    pairs_to_be_narrow: int | None
    """Number of pairs of which that would be expected with the spread that was seen; null from a single pair, and beyond
    1000. Computed."""

    @property
    def wide(self) -> bool:
        """Whether the interval of the difference in iteration time reaches further than is narrow."""
        found = self.iteration_difference_s
        if found is None or found.low is None or found.high is None or self.narrow_s is None:
            return False
        return (found.high - found.low) / 2 > self.narrow_s

    @property
    def undecided(self) -> bool:
        """Whether the interval does not tell which of the two is faster."""
        found = self.iteration_difference_s
        return found is not None and found.low is not None and found.high is not None and found.low <= 0 <= found.high


def compare(runs: Sequence[RunResult], policies: Sequence[str], jobs: Sequence[str], against: str) -> list[Comparison]:
    """Every policy but `against` with it, by policy and job; `runs` are in the order in which they were made."""
    return [
        _comparison(policy, against, job, _pairs(_figures(runs, policy, job), _figures(runs, against, job)))
        for policy in policies
        if policy != against
        for job in jobs
    ]


def _figures(runs: Sequence[RunResult], policy: str, job: str) -> dict[int, JobFigures]:
    """Figures of the valid runs of a policy by repeat, in the order in which they were made."""
    return {run.repeat: run.jobs[job] for run in runs if run.policy == policy and run.valid and job in run.jobs}


def _pairs(ours: dict[int, JobFigures], theirs: dict[int, JobFigures]) -> list[tuple[JobFigures, JobFigures]]:
    """Runs of one repeat belong together. One that was made again for its neighbour's sake goes with what is left over."""
    found = [(ours[repeat], theirs[repeat]) for repeat in ours if repeat in theirs]
    left = [ours[repeat] for repeat in ours if repeat not in theirs]
    others = [theirs[repeat] for repeat in theirs if repeat not in ours]
    return [*found, *zip(left, others, strict=False)]


def _comparison(policy: str, against: str, job: str, pairs: Sequence[tuple[JobFigures, JobFigures]]) -> Comparison:
    differences_s = [ours.iteration_s - theirs.iteration_s for ours, theirs in pairs]
    narrow_s = NARROW * statistics.median(theirs.iteration_s for _, theirs in pairs) if pairs else None
    return Comparison(
        policy=policy,
        against=against,
        job=job,
        pairs=len(pairs),
        iteration_difference_s=estimate(differences_s),
        exposed_difference_s=estimate([ours.exposed_s - theirs.exposed_s for ours, theirs in pairs]),
        speedup=estimate([theirs.iteration_s / ours.iteration_s for ours, theirs in pairs if ours.iteration_s > 0]),
        narrow_s=narrow_s,
        pairs_to_be_narrow=None if narrow_s is None else pairs_for(differences_s, narrow_s),
    )


def pairs_for(differences: Sequence[float], half: float) -> int | None:
    """The least number of pairs whose interval would reach `half` either way, with the spread of these `differences`.

    None where a single pair tells no spread, and where it would take more than `MOST_PAIRS`.
    """
    if len(differences) < 2:
        return None
    spread = statistics.stdev(differences)
    if half_width(spread, MOST_PAIRS) > half or not math.isfinite(spread):
        return None
    return next(n for n in range(2, MOST_PAIRS + 1) if half_width(spread, n) <= half)
