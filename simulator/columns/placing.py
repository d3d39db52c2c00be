"""Begins a simulation in columns where jobs are: by what was heard of their flows, and by how long they compute.

What is released and what has ended is known of flows alone. A computation has begun when all that it waits for had ended, and
ends as long after as it lasts. Where a flow that waits for it was released sooner, it had ended by then. Where its end is past
and such a flow is not released, the flow is released now. The first iteration of a window waits for nothing before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling.flow_windows import JobNow
from simulator.columns import loops, room
from simulator.columns import tables as t
from simulator.columns.plan import Asked, Outline

BEGUN = 1 << 30
"""What a step that has begun waits for: nothing makes it begin again."""
AHEAD = 2
"""Iterations after the last one of which a flow is released whose computations may have begun."""
_RELEASED, _RELEASED_AND_ENDED, _ENDED = range(3)


def placed(asked: Asked, jobs: Sequence[Outline], where: Sequence[JobNow], now_s: float) -> t.Tables:
    """The tables of `asked`, the plan of `jobs`, at a moment; each counts its iterations from the first one in `where`."""
    plan = asked.plan
    tables = room.tables_of(plan, np.zeros(len(jobs)))
    tables.counts[t.CALENDAR] = 0
    found = [_job(place, asked, jobs[place], where[place], now_s) for place in range(len(jobs))]
    happened_s = np.concatenate([each.happened_s for each in found])
    happened = np.concatenate([each.happened for each in found], axis=1)
    # Of one moment, releases first: what ends then was released before.
    order = np.lexsort((happened[4] == _ENDED, happened_s))
    computing = np.concatenate([each.computing for each in found], axis=1)
    computing_s = np.concatenate([each.computing_s for each in found], axis=1)
    tables.counts[t.WANTED] = max(len(order), computing.shape[1])
    tables.counts[t.WANTED_CELLS] = sum(
        int(plan.jobs[t.ALL_CELLS, place]) * len(each.release_s) for place, each in enumerate(found)
    )
    tables = room.grown(tables)
    loops.place(plan, tables, happened_s[order], np.ascontiguousarray(happened[:, order]))
    _settle(asked, tables, found, where, now_s)
    _fill_calendar(tables, computing, computing_s)
    return tables


@dataclass(frozen=True, eq=False)
class _Found:
    """One job: what has happened to its flows, which computations are under way, and what every step waits for."""

    happened_s: Floats
    happened: Ints
    computing: Ints
    """Instance and job."""
    computing_s: Floats
    """End and begin."""
    waits: Ints
    """By iteration and step."""
    ended: int
    """Steps."""
    release_s: Floats
    """By iteration of the window and index of flow."""
    sent_bytes: Floats


def _job(place: int, asked: Asked, job: Outline, where: JobNow, now_s: float) -> _Found:
    plan = asked.plan
    first_step = int(plan.jobs[t.FIRST_STEP, place])
    steps = len(job.duration_s)
    # What waits for nothing began with the job, in all iterations.
    at_once = bool(np.any((job.edges.needs == 0) & (job.edges.needs_previous == 0)))
    rows = job.iterations if at_once else min(where.rows + AHEAD, job.iterations)
    release_s, finish_s, sent_bytes = _rows(job, where, rows)
    declared = plan.steps[t.STEP_FLOW, first_step : first_step + steps]
    is_flow = plan.steps[t.STEP_KIND, first_step : first_step + steps] == t.FLOW
    flow_of = np.full(steps, -1)
    known = job.step_of_flow >= 0
    flow_of[job.step_of_flow[known]] = np.flatnonzero(known)
    flow_of[~is_flow] = -1
    begin_s = _begin_s(asked, where, release_s, flow_of, declared, now_s)
    start_s, end_s = _times(job, flow_of, release_s, finish_s, begin_s)
    is_started = start_s <= now_s
    has_ended = np.where(is_flow, ~np.isnan(_by_step(finish_s, flow_of)), end_s <= now_s)
    is_released = is_flow & ~np.isnan(_by_step(release_s, flow_of))
    late = is_flow & is_started & ~is_released & ~has_ended
    for iteration, step in np.argwhere(late).tolist():
        release_s[iteration, flow_of[step]] = now_s
    computing = ~is_flow & is_started & ~has_ended
    waits = _waits(job, has_ended)
    waits[:rows][has_ended | computing | is_released | late] = BEGUN
    happened_s, happened = _happened(place, release_s, finish_s, flow_of, declared, first_step)
    at, which = np.nonzero(computing)
    instance = plan.jobs[t.FIRST_INSTANCE, place] + at * steps + which
    return _Found(
        happened_s, happened,
        np.stack((instance, np.full(len(instance), place))), np.stack((end_s[computing], start_s[computing])),
        waits, int(has_ended.sum()), release_s, sent_bytes,
    )  # fmt: skip


def _rows(job: Outline, where: JobNow, rows: int) -> tuple[Floats, Floats, Floats]:
    """Releases, ends and bytes sent, by iteration and index of flow. One that nobody heard of, while its next iteration is released, has ended."""
    width, told = len(job.step_of_flow), min(where.rows, rows)
    found = []
    for values, unknown in ((where.release_s, np.nan), (where.finish_s, np.nan), (where.sent_bytes, 0.0)):
        table = np.full((rows, width), unknown)
        table[:told] = values.reshape(where.rows, -1)[:told, :width]
        found.append(table)
    release_s, finish_s, sent_bytes = found
    for iteration in range(rows - 1, 0, -1):
        unheard = (
            ~np.isnan(release_s[iteration]) & np.isnan(release_s[iteration - 1]) & np.isnan(finish_s[iteration - 1])
        )
        release_s[iteration - 1, unheard] = finish_s[iteration - 1, unheard] = release_s[iteration, unheard]
    return release_s, finish_s, sent_bytes


def _begin_s(
    asked: Asked, where: JobNow, release_s: Floats, flow_of: Ints, declared: Ints, now_s: float
) -> float:  # fmt: skip
    """When the first iteration of the window began: by the leads of its flows, as clocks have it."""
    found = where.ended_s if where.last == where.first - 1 else math.inf
    for step in np.flatnonzero(flow_of >= 0).tolist():
        at_s = release_s[0, flow_of[step]]
        if not math.isnan(at_s):
            found = min(found, at_s - asked.plan.clock[t.LEAD_S, declared[step]])
    return found if found < math.inf else now_s


def _times(
    job: Outline, flow_of: Ints, release_s: Floats, finish_s: Floats, begin_s: float
) -> tuple[Floats, Floats]:  # fmt: skip
    """When each step of each iteration began and ended, or will if nothing else holds it up; infinity where a flow does."""
    edges, rows, steps = job.edges, len(release_s), len(job.duration_s)
    after = [edges.after[a:b].tolist() for a, b in zip(edges.after_start, edges.after_start[1:], strict=False)]
    following = [edges.next[a:b].tolist() for a, b in zip(edges.next_start, edges.next_start[1:], strict=False)]
    order, duration_s = _in_order(edges.needs, after), job.duration_s.tolist()
    flow = flow_of.tolist()
    latest_s = np.full((rows, steps), math.inf)
    for k in range(rows - 1, -1, -1):
        for step in reversed(order):
            bound_s = math.inf
            for row, followers in ((k, after[step]), (k + 1, following[step])):
                for each in followers if row < rows else ():
                    if flow[each] >= 0:
                        at_s = release_s[row, flow[each]]
                        bound_s = bound_s if math.isnan(at_s) else min(bound_s, at_s)
                    else:
                        bound_s = min(bound_s, latest_s[row, each] - duration_s[each])
            latest_s[k, step] = bound_s
    start_s, end_s = np.full((rows, steps), begin_s), np.zeros((rows, steps))
    for k in range(rows):
        for step in order:
            index = flow[step]
            if index < 0:
                # What was heard goes before what was computed.
                end_s[k, step] = min(start_s[k, step] + duration_s[step], latest_s[k, step])
                start_s[k, step] = min(start_s[k, step], end_s[k, step])
            else:
                end_s[k, step] = math.inf if math.isnan(finish_s[k, index]) else finish_s[k, index]
            for each in after[step]:
                start_s[k, each] = max(start_s[k, each], end_s[k, step])
            for each in following[step] if k + 1 < rows else ():
                start_s[k + 1, each] = max(start_s[k + 1, each], end_s[k, step])
    return start_s, end_s


def _in_order(needs: Ints, after: Sequence[Sequence[int]]) -> list[int]:
    waiting = needs.tolist()
    found = [step for step, count in enumerate(waiting) if count == 0]
    for step in found:  # which grows meanwhile
        for each in after[step]:
            waiting[each] -= 1
            if waiting[each] == 0:
                found.append(each)
    return found


def _by_step(values: Floats, flow_of: Ints) -> Floats:
    """Values by index of flow as those of steps; not a number for other steps."""
    found = np.full((len(values), len(flow_of)), np.nan)
    found[:, flow_of >= 0] = values[:, flow_of[flow_of >= 0]]
    return found


def _waits(job: Outline, has_ended: Bools) -> Ints:
    """How many steps each one still waits for, in the iterations of the window and the one after it."""
    edges, (rows, steps) = job.edges, has_ended.shape
    waits = np.tile(edges.needs + edges.needs_previous, (job.iterations, 1))
    waits[0] = edges.needs
    first = np.repeat(np.arange(steps), np.diff(edges.after_start))
    previous = np.repeat(np.arange(steps), np.diff(edges.next_start))
    for k in range(rows):
        np.subtract.at(waits[k], edges.after, has_ended[k, first])
        if k + 1 < job.iterations:
            np.subtract.at(waits[k + 1], edges.next, has_ended[k, previous])
    return waits


def _happened(
    place: int, release_s: Floats, finish_s: Floats, flow_of: Ints, declared: Ints, first_step: int
) -> tuple[Floats, Ints]:
    """What `loops.place` is to enter of one job."""
    steps = np.flatnonzero(flow_of >= 0)
    times_s, rows = [np.zeros(0)], [np.zeros((5, 0), np.int64)]
    for k in range(len(release_s)):
        release, finish = release_s[k, flow_of[steps]], finish_s[k, flow_of[steps]]
        over = ~np.isnan(finish)
        release = np.where(over & np.isnan(release), finish, release)
        for at_s, what in (
            (release, np.where(over, _RELEASED_AND_ENDED, _RELEASED)),
            (finish, np.full(len(steps), _ENDED)),
        ):
            some = ~np.isnan(at_s)
            step = steps[some]
            times_s.append(at_s[some])
            rows.append(
                np.stack(
                    (np.full(len(step), place), np.full(len(step), k), declared[step], first_step + step, what[some])
                )
            )
    return np.concatenate(times_s), np.concatenate(rows, axis=1)


def _settle(asked: Asked, tables: t.Tables, found: Sequence[_Found], where: Sequence[JobNow], now_s: float) -> None:
    """What steps wait for, how far jobs and the flows in flight are, and that it is now."""
    plan, counts, times = asked.plan, tables.counts, tables.times
    steps = np.diff(plan.jobs[t.FIRST_STEP])
    for place, (each, known) in enumerate(zip(found, where, strict=True)):
        begin = int(plan.jobs[t.FIRST_INSTANCE, place])
        waits = tables.waits[begin : begin + each.waits.size].reshape(-1, steps[place])
        waits[: len(each.waits)] = each.waits
        tables.unfinished[place] -= each.ended
        tables.last_ended[place] = max(known.last - known.first, -1)
        tables.last_end_s[place] = known.ended_s
    flows = int(counts[t.FLOWS])
    for row in range(flows):
        job = int(tables.rows[t.JOB, row])
        each = found[job]
        iteration = (int(tables.rows[t.INSTANCE, row]) - int(plan.jobs[t.FIRST_INSTANCE, job])) // int(steps[job])
        index = int(plan.flows[t.FLOW_INDEX, tables.rows[t.DECLARED, row]])
        size_bytes = tables.row_floats[t.SIZE_BYTES, row]
        sent_bytes = min(
            float(each.sent_bytes[iteration, index]) if iteration < len(each.sent_bytes) else 0.0, size_bytes
        )
        tables.row_floats[t.RELEASE_S, row] = tables.row_floats[t.START_S, row] = each.release_s[iteration, index]
        tables.row_floats[t.SENT_BYTES, row] = sent_bytes
        tables.row_floats[t.LEFT_BYTES, row] = max(size_bytes - sent_bytes, 1.0)
    times[[t.NOW_S, t.MOVED_S, t.EXPIRES_S]] = now_s
    times[t.EMPTY_S] = math.inf
    counts[[t.CHANGED, t.OTHERS]] = 1


def _fill_calendar(tables: t.Tables, computing: Ints, computing_s: Floats) -> None:
    """Computations under way, in order of their ends, which is a heap."""
    order, number = np.argsort(computing_s[0], kind="stable"), computing.shape[1]
    tables.calendar[t.NUMBER, :number] = np.arange(number)
    tables.calendar[t.WHAT, :number], tables.calendar[t.OF_JOB, :number] = computing[:, order]
    tables.calendar_s[:, :number] = computing_s[:, order]
    tables.counts[[t.CALENDAR, t.SEQUENCE]] = number
