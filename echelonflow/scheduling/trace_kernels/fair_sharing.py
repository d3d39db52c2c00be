"""A trace of Coflows under fair sharing, exactly, without asking the policy again at every event.

Max-min fairness gives equal rates to all flows of one path, so flows are counted by path. A flow ends when its path has
served each of its flows as many bytes, since the flow's release, as the flow has: a queue per path. When flows end,
progressive filling is taken up again at the level of the slowest of them: whatever was full below that level stays as
it was. (Bertsekas and Gallager, Data Networks, section 6.5.2.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.trace_kernels import SIMULTANEOUS_S, TraceFlows
from echelonflow.scheduling.trace_kernels.jit import jit

CHECKPOINT_CELLS = 1 << 23
"""Progressive filling remembers its state before so many steps that (steps, links) is no larger than this."""
_SAME = 1e-12
"""Levels that differ by less than this share are one level (rounding)."""


class _Network(NamedTuple):
    path_start: Ints
    path_link: Ints
    link_start: Ints
    paths_on: Ints
    """The paths over each link, in compressed rows."""
    capacity_Bps: Floats


class _Links(NamedTuple):
    flows: Ints


class _Paths(NamedTuple):
    """What is known of the flows of each path."""

    queue_start: Ints
    queue_due_bytes: Floats
    """A heap for each path: what it must have served each flow for the entry's flow to end, least first."""
    queue_flow: Ints
    flows: Ints
    served_bytes: Floats
    """What each flow of the path has got up to `since_s`, counted from when the path was last without flows."""
    since_s: Floats
    rate_Bps: Floats
    """Of each flow; 0 where it must be set anew."""
    due_s: Floats
    """When the first flow ends."""
    step: Ints
    """Step of progressive filling that set the rate, and the event at which it did (0: never)."""
    event: Ints


class _Filling(NamedTuple):
    """Progressive filling as it went last: the level of each step, and the links before it, as far as remembered."""

    level_Bps: Floats
    left_Bps: Floats
    settled: Ints
    """Flows that have their rate."""


def finish_times(trace: TraceFlows) -> tuple[Floats, int]:
    """When each flow ends in seconds (n), and the number of events."""
    paths, path_of_flow = trace.paths.distinct()
    flows, count, links = len(trace.size_bytes), len(paths.start) - 1, len(trace.capacity_Bps)
    by_link = np.argsort(paths.link, kind="stable")
    paths_on = np.repeat(np.arange(count), np.diff(paths.start))[by_link]
    remembered = max(1, min(links, CHECKPOINT_CELLS // links))
    filling = _Filling(np.zeros(links + 1), np.zeros((remembered, links)), np.zeros((remembered, links), np.int64))
    filling.left_Bps[0] = trace.capacity_Bps
    finish_s: Floats = np.empty(flows)
    events = _run(
        _Network(paths.start, paths.link, _starts(paths.link, links), paths_on, trace.capacity_Bps),
        _Links(np.zeros(links, np.int64)),
        _Paths(
            _starts(path_of_flow, count),
            np.empty(flows),
            np.empty(flows, np.int64),
            np.zeros(count, np.int64),
            np.zeros(count),
            np.zeros(count),
            np.zeros(count),
            np.full(count, math.inf),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
        ),
        filling,
        path_of_flow,
        trace.size_bytes,
        trace.arrival_s,
        trace.first_flow,
        finish_s,
    )
    return finish_s, events


def _starts(of: Ints, rows: int) -> Ints:
    """Where each row begins if the entries of `of` are put in compressed rows."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(of, minlength=rows))))


@jit
def _run(
    network: _Network,
    links: _Links,
    paths: _Paths,
    filling: _Filling,
    path_of_flow: Ints,
    size_bytes: Floats,
    arrival_s: Floats,
    first_flow: Ints,
    finish_s: Floats,
) -> int:
    """Fill `finish_s`; returns the number of events."""
    steps, events, arrived, in_flight, now_s = 0, 0, 0, 0, 0.0
    while in_flight > 0 or arrived < len(arrival_s):
        next_s = paths.due_s.min()
        if arrived < len(arrival_s):
            next_s = min(next_s, arrival_s[arrived])
        now_s = max(now_s, next_s)
        events += 1
        ended, slowest_Bps = _retire(network, links, paths, now_s, finish_s)
        in_flight -= ended
        while arrived < len(arrival_s) and arrival_s[arrived] <= now_s:
            slowest_Bps = 0.0
            for flow in range(first_flow[arrived], first_flow[arrived + 1]):
                _admit(network, links, paths, now_s, path_of_flow[flow], flow, size_bytes[flow])
                in_flight += 1
            arrived += 1
        kept = 0
        while kept < min(steps, len(filling.left_Bps) - 1) and filling.level_Bps[kept] < slowest_Bps * (1 - _SAME):
            kept += 1
        steps = _fill(network, links, paths, filling, now_s, kept, events)
    return events


@jit
def _retire(network: _Network, links: _Links, paths: _Paths, now_s: float, finish_s: Floats) -> tuple[int, float]:
    """End the flows that are due; returns how many, and the least rate of their paths."""
    tolerance_s = max(SIMULTANEOUS_S, 1e-15 * now_s)
    ended, slowest_Bps = 0, math.inf
    for path in range(len(paths.flows)):
        if paths.due_s[path] > now_s + tolerance_s:
            continue
        begin, before, rate = paths.queue_start[path], paths.flows[path], paths.rate_Bps[path]
        # What the first flow is due at is reached, whatever rounding says.
        served = max(paths.served_bytes[path] + rate * (now_s - paths.since_s[path]), paths.queue_due_bytes[begin])
        left = before
        while left > 0 and paths.queue_due_bytes[begin] <= served + rate * tolerance_s:
            finish_s[paths.queue_flow[begin]] = now_s
            left -= 1
            _pop(paths.queue_due_bytes, paths.queue_flow, begin, left)
        for hop in range(network.path_start[path], network.path_start[path + 1]):
            links.flows[network.path_link[hop]] -= before - left
        ended += before - left
        slowest_Bps = min(slowest_Bps, rate)
        paths.flows[path] = left
        paths.served_bytes[path] = served
        paths.since_s[path] = now_s
        paths.rate_Bps[path] = 0.0
        paths.due_s[path] = math.inf
    return ended, slowest_Bps


@jit
def _admit(
    network: _Network, links: _Links, paths: _Paths, now_s: float, path: int, flow: int, size_bytes: float
) -> None:
    """Release a flow now."""
    elapsed_s = now_s - paths.since_s[path]
    served = paths.served_bytes[path] + paths.rate_Bps[path] * elapsed_s if paths.flows[path] > 0 else 0.0
    _push(
        paths.queue_due_bytes, paths.queue_flow, paths.queue_start[path], paths.flows[path], served + size_bytes, flow
    )
    for hop in range(network.path_start[path], network.path_start[path + 1]):
        links.flows[network.path_link[hop]] += 1
    paths.flows[path] += 1
    paths.served_bytes[path] = served
    paths.since_s[path] = now_s
    paths.rate_Bps[path] = 0.0
    paths.due_s[path] = math.inf


@jit
def _fill(
    network: _Network, links: _Links, paths: _Paths, filling: _Filling, now_s: float, kept: int, event: int
) -> int:
    """Progressive filling from step `kept` on; returns the number of steps."""
    left, settled = filling.left_Bps[kept].copy(), filling.settled[kept].copy()
    full_at = np.empty(len(left))
    for link in range(len(left)):
        full_at[link] = _full_at(left[link], links.flows[link] - settled[link])
    level = filling.level_Bps[kept - 1] if kept > 0 else 0.0
    step = kept
    while True:
        if step < len(filling.left_Bps):
            filling.left_Bps[step] = left
            filling.settled[step] = settled
        tightest = np.argmin(full_at)
        if full_at[tightest] == math.inf:
            return step
        level = max(level, full_at[tightest])  # levels never fall, except by rounding
        filling.level_Bps[step] = level
        for i in range(network.link_start[tightest], network.link_start[tightest + 1]):
            path = network.paths_on[i]
            has_rate = paths.event[path] == event or (paths.event[path] > 0 and paths.step[path] < kept)
            if paths.flows[path] == 0 or has_rate:
                continue
            paths.event[path] = event
            paths.step[path] = step
            _set_rate(paths, path, level, now_s)
            for hop in range(network.path_start[path], network.path_start[path + 1]):
                link = network.path_link[hop]
                left[link] = max(left[link] - level * paths.flows[path], 0.0)
                settled[link] += paths.flows[path]
                full_at[link] = _full_at(left[link], links.flows[link] - settled[link])
        step += 1


@jit
def _full_at(left_Bps: float, flows: int) -> float:
    """The level at which `flows` flows that go on growing fill a link."""
    return left_Bps / flows if flows > 0 else math.inf


@jit
def _set_rate(paths: _Paths, path: int, rate_Bps: float, now_s: float) -> None:
    if paths.rate_Bps[path] != rate_Bps:
        paths.served_bytes[path] += paths.rate_Bps[path] * (now_s - paths.since_s[path])
        paths.since_s[path] = now_s
        paths.rate_Bps[path] = rate_Bps
        due_bytes = paths.queue_due_bytes[paths.queue_start[path]]
        paths.due_s[path] = now_s + (due_bytes - paths.served_bytes[path]) / rate_Bps


@jit
def _push(due: Floats, flow: Ints, begin: int, length: int, new_due: float, new_flow: int) -> None:
    """Put an entry into the heap of `length` entries that starts at `begin`."""
    place = length
    while place > 0:
        parent = (place - 1) // 2
        if due[begin + parent] <= new_due:
            break
        due[begin + place] = due[begin + parent]
        flow[begin + place] = flow[begin + parent]
        place = parent
    due[begin + place] = new_due
    flow[begin + place] = new_flow


@jit
def _pop(due: Floats, flow: Ints, begin: int, length: int) -> None:
    """Take the least entry from the heap at `begin`, of which `length` entries are left then."""
    last_due, last_flow = due[begin + length], flow[begin + length]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= length:
            break
        if child + 1 < length and due[begin + child + 1] < due[begin + child]:
            child += 1
        if due[begin + child] >= last_due:
            break
        due[begin + place] = due[begin + child]
        flow[begin + place] = flow[begin + child]
        place = child
    due[begin + place] = last_due
    flow[begin + place] = last_flow
