"""Arrows of the timeline: from what released a flow to the flow, and from the flow to what waited for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from echelonflow.model.dag import Job
from results.report.timeline_events import Event, Slice, arrow

MOST_ARROWS = 4
"""That lead to one step: of what it waited for, those that ended last. More could not be told apart."""
Key = tuple[str, int, str]
"""Job, iteration, step."""


def arrows(
    jobs: Sequence[Job], computes: Mapping[Key, Slice], flows: Mapping[Key, Slice], id_prefix: str = ""
) -> list[Event]:
    """The arrows between slices of which one at least is a flow; nothing leads to or from what lasted no time."""
    slices = {**computes, **flows}
    found: list[Event] = []
    for job in jobs:
        before = _waited_for(job)
        for (name, iteration, step), end in slices.items():
            if name != job.name or end.length_ns <= 0:
                continue
            keys = [(name, iteration - back, other) for other, back in before.get(step, ())]
            mine = [(key, slices[key]) for key in keys if key in slices and slices[key].length_ns > 0]
            if (name, iteration, step) not in flows:
                mine = [(key, begin) for key, begin in mine if key in flows]
            last = sorted(mine, key=lambda one: one[1].finish_s)[-MOST_ARROWS:]
            for _, begin in last:
                found += arrow(f"{id_prefix}{len(found) // 2}", begin, end)
    return found


def _waited_for(job: Job) -> dict[str, list[tuple[str, int]]]:
    """For each step, the steps it waits for and how many iterations back they are; transfers within a host are no steps."""
    dag = job.dag
    direct = {
        step.name: [*((name, 0) for name in step.after), *((name, 1) for name in dag.previous[step.name])]
        for step in dag.steps
    }
    local = {step.name for step in dag.transfers if job.is_local(step)}
    return {name: _beyond(before, direct, local) for name, before in direct.items() if name not in local}


def _beyond(
    before: Sequence[tuple[str, int]], direct: Mapping[str, Sequence[tuple[str, int]]], local: set[str]
) -> list[tuple[str, int]]:
    """The same, with what a transfer within a host waits for in its place."""
    found: dict[tuple[str, int], None] = {}
    waiting, seen = list(before), set()
    while waiting:
        name, back = waiting.pop()
        if (name, back) in seen or back > 1:
            continue
        seen.add((name, back))
        if name in local:
            waiting += [(other, back + more) for other, more in direct[name]]
        else:
            found[name, back] = None
    return list(found)
