"""Room for what is under way: columns as long as a beginning needs, and longer ones where they are full."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from echelonflow.model.arrays import Floats, Ints
from simulator.columns import tables as t
from simulator.columns.tables import Numbers, Plan, Seen, Tables

_RECORDS = ("flow_records", "flow_records_s", "compute_records", "compute_records_s")
_LONGEST_PIECE = 48
"""Pieces of the pool have fewer than two to this power numbers."""


def tables_of(plan: Plan, start_s: Floats) -> Tables:
    """The tables as a simulation finds them: nothing has begun but the wait for each job's start."""
    rows, jobs = t.FIRST_ROWS, len(start_s)
    counts, times = np.zeros(t.COUNTS, np.int64), np.zeros(t.TIMES)
    counts[[t.CALENDAR, t.SEQUENCE]] = jobs
    counts[[t.RUN_COUNTS + t.FREES, t.COFLOW_COUNTS + t.FREES]] = rows
    times[[t.EMPTY_S, t.EXPIRES_S]] = math.inf
    order = np.argsort(start_s, kind="stable")  # what is in order is a heap
    calendar, calendar_s = np.zeros((3, max(rows, jobs)), np.int64), np.zeros((2, max(rows, jobs)))
    calendar[:, :jobs] = (np.arange(jobs), np.full(jobs, -1), order)
    calendar_s[:, :jobs] = start_s[order]
    flows, computes = (_instances(plan, kind) for kind in (t.FLOW, t.COMPUTE))
    entries = np.zeros((t.ENTRY_NUMBERS, rows), np.int64)
    entries[t.FREE] = np.arange(rows)[::-1]
    return Tables(
        times=times,
        counts=counts,
        waits=_waits(plan),
        run_of=np.full(plan.jobs[t.FIRST_RUN, -1], -1, np.int32),
        coflow_of=np.full(plan.jobs[t.FIRST_COFLOW_RUN, -1], -1, np.int32),
        begun=np.zeros(plan.jobs[t.FIRST_PART_RUN, -1], np.int8),
        unfinished=np.diff(plan.jobs[t.FIRST_INSTANCE]),
        flows_left=_by_job(plan, t.FLOW) * plan.jobs[t.ITERATIONS, :-1],
        iteration_left=np.repeat(_by_job(plan, t.FLOW), plan.jobs[t.ITERATIONS, :-1]),
        iteration_end_s=np.full(plan.jobs[t.FIRST_ITERATION, -1], -math.inf),
        last_ended=np.full(jobs, -1),
        last_end_s=np.full(jobs, math.inf),
        pace_s=np.full((2, jobs), math.nan),
        runs=entries,
        run_floats=np.zeros((3, rows)),
        coflows=entries.copy(),
        coflow_floats=np.zeros((2, rows)),
        rows=np.zeros((t.FLOW_NUMBERS, rows), np.int64),
        row_floats=np.zeros((t.FLOW_FLOATS, rows)),
        come=np.zeros((t.FLOW_NUMBERS, rows), np.int64),
        ended=np.zeros((t.FLOW_NUMBERS, rows), np.int64),
        calendar=calendar,
        calendar_s=calendar_s,
        pool=np.zeros(rows, np.int64),
        pool_free=np.full(_LONGEST_PIECE, -1),
        flow_records=np.empty((2, flows), np.int64),  # memory that nobody writes to is not used
        flow_records_s=np.empty((3, flows)),
        compute_records=np.empty((2, computes), np.int64),
        compute_records_s=np.empty((2, computes)),
    )


def forked(tables: Tables) -> Tables:
    """A copy that goes on by itself; what ended before is not in its records."""
    records = {name: np.empty_like(getattr(tables, name)) for name in _RECORDS}
    return Tables(
        **{name: column.copy() for name, column in tables._asdict().items() if name not in records}, **records
    )


def seen_of(plan: Plan, tables: Tables, *, pending: bool) -> Seen:
    """What a policy sees, as yet nothing; of pending bytes only where they are wanted."""
    rows, groups, coflows = (entries.shape[1] for entries in (tables.rows, tables.runs, tables.coflows))
    hops = int(np.diff(plan.flows[t.FLOW_PATH_START]).max(initial=0))
    jobs, cells = len(tables.unfinished), len(tables.pool) if pending else 0
    return Seen(
        flow_ints=np.zeros((2, rows), np.int64),
        flow_floats=np.zeros((3, rows)),
        path_start=np.zeros(rows + 1, np.int64),
        path_link=np.zeros(rows * hops, np.int64),
        group_ints=np.zeros((2, groups), np.int64),
        group_floats=np.zeros((5, groups)),
        coflow_ids=np.zeros(coflows, np.int64),
        coflow_floats=np.zeros((3, coflows)),
        job_ids=np.zeros(jobs, np.int64),
        job_floats=np.zeros((2, jobs)),
        pending_start=np.zeros(groups + 1, np.int64),
        pending_link=np.zeros(cells, np.int64),
        pending_bytes=np.zeros(cells),
    )


def grown(tables: Tables) -> Tables:
    """The same with room for what is wanted, and at least twice as much of what is full."""
    counts = tables.counts
    wanted = int(counts[t.WANTED])
    flows = _length(tables.rows, int(counts[t.FLOWS] + counts[t.COME]) + wanted)
    due = _length(tables.calendar, int(counts[t.CALENDAR]) + wanted)
    cells = _length(tables.pool, int(counts[t.POOL_END] + counts[t.WANTED_CELLS]))
    runs = _length(tables.runs, tables.runs.shape[1] - int(counts[t.RUN_COUNTS + t.FREES]) + wanted)
    coflows = _length(tables.coflows, tables.coflows.shape[1] - int(counts[t.COFLOW_COUNTS + t.FREES]) + wanted)
    return tables._replace(
        rows=_longer(tables.rows, flows),
        row_floats=_longer(tables.row_floats, flows),
        come=_longer(tables.come, flows),
        ended=_longer(tables.ended, flows),
        calendar=_longer(tables.calendar, due),
        calendar_s=_longer(tables.calendar_s, due),
        runs=_more_entries(tables.runs, runs, counts, t.RUN_COUNTS),
        run_floats=_longer(tables.run_floats, runs),
        coflows=_more_entries(tables.coflows, coflows, counts, t.COFLOW_COUNTS),
        coflow_floats=_longer(tables.coflow_floats, coflows),
        pool=_longer(tables.pool, cells),
    )


def copied(seen: Seen, to: Seen) -> Seen:
    """`to`, which has more room, with what is in `seen`."""
    for old, new in zip(seen, to, strict=True):
        new[..., : old.shape[-1]] = old
    return to


def _length(column: npt.NDArray[Any], wanted: int) -> int:
    there = int(column.shape[-1])
    return there if wanted <= there else max(wanted, 2 * there)


def _longer(column: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    """`column`, or its rows, with zeros up to a length."""
    if column.shape[-1] >= length:
        return column
    longer = np.zeros((*column.shape[:-1], length), column.dtype)
    longer[..., : column.shape[-1]] = column
    return longer


def _more_entries(entries: Ints, slots: int, counts: Ints, of: int) -> Ints:
    """The same with more free slots, which are counted."""
    there, free = entries.shape[1], int(counts[of + t.FREES])
    found = _longer(entries, slots)
    found[t.FREE, free : free + slots - there] = np.arange(slots - 1, there - 1, -1)
    counts[of + t.FREES] += slots - there
    return found


def _waits(plan: Plan) -> Numbers:
    at_first = plan.steps[t.NEEDS].astype(np.int32)
    later = at_first + plan.steps[t.NEEDS_PREVIOUS].astype(np.int32)
    waits = [np.zeros(0, np.int32)]
    first = plan.jobs[t.FIRST_STEP].tolist()
    for begin, end, iterations in zip(first, first[1:], plan.jobs[t.ITERATIONS].tolist(), strict=False):
        waits += [at_first[begin:end], np.tile(later[begin:end], iterations - 1)]
    return np.concatenate(waits)


def _instances(plan: Plan, kind: int) -> int:
    """Instances of steps of a kind, in all iterations."""
    return int(_by_job(plan, kind) @ plan.jobs[t.ITERATIONS, :-1])


def _by_job(plan: Plan, kind: int) -> Ints:
    """How many steps of a kind an iteration of each job has."""
    before = np.append(0, np.cumsum(plan.steps[t.STEP_KIND, :-1] == kind))[plan.jobs[t.FIRST_STEP]]
    steps: Ints = np.diff(before)
    return steps
