"""Which policies were in force in a run, and when: `echelon policy` swaps them in mid-run, and a failing one gives way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from echelonflow.model.dag import Job
from echelonflow.records import events
from echelonflow.records.outcome import RunOutcome
from echelonflow.records.run_record import DecisionRecord
from results.analysis.figures import JobFigures, job_figures
from results.analysis.rows import RunRows
from results.analysis.summary import PolicyPart

UNKNOWN = "unknown"
_AFTER_A_SWAP, _AFTER_A_FAILURE = "policy", "fallback"
"""Triggers of the first decision of another policy (`controller.coordinator`)."""


@dataclass(frozen=True, slots=True)
class Swap:
    """From `at_s` (run time) on, another policy was in force."""

    at_s: float
    policy: str


def swaps(
    logs: Sequence[Path], outcome: RunOutcome, decisions: Sequence[DecisionRecord], faults: list[str]
) -> list[Swap]:
    """The swaps of a run, in order, by its events (one log for each controller that it had) and its decisions.

    A decision that only a swap can have triggered counts where the log of events does not tell of one: then nobody
    knows what was swapped in.
    """
    zero_s = outcome.zero_monotonic_s
    if zero_s is None:
        return []
    found = [Swap(now_s - zero_s, order.policy) for path in logs for now_s, order in events.policy_orders(path, faults)]
    ordered = len(found)
    triggers = [(d.time_s, set(d.trigger.split(", "))) for d in decisions]
    after = [time_s for time_s, words in triggers if _AFTER_A_SWAP in words]
    found += [Swap(time_s, UNKNOWN) for time_s in after[ordered:]]
    gave_way = [time_s for time_s, words in triggers if _AFTER_A_FAILURE in words]
    found += [Swap(time_s, _before(found, time_s, outcome.policy)) for time_s in gave_way]
    return sorted(found, key=lambda swap: swap.at_s)


def _before(found: Sequence[Swap], at_s: float, first: str) -> str:
    """The policy that a failing one gives way to: that before the latest swap."""
    earlier = [first, *(swap.policy for swap in found if swap.at_s <= at_s)]
    return earlier[-2] if len(earlier) > 1 else first


def parts(first: str, found: Sequence[Swap], rows: RunRows, jobs: Sequence[Job]) -> tuple[PolicyPart, ...]:
    """What each policy did while it was in force, over the iterations that lie wholly in that time; none without swaps."""
    if not found:
        return ()
    names = [first, *(swap.policy for swap in found)]
    bounds_s = [-math.inf, *(swap.at_s for swap in found), math.inf]
    return tuple(
        PolicyPart(name, None if begin_s == -math.inf else begin_s, _figures(rows, jobs, begin_s, end_s))
        for name, begin_s, end_s in zip(names, bounds_s, bounds_s[1:], strict=False)
    )


def _figures(rows: RunRows, jobs: Sequence[Job], begin_s: float, end_s: float) -> Mapping[str, JobFigures]:
    whole = [row for row in rows.iterations if begin_s <= row.start_s and row.finish_s <= end_s]
    kept = {(row.job, row.iteration) for row in whole}
    groups = [row for row in rows.groups if (row.job, row.iteration) in kept]
    return job_figures(RunRows(whole, groups, ()), jobs)


def in_force(first: str, found: Sequence[Swap], begin_s: float, end_s: float) -> str:
    """The policies in force between two times, in order."""
    names = [first]
    for swap in found:
        if swap.at_s <= begin_s:
            names = [swap.policy]
        elif swap.at_s < end_s:
            names.append(swap.policy)
    return " > ".join(names)
