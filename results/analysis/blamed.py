"""What runs blame, as it is shown: completed by what a simulation does not explain, and as a mean over runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from echelonflow.records.blame import CAUSES, Blame, Cause
from results.analysis.figures import JobFigures


def with_unexplained(blamed: Sequence[Blame], figures: Mapping[str, JobFigures]) -> tuple[Blame, ...]:
    """What a simulation of a run blames, and of each job what of its measured iterations that leaves unexplained."""
    explained_s: dict[str, float] = defaultdict(float)
    for each in blamed:
        explained_s[each.job] += each.blamed_s
    rest = [
        Blame(job, "unexplained", figures[job].iteration_s - explained_s[job]) for job in explained_s if job in figures
    ]
    return in_order([*(each for each in blamed if each.job in figures), *rest])


def mean_blame(runs: Sequence[Sequence[Blame]], job: str) -> tuple[Blame, ...]:
    """The mean over those runs that say what a job's iteration was spent on, so that causes add up still."""
    mine = [[each for each in run if each.job == job] for run in runs]
    telling = [run for run in mine if run]
    sums_s: dict[tuple[Cause, str, str], float] = defaultdict(float)
    for run in telling:
        for each in run:
            sums_s[each.cause, each.other, each.link] += each.blamed_s
    return in_order(
        Blame(job, cause, sum_s / len(telling), other, link) for (cause, other, link), sum_s in sums_s.items()
    )


def in_order(blamed: Iterable[Blame]) -> tuple[Blame, ...]:
    """By job, then cause, what took longest first."""
    return tuple(
        sorted(blamed, key=lambda each: (each.job, CAUSES.index(each.cause), -each.blamed_s, each.other, each.link))
    )
