"""A trace of Coflows served flow by flow, in an order of flows: exactly, and only what changes is redone.

The first flow in the order takes all that its path has, the next what is left of its own, and so on
(`echelonflow.scheduling.greedy`). Whoever takes anything leaves a link of its path with nothing. So of the flows on one
path only the first can have a rate, and at most as many flows have one as there are links. Flows wait in a heap for each
path; its first one is the path's *head*, and heads stand in a line in their order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling.fill import dense_rank
from echelonflow.scheduling.forms import Form
from echelonflow.scheduling.measures import drawn
from echelonflow.scheduling.trace_kernels import SIMULTANEOUS_S, Ended, TraceFlows
from echelonflow.scheduling.trace_kernels.jit import inner, jit
from echelonflow.scheduling.trace_kernels.orders import fixed_of_coflow

_SPENT = 1e-9
"""As in `echelonflow.scheduling.fill`: share of a link's capacity below which what is left on it counts as nothing."""
_KEY_BITS = 62
_LAST = np.iinfo(np.int64).max


class _Flows(NamedTuple):
    path: Ints
    left_bytes: Floats
    rate_Bps: Floats
    key: Ints
    """Place in the order; where that goes by bytes left, those in the high digits."""


class _Paths(NamedTuple):
    start: Ints
    link: Ints
    first_link: npt.NDArray[np.int32]
    last_link: npt.NDArray[np.int32]
    """Most paths that wait have one of these spent: small columns say so quickly."""
    queue_start: Ints
    queue: Ints
    """Flows of each path, a heap."""
    flows: Ints


class _Links(NamedTuple):
    capacity_Bps: Floats
    left_Bps: Floats
    is_spent: Bools
    begins: Ints
    """Paths with flows that begin with it, and that end with it."""
    ends: Ints


class _Line(NamedTuple):
    """Paths whose heads wait, in order, with the keys of the heads; and those whose heads send."""

    path: Ints
    key: Ints
    sending: Ints
    next_sending: Ints
    """Room to make the next list of these in."""
    taken: Ints
    """Places in the line of those that begin to send."""
    length: Ints
    """Two numbers: how many wait and how many send."""


def finish_times(form: Form, trace: TraceFlows) -> Ended | None:
    """When each flow ends in seconds (n), and the number of events; None for an order that it does not know."""
    if form.serve != "greedy" or form.pull != "equal" or not math.isinf(form.patience):
        return None
    flows, links = len(trace.size_bytes), len(trace.capacity_Bps)
    measures = [(key.measure, key.of) for key in form.keys]
    by_left = measures == [("most_left_bytes", "flow"), ("id", "flow")] and not form.keys[0].per_weight
    if by_left and int(trace.size_bytes.max()).bit_length() + flows.bit_length() > _KEY_BITS:
        return None
    if not by_left and (not all(key.is_fixed for key in form.keys) or ("id", "flow") not in measures):
        return None
    key = np.arange(flows) if by_left else _places(form, trace)
    paths, path_of_flow = trace.paths.distinct()
    count = len(paths.start) - 1
    finish_s: Floats = np.empty(flows)
    queue_start = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(path_of_flow, minlength=count))))
    events = _run(
        _Flows(path_of_flow, trace.size_bytes.copy(), np.zeros(flows), key),
        _Paths(
            paths.start, paths.link, paths.link[paths.start[:-1]].astype(np.int32),
            paths.link[paths.start[1:] - 1].astype(np.int32), queue_start, np.zeros(flows, np.int64),
            np.zeros(count, np.int64),
        ),
        _Links(
            trace.capacity_Bps, np.zeros(links), np.zeros(links, np.bool_), np.zeros(links, np.int64),
            np.zeros(links, np.int64),
        ),
        _Line(
            np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64), np.zeros(links + 1, np.int64),
            np.zeros(links + 1, np.int64), np.zeros(links + 1, np.int64), np.zeros(2, np.int64),
        ),
        trace.arrival_s,
        trace.first_flow,
        by_left,
        finish_s,
    )  # fmt: skip
    return finish_s, events


def _places(form: Form, trace: TraceFlows) -> Ints:
    """The place of each flow in an order that does not change."""
    keys, sizes = [], np.diff(trace.first_flow)
    for key in form.keys:
        if key.of == "flow" and key.measure in {"id", "drawn"}:
            ids = np.arange(len(trace.size_bytes))
            keys.append(ids if key.measure == "id" else drawn(ids, key.seed))
        else:
            keys.append(np.repeat(fixed_of_coflow(key, trace), sizes))
    return dense_rank(keys)


@jit
def _run(
    flows: _Flows, paths: _Paths, links: _Links, line: _Line, arrival_s: Floats, first_flow: Ints, by_left: bool,
    finish_s: Floats,
) -> int:  # fmt: skip
    """Fill `finish_s`; returns the number of events."""
    events, arrived, now_s, ends_s = 0, 0, 0.0, math.inf
    while ends_s < math.inf or arrived < len(arrival_s):
        next_s = min(ends_s, arrival_s[arrived]) if arrived < len(arrival_s) else ends_s
        _move(flows, paths, line, next_s - now_s, by_left)
        now_s = next_s
        events += 1
        from_key, come = _retire(flows, paths, links, line, now_s, finish_s), False
        while arrived < len(arrival_s) and arrival_s[arrived] <= now_s:
            come = True
            for flow in range(first_flow[arrived], first_flow[arrived + 1]):
                if by_left:
                    flows.key[flow] = _key(flows, flow)
                _push(flows, paths, links, flow)
            arrived += 1
        if come:
            _line_up(flows, paths, line)
        if come or by_left:  # any may have come before any other
            from_key = 0
        _sort_sending(flows, paths, line)
        ends_s = now_s + _serve(flows, paths, links, line, from_key)
    return events


@inner
def _key(flows: _Flows, flow: int) -> int:
    """By whole bytes left, then by id."""
    return int(np.rint(flows.left_bytes[flow])) * len(flows.key) + flow


@inner
def _head(paths: _Paths, path: int) -> int:
    return int(paths.queue[paths.queue_start[path]])


@inner
def _move(flows: _Flows, paths: _Paths, line: _Line, elapsed_s: float, by_left: bool) -> None:
    """Let time pass."""
    for i in range(line.length[1]):
        flow = _head(paths, line.sending[i])
        flows.left_bytes[flow] -= flows.rate_Bps[flow] * elapsed_s
        if by_left:
            flows.key[flow] = _key(flows, flow)


@inner
def _retire(flows: _Flows, paths: _Paths, links: _Links, line: _Line, now_s: float, finish_s: Floats) -> int:
    """End the flows that have run empty; the next ones of their paths come into the line. Returns the least key."""
    tolerance_s = max(SIMULTANEOUS_S, 1e-15 * now_s)
    kept, least = 0, _LAST
    for i in range(line.length[1]):
        path = line.sending[i]
        flow = _head(paths, path)
        if flows.left_bytes[flow] > flows.rate_Bps[flow] * tolerance_s:
            line.sending[kept] = path
            kept += 1
            continue
        finish_s[flow] = now_s
        least = min(least, flows.key[flow])
        _pop(flows, paths, path)
        if paths.flows[path] > 0:
            _wait(flows, paths, line, path)
        else:
            links.begins[paths.link[paths.start[path]]] -= 1
            links.ends[paths.link[paths.start[path + 1] - 1]] -= 1
    line.length[1] = kept
    return least


@inner
def _wait(flows: _Flows, paths: _Paths, line: _Line, path: int) -> None:
    """Put a path into the line."""
    key, waiting = flows.key[_head(paths, path)], line.length[0]
    at = np.searchsorted(line.key[:waiting], key)
    for i in range(waiting, at, -1):
        line.key[i] = line.key[i - 1]
        line.path[i] = line.path[i - 1]
    line.key[at] = key
    line.path[at] = path
    line.length[0] = waiting + 1


@inner
def _line_up(flows: _Flows, paths: _Paths, line: _Line) -> None:
    """Make the line anew; all heads wait."""
    found = 0
    for i in range(line.length[1]):
        path = line.sending[i]
        for at in range(paths.queue_start[path], paths.queue_start[path] + paths.flows[path]):
            flows.rate_Bps[paths.queue[at]] = 0.0  # whoever sent may not be the head any more
    for path in range(len(paths.flows)):
        if paths.flows[path] > 0:
            line.path[found] = path
            line.key[found] = flows.key[_head(paths, path)]
            found += 1
    order = np.argsort(line.key[:found])
    line.key[:found] = line.key[:found][order]
    line.path[:found] = line.path[:found][order]
    line.length[0] = found
    line.length[1] = 0


@inner
def _sort_sending(flows: _Flows, paths: _Paths, line: _Line) -> None:
    """Put those that send in order; they are nearly so already."""
    for i in range(1, line.length[1]):
        path, k = line.sending[i], i
        key = flows.key[_head(paths, path)]
        while k > 0 and flows.key[_head(paths, line.sending[k - 1])] > key:
            line.sending[k] = line.sending[k - 1]
            k -= 1
        line.sending[k] = path


@inner
def _serve(flows: _Flows, paths: _Paths, links: _Links, line: _Line, from_key: int) -> float:
    """Give heads their rates in order; returns how long until the first flow ends.

    Before `from_key` nobody has come or gone, so who waited there waits still.
    """
    left, spent = links.left_Bps, links.is_spent
    left[:] = links.capacity_Bps
    spent[:] = False
    begins, ends = 0, 0
    for link in range(len(left)):
        begins += links.begins[link] > 0
        ends += links.ends[link] > 0
    waiting, were = line.length[0], line.length[1]
    at = np.searchsorted(line.key[:waiting], from_key)
    sends, nexts, taken, stopped, shortest_s = 0, 0, 0, 0, math.inf
    while begins > 0 and ends > 0 and (at < waiting or sends < were):
        key = flows.key[_head(paths, line.sending[sends])] if sends < were else _LAST
        path = -1
        while at < waiting and line.key[at] < key:
            head = line.path[at]
            if not (spent[paths.first_link[head]] or spent[paths.last_link[head]]) and _is_open(paths, spent, head):
                path = head
                line.taken[taken] = at
                taken += 1
                at += 1
                break
            at += 1
        if path < 0:
            if sends == were:
                break
            path = line.sending[sends]
            sends += 1
            if not _is_open(paths, spent, path):
                flows.rate_Bps[_head(paths, path)] = 0.0
                line.sending[stopped] = path  # place that has been looked at
                stopped += 1
                continue
        rate = math.inf
        for hop in range(paths.start[path], paths.start[path + 1]):
            rate = min(rate, left[paths.link[hop]])
        for hop in range(paths.start[path], paths.start[path + 1]):
            link = paths.link[hop]
            left[link] -= rate
            if left[link] <= _SPENT * links.capacity_Bps[link]:
                spent[link] = True
                begins -= links.begins[link] > 0
                ends -= links.ends[link] > 0
        flow = _head(paths, path)
        flows.rate_Bps[flow] = rate
        shortest_s = min(shortest_s, flows.left_bytes[flow] / rate)
        line.next_sending[nexts] = path
        nexts += 1
    for i in range(sends, were):
        flows.rate_Bps[_head(paths, line.sending[i])] = 0.0
        line.sending[stopped] = line.sending[i]
        stopped += 1
    _take_out(line, taken)
    for i in range(stopped):
        _wait(flows, paths, line, line.sending[i])
    line.sending[:nexts] = line.next_sending[:nexts]
    line.length[1] = nexts
    return shortest_s


@inner
def _take_out(line: _Line, taken: int) -> None:
    """Take those out of the line that begin to send."""
    if taken == 0:
        return
    kept, t = line.taken[0], 0
    for at in range(line.taken[0], line.length[0]):
        if t < taken and line.taken[t] == at:
            t += 1
            continue
        line.path[kept] = line.path[at]
        line.key[kept] = line.key[at]
        kept += 1
    line.length[0] = kept


@inner
def _is_open(paths: _Paths, spent: Bools, path: int) -> bool:
    is_open = True
    for hop in range(paths.start[path], paths.start[path + 1]):
        is_open = is_open and not spent[paths.link[hop]]
    return is_open


@inner
def _push(flows: _Flows, paths: _Paths, links: _Links, flow: int) -> None:
    path = flows.path[flow]
    begin, place = paths.queue_start[path], paths.flows[path]
    if place == 0:
        links.begins[paths.link[paths.start[path]]] += 1
        links.ends[paths.link[paths.start[path + 1] - 1]] += 1
    paths.flows[path] += 1
    while place > 0:
        parent = (place - 1) // 2
        if flows.key[paths.queue[begin + parent]] <= flows.key[flow]:
            break
        paths.queue[begin + place] = paths.queue[begin + parent]
        place = parent
    paths.queue[begin + place] = flow


@inner
def _pop(flows: _Flows, paths: _Paths, path: int) -> None:
    """Take the head off."""
    begin, length = paths.queue_start[path], paths.flows[path] - 1
    paths.flows[path] = length
    last = paths.queue[begin + length]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= length:
            break
        if child + 1 < length and flows.key[paths.queue[begin + child + 1]] < flows.key[paths.queue[begin + child]]:
            child += 1
        if flows.key[paths.queue[begin + child]] >= flows.key[last]:
            break
        paths.queue[begin + place] = paths.queue[begin + child]
        place = child
    paths.queue[begin + place] = last
