"""A decision by a form, compiled: keys of every flow, the order, and what each place is given.

The same operations in the same order as `echelonflow.scheduling.fill` and `urgency` do them, so that answers are equal
bit for bit. What is shared out is shared out by the kernels that they use (`echelonflow.scheduling.kernels`).
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling import kernels
from echelonflow.scheduling.forms import CLOCKS, Form, Key
from echelonflow.scheduling.forms import GIVEN as GIVEN_MEASURES
from echelonflow.scheduling.trace_kernels.jit import inner, jit

_MEASURES = (
    "id", "given", "release_s", "due_s", "alone_s", "weight", "most_left_bytes", "left_bytes", "flows", "bottleneck_s",
    "due_in_s", "tardiness_s", "extra_s", "queue", "bssi",
)  # fmt: skip
(
    ID, GIVEN, RELEASE, DUE, ALONE, WEIGHT, MOST_LEFT, LEFT, FLOWS, BOTTLENECK, DUE_IN, TARDINESS, EXTRA, QUEUE, BSSI,
) = range(15)  # fmt: skip
_GIVEN = ("drawn", "intensity", *CLOCKS, "layer")
DRAWN, INTENSITY, CLOCK, OWN_CLOCK, END_CLOCK, OWN_END_CLOCK, LAYER = range(7)
_OF = ("flow", "stage", "coflow", "group", "job")
FLOW, STAGE, COFLOW, GROUP, JOB = range(5)
_SERVES = ("greedy", "madd", "queues", "paced")
GREEDY, MADD, QUEUES, PACED = range(4)
_PULLS = ("equal", "group", "per_group", "per_job")
EQUAL, BY_GROUP, PER_GROUP, PER_JOB = range(4)

_QUANTUM_S = 1e-6
_SPENT = 1e-9
"""Both as in `echelonflow.scheduling.fill`."""
_A_BYTE = 1.0
_SOON_S = 1e-9
_MOST = 2.0**62
_NEVER = np.iinfo(np.int64).max
_MOVES = 8
"""So many moves for each row are quicker than sorting anew."""

_fill = inner(kernels.fill.loop)
_madd = inner(kernels.madd.loop)
_lateness = inner(kernels.lateness.loop)
_needed = inner(kernels.needed.loop)
_bssi = inner(kernels.bssi.loop)
_demands = inner(kernels.demands.loop)
_paced = inner(kernels.paced.loop)


class Asked(NamedTuple):
    """A form in numbers."""

    measure: Ints
    of: Ints
    per_weight: Bools
    given: Ints
    """What is to be given for the keys that are, one after the other."""
    serve: int
    pull: int
    patience: float
    limits_bytes: Floats


class Flows(NamedTuple):
    """Columns of a snapshot, as the tables below: n rows."""

    id: Ints
    remaining_bytes: Floats
    release_s: Floats
    ideal_finish_s: Floats
    group: Ints
    coflow: Ints
    path_start: Ints
    path_link: Ints


class Groups(NamedTuple):
    """Of groups in flight."""

    id: Ints
    weight: Floats
    reference_s: Floats
    incurred_tardiness_s: Floats
    job: Ints
    span_s: Floats
    alone_s: Floats


class Coflows(NamedTuple):
    """Of Coflows in flight."""

    id: Ints
    weight: Floats
    arrival_s: Floats
    sent_bytes: Floats


class Jobs(NamedTuple):
    """Of jobs in flight."""

    id: Ints
    alone_s: Floats


def given_of(form: Form) -> list[Key]:
    """The keys of a form that are to be given."""
    return [key for key in form.keys if key.measure in GIVEN_MEASURES]


@functools.lru_cache(maxsize=64)
def asked(form: Form) -> Asked:
    """`form` in numbers."""
    names = ["given" if key.measure in GIVEN_MEASURES else key.measure for key in form.keys]
    return Asked(
        np.array([_MEASURES.index(name) for name in names], np.int64),
        np.array([_OF.index(key.of) for key in form.keys], np.int64),
        np.array([key.per_weight for key in form.keys], np.bool_),
        np.array([_GIVEN.index(key.measure) for key in given_of(form)], np.int64),
        _SERVES.index(form.serve),
        _PULLS.index(form.pull),
        float(form.patience),
        np.array(form.limits_bytes, np.float64),
    )


@jit
def decide(
    form: Asked, given: Ints, now_s: float, capacity_Bps: Floats, flows: Flows, groups: Groups, coflows: Coflows,
    jobs: Jobs,
) -> tuple[Floats, Ints, float]:  # fmt: skip
    """Rates and places of n flows, and until when they hold."""
    return decide_after(np.empty(0, np.int64), form, given, now_s, capacity_Bps, flows, groups, coflows, jobs)


@inner
def decide_after(
    before: Ints, form: Asked, given: Ints, now_s: float, capacity_Bps: Floats, flows: Flows, groups: Groups,
    coflows: Coflows, jobs: Jobs,
) -> tuple[Floats, Ints, float]:  # fmt: skip
    """The same, quicker where all rows are nearly in order in `before`; it may be empty."""
    count = len(flows.id)
    job_weight = np.zeros(len(jobs.id))
    for group in range(len(groups.id)):
        job_weight[groups.job[group]] = max(job_weight[groups.job[group]], groups.weight[group])
    keys = np.empty((len(form.measure) + 1, count), np.int64)
    until_s = _overdue(form.patience, now_s, groups, flows.group, keys[0])
    used = 0
    for k in range(len(form.measure)):
        if form.measure[k] == GIVEN:
            keys[k + 1] = given[used]
            used += 1
        else:
            _set_key(form, k, now_s, capacity_Bps, flows, groups, coflows, jobs, job_weight, keys[k + 1])
    start, rows, rank = _places(keys, before)
    rates = np.zeros(count)
    left = capacity_Bps.copy()
    if form.serve == GREEDY:
        _share(start, rows, flows, _pull(form.pull, flows, groups, jobs, job_weight), capacity_Bps, left, rates)
    elif form.serve == QUEUES:
        lanes = len(form.limits_bytes) + 1
        _share_lanes(lanes, keys[1], start, rows, flows, capacity_Bps, left, rates)
        until_s = min(until_s, _crosses_s(form.limits_bytes, now_s, flows, coflows, rates))
    else:
        if form.serve == MADD:
            links = len(capacity_Bps)
            _madd(
                start, rows, flows.path_start, flows.path_link, flows.remaining_bytes, _SPENT * capacity_Bps, left,
                rates, np.zeros(links), np.empty(links, np.int64),
            )  # fmt: skip
        else:
            _pace(start, rows, now_s, flows, groups, capacity_Bps, left, rates)
        _share(start, rows, flows, flows.remaining_bytes, capacity_Bps, left, rates)
    return rates, rank, until_s


@inner
def quantised(value: float) -> int:
    """As `echelonflow.scheduling.fill.quantised` has it."""
    return int(min(max(np.rint(value / _QUANTUM_S), -_MOST), _MOST))


@inner
def _weighted(value: float, weight: float) -> int:
    return quantised(value / weight if value >= 0 else value * weight)


@inner
def _overdue(patience: float, now_s: float, groups: Groups, group_of: Ints, key: Ints) -> float:
    """The first key: since when groups are overdue; returns when the next one will be."""
    key[:] = 0
    until_s = math.inf
    if math.isinf(patience):
        return until_s
    moments = np.empty(len(groups.id), np.int64)
    for group in range(len(groups.id)):
        moment_s = groups.reference_s[group] + groups.span_s[group] + patience * groups.alone_s[group]
        moments[group] = quantised(moment_s) if moment_s <= now_s else _NEVER
        if moment_s > now_s:
            until_s = min(until_s, moment_s)
    for row in range(len(key)):
        key[row] = moments[group_of[row]]
    return until_s


@inner
def _set_key(
    form: Asked, k: int, now_s: float, capacity_Bps: Floats, flows: Flows, groups: Groups, coflows: Coflows, jobs: Jobs,
    job_weight: Floats, key: Ints,
) -> None:  # fmt: skip
    measure, of, per_weight = form.measure[k], form.of[k], form.per_weight[k]
    if of in (FLOW, STAGE):
        _set_flow_key(measure, now_s, capacity_Bps, flows, groups, per_weight, key)
        return
    member, ids, weight = flows.group, groups.id, groups.weight
    if of == COFLOW:
        member, ids, weight = flows.coflow, coflows.id, coflows.weight
    elif of == JOB:
        member, ids, weight = groups.job[flows.group], jobs.id, job_weight
    sets = len(ids)
    if not per_weight and measure != WEIGHT:
        weight = np.ones(sets)
    value = np.zeros(sets, np.int64)
    if measure == ID:
        value[:] = ids
    elif measure == QUEUE:
        for i in range(sets):
            value[i] = np.searchsorted(form.limits_bytes - _A_BYTE, coflows.sent_bytes[i], side="right")
    elif measure == BSSI:
        _set_bssi(member, ids, coflows.weight if of == COFLOW else groups.weight, flows, capacity_Bps, value)
    elif measure in (MOST_LEFT, LEFT, FLOWS):
        total = np.zeros(sets)
        for row in range(len(member)):
            if measure == MOST_LEFT:
                total[member[row]] = max(total[member[row]], flows.remaining_bytes[row])
            else:
                total[member[row]] += flows.remaining_bytes[row] if measure == LEFT else 1.0
        for i in range(sets):
            value[i] = quantised(total[i] / weight[i]) if measure == FLOWS else int(np.rint(total[i] / weight[i]))
    else:
        seconds = np.zeros(sets)
        if measure == WEIGHT:
            seconds = -weight
        elif measure == RELEASE:
            seconds = coflows.arrival_s if of == COFLOW else groups.reference_s
        elif measure == ALONE:
            seconds = jobs.alone_s if of == JOB else groups.alone_s
        elif measure == BOTTLENECK:
            _late(member, flows, np.zeros(len(member)), capacity_Bps, seconds, False)
        else:
            seconds = groups.incurred_tardiness_s.copy()
            _late(member, flows, flows.ideal_finish_s - now_s, capacity_Bps, seconds, True)
            if measure == EXTRA:
                seconds = seconds - _unavoidable_s(now_s, flows, groups)
        for i in range(sets):
            value[i] = _weighted(seconds[i], weight[i]) if per_weight else quantised(seconds[i])
    for row in range(len(key)):
        key[row] = value[member[row]]


@inner
def _set_flow_key(
    measure: int, now_s: float, capacity_Bps: Floats, flows: Flows, groups: Groups, per_weight: bool, key: Ints
) -> None:  # fmt: skip
    needed_s = _stage_bottleneck_s(flows, capacity_Bps) if measure == DUE_IN else np.zeros(0)
    for row in range(len(key)):
        if measure == ID:
            key[row] = flows.id[row]
        elif measure == RELEASE:
            key[row] = quantised(flows.release_s[row])
        elif measure == DUE:
            key[row] = quantised(flows.ideal_finish_s[row])
        elif measure == DUE_IN:
            due_s = max(needed_s[row], flows.ideal_finish_s[row] - now_s)
            key[row] = _weighted(due_s, groups.weight[flows.group[row]]) if per_weight else quantised(due_s)
        else:
            key[row] = int(np.rint(flows.remaining_bytes[row]))


@inner
def _sets_of(member: Ints) -> tuple[Ints, Ints]:
    """Rows of each set, in order of rows, in compressed rows."""
    sets = 0
    for each in member:
        sets = max(sets, each + 1)
    start = np.zeros(sets + 1, np.int64)
    for each in member:
        start[each + 1] += 1
    for i in range(sets):
        start[i + 1] += start[i]
    rows, place = np.empty(len(member), np.int64), start[:-1].copy()
    for row in range(len(member)):
        rows[place[member[row]]] = row
        place[member[row]] += 1
    return start, rows


@inner
def _by_ideal_finish(member: Ints, ideal_s: Floats) -> tuple[Ints, Ints]:
    """The rows of each group in order of ideal finish; of equals the first row first."""
    start, rows = _sets_of(member)
    for group in range(len(start) - 1):
        begin, end = start[group], start[group + 1]
        for i in range(begin + 1, end):
            if ideal_s[rows[i]] < ideal_s[rows[i - 1]]:
                rows[begin:end] = rows[begin:end][np.argsort(ideal_s[rows[begin:end]], kind="mergesort")]
                break
    return start, rows


@inner
def _late(member: Ints, flows: Flows, slack_s: Floats, capacity_Bps: Floats, worst_s: Floats, in_order: bool) -> None:
    if in_order:
        start, rows = _by_ideal_finish(member, flows.ideal_finish_s)
    else:
        start, rows = _sets_of(member)
    links = len(capacity_Bps)
    _lateness(
        start, rows, flows.path_start, flows.path_link, flows.remaining_bytes, slack_s, capacity_Bps, worst_s,
        np.zeros(links), np.empty(links, np.int64),
    )  # fmt: skip


@inner
def _unavoidable_s(now_s: float, flows: Flows, groups: Groups) -> Floats:
    late_s: Floats = groups.incurred_tardiness_s.copy()
    for row in range(len(flows.id)):
        late_s[flows.group[row]] = max(late_s[flows.group[row]], now_s - flows.ideal_finish_s[row])
    return late_s


@inner
def _stage_bottleneck_s(flows: Flows, capacity_Bps: Floats) -> Floats:
    """For each flow, what its group's flows up to its own stage need at their slowest link."""
    count, links = len(flows.id), len(capacity_Bps)
    start, rows = _by_ideal_finish(flows.group, flows.ideal_finish_s)
    needed_s, of_stage_s = np.zeros(count), np.empty(count)
    _needed(
        start, rows, flows.path_start, flows.path_link, flows.remaining_bytes, capacity_Bps, needed_s, np.zeros(links),
        np.empty(links, np.int64),
    )  # fmt: skip
    for group in range(len(start) - 1):
        begin = start[group]
        while begin < start[group + 1]:
            end, ideal = begin + 1, quantised(flows.ideal_finish_s[rows[begin]])
            while end < start[group + 1] and quantised(flows.ideal_finish_s[rows[end]]) == ideal:
                end += 1
            for i in range(begin, end):
                of_stage_s[rows[i]] = needed_s[end - 1]
            begin = end
    return of_stage_s


@inner
def _set_bssi(member: Ints, ids: Ints, weight: Floats, flows: Flows, capacity_Bps: Floats, place: Ints) -> None:
    """Sincronia's places."""
    sets, links = len(ids), len(capacity_Bps)
    hops = len(flows.path_link)
    by_id, row_of, own_weight = np.argsort(ids), np.empty(sets, np.int64), np.empty(sets)
    for i in range(sets):
        own_weight[i] = weight[by_id[i]]
        row_of[by_id[i]] = i
    start, rows = _sets_of(row_of[member])
    cell_start, cell_link, need_s = np.zeros(sets + 1, np.int64), np.empty(hops, np.int64), np.empty(hops)
    _demands(
        start, rows, flows.path_start, flows.path_link, flows.remaining_bytes, capacity_Bps, cell_start, cell_link,
        need_s, np.zeros(links),
    )  # fmt: skip
    room = cell_start[sets]
    found = np.empty(sets, np.int64)
    _bssi(
        cell_start, cell_link, need_s, own_weight, found, np.empty(sets), np.empty(links),
        np.empty(links, np.int64), np.empty(links, np.int64), np.empty(links, np.int64), np.empty(links, np.int64),
        np.empty(room, np.int64), np.empty(room),
    )  # fmt: skip
    for i in range(sets):
        place[by_id[i]] = found[i]


@inner
def _places(keys: Ints, before: Ints) -> tuple[Ints, Ints, Ints]:
    """Rows in order of their keys, in compressed rows by place, and the place of each row."""
    count = keys.shape[1]
    first = np.empty(count + 1, np.int64)
    runs = 0
    for row in range(count):
        if row == 0 or _compare(keys, row - 1, row) != 0:
            first[runs] = row
            runs += 1
    first[runs] = count
    order = _mended_runs(keys, first, runs, before)
    if len(order) < runs:
        order = _sorted_runs(keys, first, runs)
    start, rows, rank = np.empty(runs + 1, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    places, at = 0, 0
    for i in range(runs):
        if i == 0 or _compare(keys, first[order[i - 1]], first[order[i]]) != 0:
            start[places] = at
            places += 1
        for row in range(first[order[i]], first[order[i] + 1]):
            rows[at] = row
            rank[row] = places - 1
            at += 1
    start[places] = count
    return start[: places + 1].copy(), rows, rank


@inner
def _compare(keys: Ints, one: int, other: int) -> int:
    for k in range(keys.shape[0]):
        if keys[k, one] != keys[k, other]:
            return -1 if keys[k, one] < keys[k, other] else 1
    return 0


@inner
def _mended_runs(keys: Ints, first: Ints, runs: int, before: Ints) -> Ints:
    """Runs in order, by moving those that are out of place in `before`; nothing where that would take long.

    Runs are rows with equal keys; of equals the first goes first.
    """
    nothing = np.empty(0, np.int64)
    if len(before) == 0:
        return nothing
    run_of = np.empty(len(before), np.int64)
    for run in range(runs):
        run_of[first[run] : first[run + 1]] = run
    order, is_in = np.empty(runs, np.int64), np.zeros(runs, np.bool_)
    known, moves = 0, 0
    for row in before:
        run = run_of[row]
        if is_in[run]:
            continue
        is_in[run] = True
        place = known
        while place > 0:
            compared = _compare(keys, first[order[place - 1]], first[run])
            if compared < 0 or (compared == 0 and order[place - 1] < run):
                break
            order[place] = order[place - 1]
            place -= 1
        order[place] = run
        known += 1
        moves += known - 1 - place
        if moves > _MOVES * (runs + _MOVES):
            return nothing
    return order


@inner
def _sorted_runs(keys: Ints, first: Ints, runs: int) -> Ints:
    """Runs of rows with equal keys, in order; of equals the first first (merging from below)."""
    order, other = np.arange(runs), np.empty(runs, np.int64)
    width = 1
    while width < runs:
        for begin in range(0, runs, 2 * width):
            middle, end = min(begin + width, runs), min(begin + 2 * width, runs)
            one, two = begin, middle
            for at in range(begin, end):
                takes_one = two >= end
                if not takes_one and one < middle:
                    takes_one = _compare(keys, first[order[one]], first[order[two]]) <= 0
                if takes_one:
                    other[at] = order[one]
                    one += 1
                else:
                    other[at] = order[two]
                    two += 1
        order, other = other, order
        width *= 2
    return order


@inner
def _pull(pull: int, flows: Flows, groups: Groups, jobs: Jobs, job_weight: Floats) -> Floats:
    """The weight of each flow within its place."""
    count = len(flows.id)
    if pull == EQUAL:
        return np.ones(count)
    member = groups.job[flows.group] if pull == PER_JOB else flows.group
    weight = job_weight if pull == PER_JOB else groups.weight
    crowd = np.zeros(len(weight))
    for each in member:
        crowd[each] += 1.0
    found = np.empty(count)
    for row in range(count):
        own = weight[member[row]]
        found[row] = own if pull == BY_GROUP else own / crowd[member[row]]
    return found


@inner
def _share(
    start: Ints, rows: Ints, flows: Flows, weight: Floats, capacity_Bps: Floats, left_Bps: Floats, rates: Floats
) -> None:  # fmt: skip
    """Each place in order shares max-min what is left."""
    links, count = len(capacity_Bps), len(flows.id)
    ints = np.zeros((7, links), np.int64)
    floats = np.zeros((3, links))
    _fill(
        start, rows, flows.path_start, flows.path_link, weight, _SPENT * capacity_Bps, left_Bps, rates, floats[0],
        ints[0], ints[1], floats[1], floats[2], ints[2], ints[3], ints[4], ints[5], ints[6],
        np.empty(count, np.int64), np.empty(len(flows.path_link), np.int64),
    )  # fmt: skip


@inner
def _share_lanes(
    lanes: int, queue: Ints, start: Ints, rows: Ints, flows: Flows, capacity_Bps: Floats, left_Bps: Floats, rates: Floats
) -> None:  # fmt: skip
    """Each queue's places in order out of its share of each link, then all out of what is left."""
    links = len(capacity_Bps)
    on_link = np.zeros((lanes, links), np.bool_)
    for row in range(len(queue)):
        for hop in range(flows.path_start[row], flows.path_start[row + 1]):
            on_link[queue[row], flows.path_link[hop]] = True
    total, even = np.zeros(links, np.int64), np.ones(len(queue))
    for lane in range(lanes):
        total += (lanes - lane) * on_link[lane]
    begin = 0
    while begin < len(start) - 1:
        lane, end = queue[rows[start[begin]]], begin + 1
        while end < len(start) - 1 and queue[rows[start[end]]] == lane:
            end += 1
        own_Bps = np.zeros(links)
        for link in range(links):
            if on_link[lane, link]:
                own_Bps[link] = (lanes - lane) / total[link] * capacity_Bps[link]
        _share(start[begin : end + 1].copy(), rows, flows, even, capacity_Bps, own_Bps, rates)
        begin = end
    load_Bps = np.zeros(links)
    for row in range(len(queue)):
        for hop in range(flows.path_start[row], flows.path_start[row + 1]):
            load_Bps[flows.path_link[hop]] += rates[row]
    for link in range(links):
        left_Bps[link] = max(capacity_Bps[link] - load_Bps[link], 0.0)
    _share(start, rows, flows, even, capacity_Bps, left_Bps, rates)


@inner
def _crosses_s(limits_bytes: Floats, now_s: float, flows: Flows, coflows: Coflows, rates: Floats) -> float:
    """When the first Coflow will have sent what its queue holds."""
    rate_Bps = np.zeros(len(coflows.id))
    for row in range(len(rates)):
        rate_Bps[flows.coflow[row]] += rates[row]
    least_s, some = math.inf, False
    for i in range(len(rate_Bps)):
        if rate_Bps[i] > 0:
            some = True
            queue = np.searchsorted(limits_bytes - _A_BYTE, coflows.sent_bytes[i], side="right")
            limit_bytes = limits_bytes[queue] if queue < len(limits_bytes) else math.inf
            least_s = min(least_s, (limit_bytes - coflows.sent_bytes[i]) / rate_Bps[i])
    return now_s + max(least_s, _QUANTUM_S) if some else math.inf


@inner
def _pace(
    start: Ints, rows: Ints, now_s: float, flows: Flows, groups: Groups, capacity_Bps: Floats, left_Bps: Floats,
    rates: Floats,
) -> None:  # fmt: skip
    """Each flow in order, by id within a place, the least rate that ends its group no later than it must."""
    latest_s = groups.incurred_tardiness_s.copy()
    _late(flows.group, flows, flows.ideal_finish_s - now_s, capacity_Bps, latest_s, True)
    wanted_Bps = np.empty(len(flows.id))
    for row in range(len(flows.id)):
        deadline_s = flows.ideal_finish_s[row] + latest_s[flows.group[row]]
        wanted_Bps[row] = flows.remaining_bytes[row] / max(deadline_s - now_s, _SOON_S)
    by_id = rows.copy()
    for place in range(len(start) - 1):
        some = rows[start[place] : start[place + 1]]
        by_id[start[place] : start[place + 1]] = some[np.argsort(flows.id[some])]
    _paced(by_id, flows.path_start, flows.path_link, wanted_Bps, left_Bps, rates)
    for link in range(len(left_Bps)):
        left_Bps[link] = max(left_Bps[link], 0.0)
