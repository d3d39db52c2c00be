"""What an experiment found, in one sentence with numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from results.analysis.paired import Comparison
from results.analysis.summary import PolicyResult, Summary
from results.report.printed_column import SECONDS, TimeUnit

MOST_NAMED = 3
"""Jobs with figures of their own: a sentence is read in one go."""
TOLD_APART = 0.0005
"""Share of an iteration below which two policies are called alike: it would be printed as 0.0 %."""


def headline(summary: Summary, against: str | None = None, unit: TimeUnit = SECONDS) -> str:
    """The finding; `against` is the policy that others are compared with, the first where there is none."""
    if summary.coflows:
        return _of_coflows(summary, unit)
    basis = against or next((result.policy for result in summary.results), "")
    known = [result for result in summary.results if result.iteration_s is not None]
    if not known:
        return "Nothing can be said of how fast any policy is: there is no valid run."
    policies = list(dict.fromkeys(result.policy for result in known))
    if len(policies) == 1:
        return f"Under {policies[0]} an iteration takes {_times(known, unit)}."
    if basis not in policies:
        return (
            f"There is no valid run of {basis}, with which the others would be compared; {_fastest_alone(known, unit)}."
        )
    ranked = sorted(
        (_against(known, policy, basis) for policy in policies if policy != basis), key=lambda one: one.ratio
    )
    return _best(ranked, basis, len(policies), summary.comparisons, unit)


@dataclass(frozen=True, slots=True)
class _Pair:
    """One policy against the basis, over the jobs for which both have valid runs."""

    policy: str
    ratio: float
    """Its iteration times over those of the basis: geometric mean over jobs."""
    jobs: tuple[tuple[str, float, float], ...]
    """Job, its iteration time in seconds, that under the basis."""


def _against(known: Sequence[PolicyResult], policy: str, basis: str) -> _Pair:
    times_s = {(r.policy, r.job): r.iteration_s.median for r in known if r.iteration_s and r.iteration_s.median > 0}
    jobs = [job for name, job in times_s if name == policy and (basis, job) in times_s]
    found = tuple((job, times_s[policy, job], times_s[basis, job]) for job in jobs)
    logs = [math.log(own_s / its_s) for _, own_s, its_s in found]
    return _Pair(policy, math.exp(sum(logs) / len(logs)) if logs else math.inf, found)


def _best(ranked: Sequence[_Pair], basis: str, policies: int, comparisons: Sequence[Comparison], unit: TimeUnit) -> str:
    best = ranked[0]
    if not best.jobs:
        return f"No job has valid runs both under {basis} and under another policy."
    among = f"{'the faster' if policies == 2 else 'the fastest'} of {policies} policies"
    if abs(best.ratio - 1) < TOLD_APART:
        return f"{best.policy} is as fast as {basis}: {_compared(best, basis, unit)}{_sure(best, comparisons)}."
    if best.ratio > 1:
        return f"{basis} is {among}: under {best.policy}, the next, {_compared(best, basis, unit)}{_sure(best, comparisons)}."
    return f"{best.policy} is {among}: {_compared(best, basis, unit)}{_sure(best, comparisons)}."


def _compared(pair: _Pair, basis: str, unit: TimeUnit) -> str:
    """Such as "an iteration takes 8.000 s, 5.9 % less than the 8.500 s under fair"."""
    if len(pair.jobs) == 1:
        ((_, own_s, its_s),) = pair.jobs
        return f"an iteration takes {_time(own_s, unit)}, {_less(own_s / its_s)} than the {_time(its_s, unit)} under {basis}"
    each = [f"{job} {_time(own_s, unit)} against {_time(its_s, unit)}" for job, own_s, its_s in pair.jobs[:MOST_NAMED]]
    more = f", and {len(pair.jobs) - len(each)} more" if len(pair.jobs) > len(each) else ""
    return (
        f"iterations of {len(pair.jobs)} jobs take {_less(pair.ratio)} time than under {basis} in the geometric mean "
        f"({', '.join(each)}{more})"
    )


def _sure(pair: _Pair, comparisons: Sequence[Comparison]) -> str:
    """What the intervals say of it, where there are any."""
    mine = [c for c in comparisons if c.policy == pair.policy and c.iteration_difference_s is not None]
    known = [c for c in mine if c.iteration_difference_s is not None and c.iteration_difference_s.low is not None]
    if not known:
        return ""
    open_to_doubt = [c.job for c in known if c.undecided]
    pairs = min(c.pairs for c in known)
    if not open_to_doubt:
        return f"; {pairs} pairs of runs tell them apart (95 % intervals)"
    which = "" if len(known) == 1 else f" for {', '.join(open_to_doubt[:MOST_NAMED])}"
    return f"; {pairs} pairs of runs do not tell which is faster{which} (95 % intervals)"


def _fastest_alone(known: Sequence[PolicyResult], unit: TimeUnit) -> str:
    first = known[0].policy
    return f"under {first} an iteration takes {_times([result for result in known if result.policy == first], unit)}"


def _times(results: Sequence[PolicyResult], unit: TimeUnit) -> str:
    found = [(r.job, r.iteration_s.median) for r in results if r.iteration_s is not None]
    if len(found) == 1:
        return _time(found[0][1], unit)
    each = [f"{_time(time_s, unit)} ({job})" for job, time_s in found[:MOST_NAMED]]
    more = f" and as told below for {len(found) - len(each)} more jobs" if len(found) > len(each) else ""
    return ", ".join(each) + more


def _of_coflows(summary: Summary, unit: TimeUnit) -> str:
    first, *others = summary.coflows
    if not others:
        return f"Under {first.policy} a Coflow completes after {_time(first.average_s, unit)} on average (simulated)."
    best = min(others, key=lambda found: found.average_s)
    against = f"against {_time(first.average_s, unit)} under {first.policy}"
    factor = f": {first.average_s / best.average_s:.2f} times as fast" if best.average_s > 0 else ""
    return f"Under {best.policy} a Coflow completes after {_time(best.average_s, unit)} on average, {against}{factor} (simulated)."


def _time(time_s: float, unit: TimeUnit) -> str:
    return f"{time_s * unit.of_a_second:.3f} {unit.name}"


def _less(ratio: float) -> str:
    return f"{abs(1 - ratio):.1%} {'less' if ratio <= 1 else 'more'}".replace("%", " %")
