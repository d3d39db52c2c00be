"""The loops over the columns of `tables`: one event after the other until a policy has to decide.

All in one file: numba notices a change only in the file of the function that it is asked for. They run as they stand
too, on the same arrays, operation by operation the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling import decision_loops, kernels
from echelonflow.scheduling.group_info import INDEX_BITS
from echelonflow.scheduling.state import ITERATION_BITS
from echelonflow.scheduling.trace_kernels import SIMULTANEOUS_S
from echelonflow.scheduling.trace_kernels.jit import inner, jit, kept_with, leaf
from simulator.columns import tables as t
from simulator.columns.tables import Plan, Seen, Tables

DECISION, ROOM, OVER, STALLED, PAUSE, PACE, HORIZON = range(7)
"""What a simulation stops for: a decision; columns that are full; nothing left to happen; answers that only expire. After
many decisions that were made without stopping, so that progress is shown and a user can interrupt. For the paces of jobs
where others are under way than before. And where nothing is left to happen up to a moment."""
PAUSE_DECISIONS = 4096


@kept_with(decision_loops, kernels)
@jit
def events(
    plan: Plan, tables: Tables, seen: Seen, capacity_Bps: Floats, form: decision_loops.Asked, by_form: bool,
    tells_others: bool, end_s: float, idle_decisions: int, moved_share: float, pause_decisions: int,
) -> Iterator[int]:  # fmt: skip
    """Go on until nothing is left to happen up to `end_s`; says each time why it stops, and goes on when it is asked for the next.

    Decisions are made here by the `form` of a policy if it is `by_form`. Otherwise it stops for each, and wants the
    rates of all rows in `tables`, and when the answer expires. After every so many decisions by form it pauses. After ROOM it has to begin anew with larger columns,
    which hold the same. It stops for PACE only if it `tells_others`, and has to begin anew then. After OVER and STALLED it
    does not go on.
    """
    times, counts = tables.times, tables.counts
    is_new = True
    while True:
        if counts[t.PHASE] == t.NEXT:
            next_s = _next_s(tables)
            if next_s == math.inf or next_s > end_s:
                yield OVER if next_s == math.inf else HORIZON
                return
            times[t.NOW_S] = next_s
            counts[t.EVENTS] += 1
            counts[t.CHANGED] = 0
            _retire(tables)
            counts[t.PHASE] = t.ENDS
        if counts[t.PHASE] == t.ENDS:
            if not _end_flows(plan, tables):
                yield ROOM
                return
            counts[t.PHASE] = t.DUE
        if counts[t.PHASE] == t.DUE:
            if not _end_what_is_due(plan, tables):
                yield ROOM
                return
            counts[t.PHASE] = t.DECIDE
        changed, expired = _admit(plan, tables), times[t.NOW_S] >= times[t.EXPIRES_S]
        if changed or expired:
            _move(tables)
        if tells_others and changed and counts[t.OTHERS] == 1 and counts[t.FLOWS] > 0:
            yield PACE
            return
        if _stalls(tables, changed, expired, idle_decisions, moved_share):
            yield STALLED
            return
        counts[t.PHASE] = t.NEXT
        if changed or expired:
            times[t.EXPIRES_S] = math.inf
            if counts[t.FLOWS] > 0:
                counts[t.DECISIONS] += 1
                _look(plan, tables, seen, changed or is_new)
                is_new = False
                if by_form:
                    _decide(plan, tables, seen, capacity_Bps, form)
                    if counts[t.DECISIONS] % pause_decisions == 0:
                        yield PAUSE
                else:
                    yield DECISION
                _start(tables)


@leaf
def _next_s(tables: Tables) -> float:
    """When something happens next; infinity if nothing does."""
    next_s = min(tables.times[t.EMPTY_S], tables.times[t.EXPIRES_S])
    if tables.counts[t.CALENDAR] > 0:
        next_s = min(next_s, tables.calendar_s[0, 0])
    return float(next_s)


@inner
def _decide(plan: Plan, tables: Tables, seen: Seen, capacity_Bps: Floats, form: decision_loops.Asked) -> None:
    """What `echelonflow.scheduling.decision` would answer to what is seen."""
    counts = tables.counts
    flows, groups, coflows, jobs = counts[t.FLOWS], counts[t.GROUPS_SEEN], counts[t.COFLOWS_SEEN], counts[t.JOBS_SEEN]
    rates_Bps, rank, until_s = decision_loops.decide_after(
        _order_before(tables.rows[t.PLACE, :flows]),
        form,
        _given(plan, tables, seen, form.given),
        tables.times[t.NOW_S],
        capacity_Bps,
        decision_loops.Flows(
            tables.rows[t.FLOW_ID, :flows], seen.flow_floats[0, :flows], tables.row_floats[t.RELEASE_S, :flows],
            seen.flow_floats[2, :flows], seen.flow_ints[0, :flows], seen.flow_ints[1, :flows],
            seen.path_start[: flows + 1], seen.path_link[: counts[t.HOPS_SEEN]],
        ),
        decision_loops.Groups(
            seen.group_ints[0, :groups], seen.group_floats[0, :groups], seen.group_floats[1, :groups],
            seen.group_floats[2, :groups], seen.group_ints[1, :groups], seen.group_floats[3, :groups],
            seen.group_floats[4, :groups],
        ),
        decision_loops.Coflows(
            seen.coflow_ids[:coflows], seen.coflow_floats[0, :coflows], seen.coflow_floats[1, :coflows],
            seen.coflow_floats[2, :coflows],
        ),
        decision_loops.Jobs(seen.job_ids[:jobs], seen.job_floats[1, :jobs]),
    )  # fmt: skip
    tables.rows[t.PLACE, :flows] = rank
    tables.row_floats[t.RATE_BPS, :flows] = rates_Bps
    tables.times[t.EXPIRES_S] = until_s


@inner
def _given(plan: Plan, tables: Tables, seen: Seen, measures: Ints) -> Ints:
    """Keys that are not made of what a policy sees: moments by the clocks of jobs, and layers."""
    flows, ints = tables.counts[t.FLOWS], tables.rows
    keys = np.zeros((len(measures), flows), np.int64)
    for k in range(len(measures)):
        if measures[k] == decision_loops.LAYER:
            for row in range(flows):
                keys[k, row] = int(plan.clock[t.LAYER, ints[t.DECLARED, row]])
            continue
        by_own_pace = measures[k] == decision_loops.OWN_CLOCK or measures[k] == decision_loops.OWN_END_CLOCK
        of_own_iteration = measures[k] == decision_loops.END_CLOCK or measures[k] == decision_loops.OWN_END_CLOCK
        pace = t.OWN if by_own_pace else t.SHARED
        way = t.TO_END_S if of_own_iteration else t.TAIL_S
        earliest_s = np.full(tables.counts[t.COFLOWS_SEEN], math.inf)
        for row in range(flows):
            job = ints[t.JOB, row]
            iteration, _ = _place(plan.jobs, job, ints[t.INSTANCE, row])
            ahead = iteration - tables.last_ended[job] + (0 if of_own_iteration else 1)
            due_s = tables.last_end_s[job] + ahead * tables.pace_s[pace, job] - plan.clock[way, ints[t.DECLARED, row]]
            if not math.isfinite(due_s):
                due_s = seen.flow_floats[2, row]
            coflow = seen.flow_ints[1, row]
            earliest_s[coflow] = min(earliest_s[coflow], due_s)
        for row in range(flows):
            keys[k, row] = decision_loops.quantised(earliest_s[seen.flow_ints[1, row]])
    return keys


@inner
def _order_before(place: Ints) -> Ints:
    """Rows in order of their last places; those that have none yet after their neighbours."""
    rows, places = len(place), 0
    for each in place:
        places = max(places, each + 1)
    start = np.zeros(places + 1, np.int64)
    for each in place:
        start[each + 1] += each >= 0
    for i in range(places):
        start[i + 1] += start[i]
    order, found = np.empty(rows, np.int64), np.empty(rows, np.int64)
    for row in range(rows):
        if place[row] >= 0:
            order[start[place[row]]] = row
            start[place[row]] += 1
    at, row = 0, 0
    while row < rows and place[row] < 0:
        found[at] = row
        at += 1
        row += 1
    old = start[places - 1] if places > 0 else 0
    for i in range(old):
        row = order[i]
        found[at] = row
        at += 1
        row += 1
        while row < rows and place[row] < 0:
            found[at] = row
            at += 1
            row += 1
    return found


# Flows and time


@leaf
def _move(tables: Tables) -> None:
    """Let time pass for the flows in flight."""
    elapsed_s = tables.times[t.NOW_S] - tables.times[t.MOVED_S]
    if elapsed_s > 0.0:
        floats = tables.row_floats
        for row in range(tables.counts[t.FLOWS]):
            floats[t.LEFT_BYTES, row] -= floats[t.RATE_BPS, row] * elapsed_s
        tables.times[t.MOVED_S] = tables.times[t.NOW_S]


@leaf
def _start(tables: Tables) -> None:
    """Let every flow go at its rate from now on."""
    floats = tables.row_floats
    for row in range(tables.counts[t.FLOWS]):
        if floats[t.RATE_BPS, row] > 0.0 and math.isnan(floats[t.START_S, row]):
            floats[t.START_S, row] = tables.times[t.MOVED_S]
    _look_ahead(tables)


@leaf
def _look_ahead(tables: Tables) -> None:
    """When the first flow runs empty."""
    floats = tables.row_floats
    last_s = math.inf
    for row in range(tables.counts[t.FLOWS]):
        if floats[t.RATE_BPS, row] > 0.0:
            last_s = min(last_s, floats[t.LEFT_BYTES, row] / floats[t.RATE_BPS, row])
    tables.times[t.EMPTY_S] = tables.times[t.MOVED_S] + last_s


@inner
def _retire(tables: Tables) -> None:
    """Take the flows that have run empty out of the rows, and note them and their records in order of handles."""
    times, counts, ints, floats = tables.times, tables.counts, tables.rows, tables.row_floats
    counts[t.ENDING] = 0
    counts[t.CURSOR] = 0
    tolerance_s = max(SIMULTANEOUS_S, 4 * np.spacing(times[t.NOW_S]))
    if times[t.EMPTY_S] > times[t.NOW_S] + tolerance_s:
        return
    _move(tables)
    flows = counts[t.FLOWS]
    is_empty = np.zeros(flows, np.bool_)
    ending = 0
    for row in range(flows):
        rate_Bps = floats[t.RATE_BPS, row]
        if rate_Bps > 0.0 and floats[t.LEFT_BYTES, row] <= rate_Bps * tolerance_s:
            is_empty[row] = True
            ending += 1
    if ending == 0:
        return
    _note_ends(tables, np.flatnonzero(is_empty))
    kept = 0
    for row in range(flows):
        if not is_empty[row]:
            if kept < row:
                for column in range(len(ints)):
                    ints[column, kept] = ints[column, row]
                for column in range(len(floats)):
                    floats[column, kept] = floats[column, row]
            kept += 1
    counts[t.FLOWS] = kept
    counts[t.ENDING] = ending
    counts[t.CHANGED] = 1
    _look_ahead(tables)


@inner
def _note_ends(tables: Tables, empty: Ints) -> None:
    counts, ints, floats = tables.counts, tables.rows, tables.row_floats
    order = np.argsort(ints[t.HANDLE][empty])
    for i in range(len(empty)):
        row, place = empty[order[i]], counts[t.FLOWS_ENDED]
        for column in range(len(ints)):
            tables.ended[column, i] = ints[column, row]
        tables.flow_records[0, place] = ints[t.JOB, row]
        tables.flow_records[1, place] = ints[t.INSTANCE, row]
        tables.flow_records_s[0, place] = floats[t.RELEASE_S, row]
        tables.flow_records_s[1, place] = floats[t.START_S, row]
        tables.flow_records_s[2, place] = tables.times[t.NOW_S]
        counts[t.FLOWS_ENDED] += 1


@inner
def _admit(plan: Plan, tables: Tables) -> bool:
    """Put the flows that are released now among the rows; whether any flow has come or ended in this event."""
    counts, come, ints, floats = tables.counts, tables.come, tables.rows, tables.row_floats
    new = counts[t.COME]
    if new == 0:
        return bool(counts[t.CHANGED] == 1)
    _move(tables)
    order = np.argsort(come[t.FLOW_ID, :new])
    old = counts[t.FLOWS] - 1
    last = new - 1
    row = old + new
    while last >= 0:
        flow = order[last]
        if old >= 0 and ints[t.FLOW_ID, old] > come[t.FLOW_ID, flow]:
            for column in range(len(ints)):
                ints[column, row] = ints[column, old]
            for column in range(len(floats)):
                floats[column, row] = floats[column, old]
            old -= 1
        else:
            for column in range(len(ints)):
                ints[column, row] = come[column, flow]
            size_bytes = float(plan.flows[t.FLOW_SIZE_BYTES, come[t.DECLARED, flow]])
            floats[t.SIZE_BYTES, row] = size_bytes
            floats[t.LEFT_BYTES, row] = size_bytes
            floats[t.RATE_BPS, row] = 0.0
            floats[t.START_S, row] = math.nan
            floats[t.RELEASE_S, row] = tables.times[t.NOW_S]
            floats[t.SENT_BYTES, row] = 0.0
            last -= 1
        row -= 1
    counts[t.FLOWS] += new
    counts[t.COME] = 0
    counts[t.CHANGED] = 1
    return True


@leaf
def _stalls(tables: Tables, changed: bool, expired: bool, idle_decisions: int, moved_share: float) -> bool:
    """Whether answers expire again and again and nothing moves."""
    times, counts = tables.times, tables.counts
    if changed or not expired:
        counts[t.IDLE] = 0
        return False
    in_flight = 0.0
    for row in range(counts[t.FLOWS]):
        in_flight += tables.row_floats[t.LEFT_BYTES, row]
    if counts[t.IDLE] == 0:
        times[t.IDLE_BYTES] = in_flight
    counts[t.IDLE] += 1
    if counts[t.IDLE] <= idle_decisions:
        return False
    if in_flight > times[t.IDLE_BYTES] * (1 - moved_share):
        return True
    counts[t.IDLE] = 0
    return False


# Steps


@leaf
def _has_room(tables: Tables, jobs: Ints, job: int, steps: int, iterations: int) -> bool:
    """Whether so many steps of some iterations of a job can begin; else what there must be room for is noted."""
    counts, rows = tables.counts, tables.rows.shape[1]
    counts[t.WANTED] = steps
    counts[t.WANTED_CELLS] = min(steps * jobs[t.MOST_CELLS, job], iterations * jobs[t.ALL_CELLS, job])
    return bool(
        counts[t.FLOWS] + counts[t.COME] + steps <= rows
        and counts[t.CALENDAR] + steps <= tables.calendar.shape[1]
        and counts[t.RUN_COUNTS + t.FREES] >= steps
        and counts[t.COFLOW_COUNTS + t.FREES] >= steps
        and counts[t.POOL_END] + counts[t.WANTED_CELLS] <= len(tables.pool)
    )


@leaf
def _end_flows(plan: Plan, tables: Tables) -> bool:
    """Let what waits for flows that have just ended begin; False where that wants more room first."""
    counts, ended = tables.counts, tables.ended
    jobs, steps = plan.jobs, plan.steps
    while counts[t.CURSOR] < counts[t.ENDING]:
        i = counts[t.CURSOR]
        job, instance = ended[t.JOB, i], ended[t.INSTANCE, i]
        iteration, step = _place(jobs, job, instance)
        if not _has_room(tables, jobs, job, _most_that_begin(steps, step), 2):
            return False
        _finish_flow(plan, tables, job, iteration, ended[t.DECLARED, i], ended[t.RUN, i], ended[t.COFLOW, i])
        _finish_step(plan, tables, job, iteration, step)
        counts[t.CURSOR] += 1
    return True


@leaf
def _end_what_is_due(plan: Plan, tables: Tables) -> bool:
    """Let what ends by itself now end, and what waits for it begin; False where that wants more room first."""
    counts, calendar, calendar_s = tables.counts, tables.calendar, tables.calendar_s
    jobs, steps, ready, now_s = plan.jobs, plan.steps, plan.ready, tables.times[t.NOW_S]
    while counts[t.CALENDAR] > 0 and calendar_s[t.END_S, 0] <= now_s:
        what, job, start_s = calendar[t.WHAT, 0], calendar[t.OF_JOB, 0], calendar_s[t.BEGIN_S, 0]
        if what < 0:
            if not _has_room(tables, jobs, job, _first_of_job(jobs, ready, job), jobs[t.ITERATIONS, job]):
                return False
            _pop(calendar, calendar_s, counts)
            for i in range(jobs[t.READY_START, job], jobs[t.READY_START, job + 1]):
                for iteration in range(1 if ready[1, i] else jobs[t.ITERATIONS, job]):
                    _begin(plan, tables, job, iteration, ready[0, i])
            continue
        iteration, step = _place(jobs, job, what)
        if not _has_room(tables, jobs, job, _most_that_begin(steps, step), 2):
            return False
        _pop(calendar, calendar_s, counts)
        if steps[t.STEP_KIND, step] == t.COMPUTE:
            place = counts[t.COMPUTES_ENDED]
            tables.compute_records[0, place] = job
            tables.compute_records[1, place] = what
            tables.compute_records_s[0, place] = start_s
            tables.compute_records_s[1, place] = now_s
            counts[t.COMPUTES_ENDED] += 1
        _finish_step(plan, tables, job, iteration, step)
    return True


@leaf
def _place(jobs: Ints, job: int, instance: int) -> tuple[int, int]:
    """Iteration and step of an instance."""
    first = jobs[t.FIRST_STEP, job]
    steps = jobs[t.FIRST_STEP, job + 1] - first
    since = instance - jobs[t.FIRST_INSTANCE, job]
    iteration = since // steps
    return iteration, first + since - iteration * steps


@leaf
def _most_that_begin(steps: Ints, step: int) -> int:
    after = steps[t.AFTER_START, step + 1] - steps[t.AFTER_START, step]
    return int(after + steps[t.NEXT_START, step + 1] - steps[t.NEXT_START, step])


@leaf
def _first_of_job(jobs: Ints, ready: Ints, job: int) -> int:
    """How many steps begin when a job begins."""
    found = 0
    for i in range(jobs[t.READY_START, job], jobs[t.READY_START, job + 1]):
        found += 1 if ready[1, i] else jobs[t.ITERATIONS, job]
    return found


@leaf
def _finish_step(plan: Plan, tables: Tables, job: int, iteration: int, step: int) -> None:
    """A step has ended: what waited for it last begins."""
    jobs, steps = plan.jobs, plan.steps
    tables.unfinished[job] -= 1
    for i in range(steps[t.AFTER_START, step], steps[t.AFTER_START, step + 1]):
        _satisfy(plan, tables, job, iteration, plan.edges[i])
    if iteration + 1 < jobs[t.ITERATIONS, job]:
        for i in range(steps[t.NEXT_START, step], steps[t.NEXT_START, step + 1]):
            _satisfy(plan, tables, job, iteration + 1, plan.edges[i])


@leaf
def _satisfy(plan: Plan, tables: Tables, job: int, iteration: int, step: int) -> None:
    waits, instance = tables.waits, _instance(plan.jobs, job, iteration, step)
    waits[instance] -= 1
    if waits[instance] == 0:
        _begin(plan, tables, job, iteration, step)


@leaf
def _instance(jobs: Ints, job: int, iteration: int, step: int) -> int:
    first = jobs[t.FIRST_STEP, job]
    return int(jobs[t.FIRST_INSTANCE, job] + iteration * (jobs[t.FIRST_STEP, job + 1] - first) + step - first)


@leaf
def _begin(plan: Plan, tables: Tables, job: int, iteration: int, step: int) -> None:
    """All that a step waits for has ended."""
    now_s, instance = tables.times[t.NOW_S], _instance(plan.jobs, job, iteration, step)
    if plan.steps[t.STEP_KIND, step] == t.FLOW:
        _release(plan, tables, job, iteration, plan.steps[t.STEP_FLOW, step], instance)
    else:
        duration_s = plan.drawn_s[instance] if len(plan.drawn_s) else plan.duration_s[step]
        _push(tables, now_s + duration_s, instance, job)


@leaf
def _push(tables: Tables, end_s: float, what: int, job: int) -> None:
    """Note in the calendar what begins now."""
    calendar, calendar_s, counts = tables.calendar, tables.calendar_s, tables.counts
    place = counts[t.CALENDAR]
    while place > 0:
        above = (place - 1) // 2
        if calendar_s[t.END_S, above] <= end_s:  # what was there before goes first
            break
        _copy(calendar, calendar_s, above, place)
        place = above
    calendar_s[t.END_S, place] = end_s
    calendar_s[t.BEGIN_S, place] = tables.times[t.NOW_S]
    calendar[t.NUMBER, place] = counts[t.SEQUENCE]
    calendar[t.WHAT, place] = what
    calendar[t.OF_JOB, place] = job
    counts[t.SEQUENCE] += 1
    counts[t.CALENDAR] += 1


@leaf
def _pop(calendar: Ints, calendar_s: Floats, counts: Ints) -> None:
    """Take the first entry out."""
    counts[t.CALENDAR] -= 1
    last, place = counts[t.CALENDAR], 0
    while True:
        below = 2 * place + 1
        if below >= last:
            break
        if below + 1 < last and _goes_before(calendar, calendar_s, below + 1, below):
            below += 1
        if not _goes_before(calendar, calendar_s, below, last):
            break
        _copy(calendar, calendar_s, below, place)
        place = below
    _copy(calendar, calendar_s, last, place)


@leaf
def _goes_before(calendar: Ints, calendar_s: Floats, one: int, other: int) -> bool:
    if calendar_s[t.END_S, one] != calendar_s[t.END_S, other]:
        return bool(calendar_s[t.END_S, one] < calendar_s[t.END_S, other])
    return bool(calendar[t.NUMBER, one] < calendar[t.NUMBER, other])


@leaf
def _copy(calendar: Ints, calendar_s: Floats, source: int, to: int) -> None:
    for column in range(len(calendar)):
        calendar[column, to] = calendar[column, source]
    for column in range(len(calendar_s)):
        calendar_s[column, to] = calendar_s[column, source]


# Runs of groups, and Coflows


@leaf
def _release(plan: Plan, tables: Tables, job: int, iteration: int, flow: int, instance: int) -> None:
    """A flow's data is ready now."""
    declared, counts, come = plan.flows, tables.counts, tables.come
    runs, coflows, now_s = tables.runs, tables.coflows, tables.times[t.NOW_S]
    group, offset_s = declared[t.FLOW_GROUP, flow], plan.offset_s[flow]
    run = _run(plan, tables, job, iteration, group)
    coflow = _coflow(plan, tables, job, iteration, run, declared[t.FLOW_PART, flow])
    tables.run_floats[t.EARLIEST_S, run] = min(tables.run_floats[t.EARLIEST_S, run], now_s - offset_s)
    if offset_s == plan.group_floats[t.HEAD_OFFSET_S, group]:
        tables.run_floats[t.HEAD_S, run] = min(tables.run_floats[t.HEAD_S, run], now_s - offset_s)
    tables.coflow_floats[t.ARRIVAL_S, coflow] = min(tables.coflow_floats[t.ARRIVAL_S, coflow], now_s)
    if plan.clock.shape[1] and iteration == 0 and tables.last_ended[job] < 0:
        if tables.last_end_s[job] == math.inf:
            counts[t.OTHERS] = 1
        tables.last_end_s[job] = min(tables.last_end_s[job], now_s - plan.clock[t.LEAD_S, flow])
    runs[t.UNRELEASED, run] -= 1
    for hop in range(declared[t.FLOW_PATH_START, flow], declared[t.FLOW_PATH_START, flow + 1]):
        tables.pool[runs[t.PENDING, run] + plan.hops[1, hop]] -= declared[t.FLOW_SIZE_BYTES, flow]
    _list(runs, counts, t.RUN_COUNTS, run)
    _list(coflows, counts, t.COFLOW_COUNTS, coflow)
    new = counts[t.COME]
    come[t.FLOW_ID, new] = _stable_id(plan.jobs, job, iteration, declared[t.FLOW_INDEX, flow])
    come[t.DECLARED, new] = flow
    come[t.INSTANCE, new] = instance
    come[t.JOB, new] = job
    come[t.RUN, new] = run
    come[t.COFLOW, new] = coflow
    come[t.HANDLE, new] = counts[t.HANDLES]
    come[t.PLACE, new] = -1
    counts[t.HANDLES] += 1
    counts[t.COME] += 1


@leaf
def _stable_id(jobs: Ints, job: int, iteration: int, index: int) -> int:
    return int((jobs[t.JOB_PLACE, job] << (ITERATION_BITS + INDEX_BITS)) | (iteration << INDEX_BITS) | index)


@leaf
def _run(plan: Plan, tables: Tables, job: int, iteration: int, group: int) -> int:
    """The slot of a group's run; it begins with its first flow."""
    jobs, groups, runs = plan.jobs, plan.groups, tables.runs
    first = jobs[t.FIRST_GROUP, job]
    index = jobs[t.FIRST_RUN, job] + iteration * (jobs[t.FIRST_GROUP, job + 1] - first) + group - first
    if tables.run_of[index] >= 0:
        return int(tables.run_of[index])
    run = _take(
        runs,
        tables.counts,
        t.RUN_COUNTS,
        _stable_id(jobs, job, iteration, groups[t.GROUP_FIRST_INDEX, group]),
        group,
        index,
    )
    tables.run_of[index] = run
    runs[t.OPEN, run] = groups[t.GROUP_FLOWS, group]
    runs[t.UNRELEASED, run] = groups[t.GROUP_FLOWS, group]
    tables.run_floats[t.HEAD_S, run] = math.inf
    tables.run_floats[t.EARLIEST_S, run] = math.inf
    tables.run_floats[t.WORST_S, run] = -math.inf
    begin, end = groups[t.GROUP_FIRST_CELL, group], groups[t.GROUP_FIRST_CELL, group + 1]
    pending = _borrow(tables.pool, tables.pool_free, tables.counts, end - begin)
    runs[t.PENDING, run] = pending
    for cell in range(begin, end):
        tables.pool[pending + cell - begin] = plan.cells[1, cell]
    return run


@leaf
def _coflow(plan: Plan, tables: Tables, job: int, iteration: int, run: int, part: int) -> int:
    """The slot of the Coflow of a run's part; it begins with its first flow."""
    jobs, parts, coflows = plan.jobs, plan.parts, tables.coflows
    index = _coflow_index(plan, job, iteration, part)
    begun = jobs[t.FIRST_PART_RUN, job] + iteration * (jobs[t.FIRST_PART, job + 1] - jobs[t.FIRST_PART, job])
    begun += part - jobs[t.FIRST_PART, job]
    coflow = int(tables.coflow_of[index])
    if tables.begun[begun] == 1:
        return coflow
    tables.begun[begun] = 1
    if coflow < 0:
        coflow = _take(
            coflows,
            tables.counts,
            t.COFLOW_COUNTS,
            _stable_id(jobs, job, iteration, parts[t.PART_INDEX, part]),
            part,
            index,
        )
        tables.coflow_of[index] = coflow
        coflows[t.OPEN, coflow] = 0
        tables.coflow_floats[t.ARRIVAL_S, coflow] = math.inf
        tables.coflow_floats[t.FINISHED_BYTES, coflow] = 0.0
    coflows[t.OPEN, coflow] += 1
    return coflow


@leaf
def _coflow_index(plan: Plan, job: int, iteration: int, part: int) -> int:
    jobs, first = plan.jobs, plan.jobs[t.FIRST_COFLOW, job]
    since = iteration * (jobs[t.FIRST_COFLOW, job + 1] - first) + plan.parts[t.PART_COFLOW, part] - first
    return int(jobs[t.FIRST_COFLOW_RUN, job] + since)


@leaf
def _finish_flow(plan: Plan, tables: Tables, job: int, iteration: int, flow: int, run: int, coflow: int) -> None:
    """A flow's last byte has arrived now."""
    runs, coflows, declared = tables.runs, tables.coflows, plan.flows
    tables.flows_left[job] -= 1
    if tables.flows_left[job] == 0:
        tables.counts[t.OTHERS] = 1
    if plan.clock.shape[1]:
        _note_iteration(plan, tables, job, iteration, flow)
    late_s = tables.times[t.NOW_S] - plan.offset_s[flow]
    tables.run_floats[t.WORST_S, run] = max(tables.run_floats[t.WORST_S, run], late_s)
    runs[t.ACTIVE, run] -= 1
    tables.coflow_floats[t.FINISHED_BYTES, coflow] += float(declared[t.FLOW_SIZE_BYTES, flow])
    coflows[t.ACTIVE, coflow] -= 1
    runs[t.OPEN, run] -= 1
    if runs[t.OPEN, run] == 0:
        _end_run(plan, tables, job, iteration, run)


@leaf
def _note_iteration(plan: Plan, tables: Tables, job: int, iteration: int, flow: int) -> None:
    """A flow of an iteration has ended now; with its last one the iteration has, and those before it."""
    at = plan.jobs[t.FIRST_ITERATION, job] + iteration
    end_s = tables.times[t.NOW_S] + plan.clock[t.REST_S, flow]
    tables.iteration_end_s[at] = max(tables.iteration_end_s[at], end_s)
    tables.iteration_left[at] -= 1
    if tables.iteration_left[at] == 0 and iteration > tables.last_ended[job]:
        if tables.last_end_s[job] == math.inf:  # the first flow that was released was of a later iteration
            tables.counts[t.OTHERS] = 1
            tables.last_end_s[job] = tables.iteration_end_s[at]
        tables.last_end_s[job] = max(tables.last_end_s[job], tables.iteration_end_s[at])
        tables.last_ended[job] = iteration


@leaf
def _end_run(plan: Plan, tables: Tables, job: int, iteration: int, run: int) -> None:
    """A run's last flow has ended; a Coflow ends with the last run that has a part in it."""
    groups, runs, coflows = plan.groups, tables.runs, tables.coflows
    group = runs[t.KIND, run]
    tables.run_of[runs[t.INDEX, run]] = -1
    _lend_back(
        tables.pool,
        tables.pool_free,
        runs[t.PENDING, run],
        groups[t.GROUP_FIRST_CELL, group + 1] - groups[t.GROUP_FIRST_CELL, group],
    )
    _give_back(runs, tables.counts, t.RUN_COUNTS, run)
    for part in range(groups[t.GROUP_FIRST_PART, group], groups[t.GROUP_FIRST_PART, group + 1]):
        index = _coflow_index(plan, job, iteration, part)
        coflow = tables.coflow_of[index]
        coflows[t.OPEN, coflow] -= 1
        if coflows[t.OPEN, coflow] == 0:
            tables.coflow_of[index] = -1
            _give_back(coflows, tables.counts, t.COFLOW_COUNTS, coflow)


@leaf
def _take(entries: Ints, counts: Ints, of: int, stable_id: int, kind: int, index: int) -> int:
    """A slot that nobody uses; `of` says where the counts of these entries are."""
    counts[of + t.FREES] -= 1
    slot = entries[t.FREE, counts[of + t.FREES]]
    entries[t.ID, slot] = stable_id
    entries[t.KIND, slot] = kind
    entries[t.INDEX, slot] = index
    entries[t.ACTIVE, slot] = 0
    entries[t.LISTED, slot] = 0
    entries[t.ENDED, slot] = 0
    return int(slot)


@leaf
def _give_back(entries: Ints, counts: Ints, of: int, slot: int) -> None:
    """A slot is of no more use, once it is not among those in order any more."""
    if entries[t.LISTED, slot] == 1:
        entries[t.ENDED, slot] = 1
    else:
        entries[t.FREE, counts[of + t.FREES]] = slot
        counts[of + t.FREES] += 1


@leaf
def _list(entries: Ints, counts: Ints, of: int, slot: int) -> None:
    """One flow in flight more."""
    entries[t.ACTIVE, slot] += 1
    if entries[t.LISTED, slot] == 0:
        entries[t.LISTED, slot] = 1
        entries[t.COMING, counts[of + t.COMES]] = slot
        counts[of + t.COMES] += 1


@leaf
def _put_in_order(entries: Ints, counts: Ints, of: int) -> None:
    """Bring the list of those with flows in flight, and their rows, up to date."""
    kept = 0
    for i in range(counts[of + t.LISTS]):
        slot = entries[t.ORDER, i]
        if entries[t.ACTIVE, slot] > 0:
            entries[t.ORDER, kept] = slot
            kept += 1
            continue
        entries[t.LISTED, slot] = 0
        if entries[t.ENDED, slot] == 1:
            _give_back(entries, counts, of, slot)
    for i in range(counts[of + t.COMES]):
        slot, place = entries[t.COMING, i], kept
        while place > 0 and entries[t.ID, entries[t.ORDER, place - 1]] > entries[t.ID, slot]:
            entries[t.ORDER, place] = entries[t.ORDER, place - 1]
            place -= 1
        entries[t.ORDER, place] = slot
        kept += 1
    counts[of + t.LISTS] = kept
    counts[of + t.COMES] = 0
    for i in range(kept):
        entries[t.ROW, entries[t.ORDER, i]] = i


@leaf
def _borrow(pool: Ints, free: Ints, counts: Ints, length: int) -> int:
    """Where a piece of the pool begins that has room for `length` numbers."""
    power = _power(length)
    start = int(free[power])
    if start >= 0:
        free[power] = pool[start]
        return start
    start = int(counts[t.POOL_END])
    counts[t.POOL_END] += 1 << power
    return start


@leaf
def _lend_back(pool: Ints, free: Ints, start: int, length: int) -> None:
    power = _power(length)
    pool[start] = free[power]
    free[power] = start


@leaf
def _power(length: int) -> int:
    """Pieces come in powers of two, so that one given back fits the next."""
    power = 0
    while 1 << power < length:
        power += 1
    return power


# What a policy sees


@inner
def _look(plan: Plan, tables: Tables, seen: Seen, changed: bool) -> None:
    """Bring what a policy sees up to date; which flows are in flight has `changed`, or only time has passed."""
    if changed:
        _put_in_order(tables.runs, tables.counts, t.RUN_COUNTS)
        _put_in_order(tables.coflows, tables.counts, t.COFLOW_COUNTS)
        _see_paths(plan, tables, seen)
    _see_groups(plan, tables, seen)
    _see_pending(plan, tables, seen)
    _see_flows(plan, tables, seen)


@leaf
def _see_paths(plan: Plan, tables: Tables, seen: Seen) -> None:
    declared, ints = plan.flows, tables.rows
    hops = 0
    for row in range(tables.counts[t.FLOWS]):
        flow = ints[t.DECLARED, row]
        seen.path_start[row] = hops
        for hop in range(declared[t.FLOW_PATH_START, flow], declared[t.FLOW_PATH_START, flow + 1]):
            seen.path_link[hops] = plan.hops[0, hop]
            hops += 1
        seen.flow_ints[0, row] = tables.runs[t.ROW, ints[t.RUN, row]]
        seen.flow_ints[1, row] = tables.coflows[t.ROW, ints[t.COFLOW, row]]
    seen.path_start[tables.counts[t.FLOWS]] = hops
    tables.counts[t.HOPS_SEEN] = hops


@leaf
def _see_groups(plan: Plan, tables: Tables, seen: Seen) -> None:
    jobs, groups, runs, counts = plan.jobs, plan.groups, tables.runs, tables.counts
    last, found = -1, 0
    for row in range(tables.counts[t.RUN_COUNTS + t.LISTS]):
        run = runs[t.ORDER, row]
        group, reference_s = runs[t.KIND, run], tables.run_floats[t.HEAD_S, run]
        if reference_s == math.inf:
            reference_s = tables.run_floats[t.EARLIEST_S, run]
        job = groups[t.GROUP_JOB, group]
        if job != last:
            last = job
            seen.job_ids[found] = jobs[t.JOB_PLACE, job]
            seen.job_floats[0, found] = plan.job_floats[0, job]
            seen.job_floats[1, found] = plan.job_floats[1, job]
            found += 1
        seen.group_ints[0, row] = runs[t.ID, run]
        seen.group_ints[1, row] = found - 1
        seen.group_floats[0, row] = plan.group_floats[t.WEIGHT, group]
        seen.group_floats[1, row] = reference_s
        seen.group_floats[2, row] = tables.run_floats[t.WORST_S, run] - reference_s
        seen.group_floats[3, row] = plan.group_floats[t.SPAN_S, group]
        seen.group_floats[4, row] = plan.group_floats[t.ALONE_S, group]
    counts[t.JOBS_SEEN] = found
    counts[t.GROUPS_SEEN] = tables.counts[t.RUN_COUNTS + t.LISTS]


@leaf
def _see_pending(plan: Plan, tables: Tables, seen: Seen) -> None:
    groups, runs, pool = plan.groups, tables.runs, tables.pool
    found = 0
    for row in range(tables.counts[t.RUN_COUNTS + t.LISTS]):
        seen.pending_start[row] = found
        run = runs[t.ORDER, row]
        if runs[t.UNRELEASED, run] == 0 or len(seen.pending_link) == 0:
            continue
        group, pending = runs[t.KIND, run], runs[t.PENDING, run]
        first = groups[t.GROUP_FIRST_CELL, group]
        for cell in range(first, groups[t.GROUP_FIRST_CELL, group + 1]):
            size_bytes = pool[pending + cell - first]
            if size_bytes > 0:
                seen.pending_link[found] = plan.cells[0, cell]
                seen.pending_bytes[found] = float(size_bytes)
                found += 1
    seen.pending_start[tables.counts[t.RUN_COUNTS + t.LISTS]] = found


@leaf
def _see_flows(plan: Plan, tables: Tables, seen: Seen) -> None:
    ints, floats, coflows = tables.rows, tables.row_floats, tables.coflows
    present = tables.counts[t.COFLOW_COUNTS + t.LISTS]
    for row in range(present):
        seen.coflow_floats[2, row] = 0.0
    for row in range(tables.counts[t.FLOWS]):
        size_bytes = floats[t.SIZE_BYTES, row]
        sent_bytes = max(floats[t.SENT_BYTES, row], min(size_bytes - floats[t.LEFT_BYTES, row], size_bytes))
        floats[t.SENT_BYTES, row] = sent_bytes
        seen.flow_floats[0, row] = max(size_bytes - sent_bytes, 1.0)
        seen.flow_floats[1, row] = sent_bytes
        reference_s = seen.group_floats[1, seen.flow_ints[0, row]]
        seen.flow_floats[2, row] = reference_s + plan.offset_s[ints[t.DECLARED, row]]
        seen.coflow_floats[2, seen.flow_ints[1, row]] += sent_bytes
    for row in range(present):
        coflow = coflows[t.ORDER, row]
        seen.coflow_ids[row] = coflows[t.ID, coflow]
        seen.coflow_floats[0, row] = plan.group_floats[t.WEIGHT, plan.parts[t.PART_GROUP, coflows[t.KIND, coflow]]]
        seen.coflow_floats[1, row] = tables.coflow_floats[t.ARRIVAL_S, coflow]
        seen.coflow_floats[2, row] += tables.coflow_floats[t.FINISHED_BYTES, coflow]
    tables.counts[t.COFLOWS_SEEN] = present


# Where jobs are already


@kept_with(decision_loops, kernels)
@jit
def place(plan: Plan, tables: Tables, happened_s: Floats, happened: Ints) -> None:
    """Enter what is known of flows into tables of which nothing has begun, in order of time; there has to be room for all.

    Rows of `happened`: job, iteration, declared flow, its step in `plan`; 0 for a release, 1 for the release of one that has ended
    since, 2 for an end. Steps are not followed: what waits for what is for the caller to say.
    """
    counts, jobs = tables.counts, plan.jobs
    for i in range(len(happened_s)):
        job, iteration, flow = happened[0, i], happened[1, i], happened[2, i]
        tables.times[t.NOW_S] = happened_s[i]
        if happened[4, i] < 2:
            _release(plan, tables, job, iteration, flow, _instance(jobs, job, iteration, happened[3, i]))
            if happened[4, i] == 1:  # it is in no row by now
                counts[t.COME] -= 1
            continue
        group, first = plan.flows[t.FLOW_GROUP, flow], jobs[t.FIRST_GROUP, job]
        index = jobs[t.FIRST_RUN, job] + iteration * (jobs[t.FIRST_GROUP, job + 1] - first) + group - first
        run = int(tables.run_of[index])
        coflow = int(tables.coflow_of[_coflow_index(plan, job, iteration, plan.flows[t.FLOW_PART, flow])])
        _finish_flow(plan, tables, job, iteration, flow, run, coflow)
    _admit(plan, tables)
