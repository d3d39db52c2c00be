"""What a planner put in force in a run, and when: a simulation of the run repeats that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.records import events
from echelonflow.records.outcome import RunOutcome
from echelonflow.records.plan import Plan
from echelonflow.scheduling.policies.lookahead import Adopted


def adopted(logs: Sequence[Path], outcome: RunOutcome, plan: Plan, faults: list[str]) -> list[Adopted]:
    """All plans of a run in order, by its events (one log for each controller that it had); what cannot be read goes to `faults`."""
    zero_s = outcome.zero_monotonic_s
    if zero_s is None:
        return []
    places = {name: place for place, name in enumerate(sorted({group.job for group in plan.groups}))}
    found = []
    for path in logs:
        for now_s, made in events.plans(path, faults):
            try:
                found.append(Adopted(now_s - zero_s, made.chosen, *made.moves.templates(places)))
            except InputError as error:
                faults.append(f"{path}: {error}")
    return found
