"""A trace of Coflows under fair sharing, exactly, without asking the policy again at every event.

Max-min fairness gives equal rates to all flows of one path and weight, so flows are counted by these. (What is called a
path here is a path and a weight.) A flow ends when its path has served each of its flows as many bytes, since the flow's
release, as the flow has: a queue per path. When flows end, progressive filling is taken up again at the level of the
slowest of them: whatever was full below that level stays as it was. (Bertsekas and Gallager, Data Networks, section
6.5.2.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.path_rows import PathRows
from echelonflow.scheduling.forms import Form
from echelonflow.scheduling.trace_kernels import SIMULTANEOUS_S, Ended, TraceFlows
from echelonflow.scheduling.trace_kernels.jit import inner, jit

CHECKPOINT_CELLS = 1 << 23
"""Progressive filling remembers its state so often that (times, links) is no larger than this."""
STRIDE = 16
"""It remembers its state before every so many steps."""
BLOCK = 64
"""So many paths share what is known of when the first of their flows ends."""
OPEN, EMPTY = 2**31 - 1, -1
_SAME = 1e-12
"""Levels that differ by less than this share are one level (rounding)."""


class _Network(NamedTuple):
    path_start: Ints
    path_link: Ints
    link_start: Ints
    paths_on: Ints
    """The paths over each link, in compressed rows."""
    capacity_Bps: Floats
    weight: Floats
    """Of each flow of a path."""


class _Links(NamedTuple):
    flows: Ints
    pull: Floats
    """The weight of these, together."""
    heap: Ints
    full_at: Floats
    """Room to work."""


class _Paths(NamedTuple):
    """What is known of the flows of each path."""

    queue_start: Ints
    queue_due_bytes: Floats
    """A heap for each path: what it must have served each flow for the entry's flow to end, least first."""
    queue_flow: Ints
    head_due_bytes: Floats
    """The first entry of each heap, once more, where it is quickly found."""
    flows: Ints
    served_bytes: Floats
    """What each flow of the path has got up to `since_s`, counted from when the path was last without flows."""
    since_s: Floats
    level_Bps: Floats
    """The rate of each flow for a weight of one; 0 where it must be set anew."""
    due_s: Floats
    """When the first flow ends."""
    block_due_s: Floats
    """The least of these in every block of paths."""
    step: npt.NDArray[np.int32]
    """Step of progressive filling that set the rate; OPEN where it is still to be set, EMPTY without flows."""


class _Filling(NamedTuple):
    """Progressive filling as it went last: the level of each step, and the links before it, as far as remembered."""

    level_Bps: Floats
    left_Bps: Floats
    settled: Ints
    """Flows that have their rate, and their weight."""
    settled_pull: Floats


def finish_times(form: Form, trace: TraceFlows) -> Ended | None:
    """When each flow ends in seconds (n), and the number of events; None for weights that change meanwhile."""
    if form.keys or form.serve != "greedy" or form.pull not in {"equal", "group"}:
        return None
    flows, links = len(trace.size_bytes), len(trace.capacity_Bps)
    paths, path_of_flow, weight = _by_path_and_weight(form, trace)
    count = len(paths.start) - 1
    by_link = np.argsort(paths.link, kind="stable")
    paths_on = np.repeat(np.arange(count), np.diff(paths.start))[by_link]
    remembered = max(1, min(links // STRIDE + 1, CHECKPOINT_CELLS // links))
    filling = _Filling(
        np.zeros(links + 1), np.zeros((remembered, links)), np.zeros((remembered, links), np.int64),
        np.zeros((remembered, links)),
    )  # fmt: skip
    filling.left_Bps[0] = trace.capacity_Bps
    finish_s: Floats = np.empty(flows)
    events = _run(
        _Network(paths.start, paths.link, _starts(paths.link, links), paths_on, trace.capacity_Bps, weight),
        _Links(np.zeros(links, np.int64), np.zeros(links), np.zeros(links, np.int64), np.zeros(links)),
        _Paths(
            _starts(path_of_flow, count),
            np.empty(flows),
            np.empty(flows, np.int64),
            np.zeros(count),
            np.zeros(count, np.int64),
            np.zeros(count),
            np.zeros(count),
            np.zeros(count),
            np.full(count, math.inf),
            np.full((count + BLOCK - 1) // BLOCK, math.inf),
            np.full(count, EMPTY, np.int32),
        ),
        filling,
        path_of_flow,
        trace.size_bytes,
        trace.arrival_s,
        trace.first_flow,
        finish_s,
    )
    return finish_s, events


def _by_path_and_weight(form: Form, trace: TraceFlows) -> tuple[PathRows, Ints, Floats]:
    """Distinct pairs of path and weight: their paths, the pair of each flow, the weight of each pair."""
    paths, path_of_flow = trace.paths.distinct()
    if form.pull == "equal":
        return paths, path_of_flow, np.ones(len(paths.start) - 1)
    weights, which = np.unique(trace.weight, return_inverse=True)
    of_flow = np.repeat(which, np.diff(trace.first_flow))
    pairs, pair_of_flow = np.unique(path_of_flow * len(weights) + of_flow, return_inverse=True)
    return paths.of(pairs // len(weights)), pair_of_flow, weights[pairs % len(weights)]


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
        next_s = _first_due_s(paths)
        if arrived < len(arrival_s):
            next_s = min(next_s, arrival_s[arrived])
        now_s = max(now_s, next_s)
        events += 1
        ended, lowest_Bps = _retire(network, links, paths, now_s, finish_s)
        in_flight -= ended
        while arrived < len(arrival_s) and arrival_s[arrived] <= now_s:
            lowest_Bps = 0.0
            for flow in range(first_flow[arrived], first_flow[arrived + 1]):
                _admit(network, links, paths, now_s, path_of_flow[flow], flow, size_bytes[flow])
                in_flight += 1
            arrived += 1
        kept, most = 0, min(steps - 1, (len(filling.left_Bps) - 1) * STRIDE)
        while kept < most and filling.level_Bps[kept] < lowest_Bps * (1 - _SAME):
            kept += 1
        steps = _fill(network, links, paths, filling, now_s, kept // STRIDE * STRIDE)
    return events


@inner
def _first_due_s(paths: _Paths) -> float:
    first_s, count = math.inf, len(paths.due_s)
    for block in range(len(paths.block_due_s)):
        least_s = math.inf
        for path in range(block * BLOCK, min((block + 1) * BLOCK, count)):
            due_s = paths.due_s[path]
            least_s = due_s if due_s < least_s else least_s  # noqa: FURB136  quicker so
        paths.block_due_s[block] = least_s
        first_s = min(first_s, least_s)
    return first_s


@inner
def _retire(network: _Network, links: _Links, paths: _Paths, now_s: float, finish_s: Floats) -> tuple[int, float]:
    """End the flows that are due; returns how many, and the least level of their paths."""
    tolerance_s = max(SIMULTANEOUS_S, 1e-15 * now_s)
    ended, lowest_Bps = 0, math.inf
    for block in range(len(paths.block_due_s)):
        if paths.block_due_s[block] > now_s + tolerance_s:
            continue
        for path in range(block * BLOCK, min((block + 1) * BLOCK, len(paths.due_s))):
            if paths.due_s[path] > now_s + tolerance_s:
                continue
            begin, before, level = paths.queue_start[path], paths.flows[path], paths.level_Bps[path]
            rate = level * network.weight[path]
            # What the first flow is due at is reached, whatever rounding says.
            served = max(paths.served_bytes[path] + rate * (now_s - paths.since_s[path]), paths.queue_due_bytes[begin])
            left = before
            while left > 0 and paths.queue_due_bytes[begin] <= served + rate * tolerance_s:
                finish_s[paths.queue_flow[begin]] = now_s
                left -= 1
                _pop(paths.queue_due_bytes, paths.queue_flow, begin, left)
            for hop in range(network.path_start[path], network.path_start[path + 1]):
                link = network.path_link[hop]
                links.flows[link] -= before - left
                links.pull[link] = (
                    0.0 if links.flows[link] == 0 else links.pull[link] - (before - left) * network.weight[path]
                )
            ended += before - left
            lowest_Bps = min(lowest_Bps, level)
            paths.flows[path] = left
            paths.head_due_bytes[path] = paths.queue_due_bytes[begin]
            paths.step[path] = OPEN if left > 0 else EMPTY
            paths.served_bytes[path] = served
            paths.since_s[path] = now_s
            paths.level_Bps[path] = 0.0
            paths.due_s[path] = math.inf
    return ended, lowest_Bps


@inner
def _admit(
    network: _Network, links: _Links, paths: _Paths, now_s: float, path: int, flow: int, size_bytes: float
) -> None:
    """Release a flow now."""
    elapsed_s, rate = now_s - paths.since_s[path], paths.level_Bps[path] * network.weight[path]
    served = paths.served_bytes[path] + rate * elapsed_s if paths.flows[path] > 0 else 0.0
    _push(
        paths.queue_due_bytes, paths.queue_flow, paths.queue_start[path], paths.flows[path], served + size_bytes, flow
    )
    for hop in range(network.path_start[path], network.path_start[path + 1]):
        links.flows[network.path_link[hop]] += 1
        links.pull[network.path_link[hop]] += network.weight[path]
    paths.flows[path] += 1
    paths.head_due_bytes[path] = paths.queue_due_bytes[paths.queue_start[path]]
    paths.step[path] = OPEN
    paths.served_bytes[path] = served
    paths.since_s[path] = now_s
    paths.level_Bps[path] = 0.0
    paths.due_s[path] = math.inf


@inner
def _fill(network: _Network, links: _Links, paths: _Paths, filling: _Filling, now_s: float, kept: int) -> int:
    """Progressive filling from step `kept` on; returns the number of steps."""
    at = kept // STRIDE
    left, settled, settled_pull = (
        filling.left_Bps[at].copy(),
        filling.settled[at].copy(),
        filling.settled_pull[at].copy(),
    )
    heap, full_at = links.heap, links.full_at
    for path in range(len(paths.step)):
        if paths.step[path] >= kept:
            paths.step[path] = OPEN
    length = 0
    for link in range(len(left)):
        if links.flows[link] > settled[link]:
            full_at[link] = left[link] / (links.pull[link] - settled_pull[link])
            heap[length] = link
            length += 1
    for place in range(length // 2 - 1, -1, -1):
        _sift(heap, full_at, place, length)
    level = filling.level_Bps[kept - 1] if kept > 0 else 0.0
    step = kept
    while length > 0:
        tightest = heap[0]
        growing = links.flows[tightest] - settled[tightest]
        now_full_at = math.inf
        if growing > 0:
            now_full_at = left[tightest] / (links.pull[tightest] - settled_pull[tightest])
        if growing == 0 or now_full_at > full_at[tightest]:  # levels only rise, so what is on top may be too low
            full_at[tightest] = now_full_at
            if growing == 0:
                length -= 1
                heap[0] = heap[length]
            _sift(heap, full_at, 0, length)
            continue
        if step % STRIDE == 0 and step // STRIDE < len(filling.left_Bps):
            filling.left_Bps[step // STRIDE] = left
            filling.settled[step // STRIDE] = settled
            filling.settled_pull[step // STRIDE] = settled_pull
        level = max(level, now_full_at)  # levels never fall, except by rounding
        filling.level_Bps[step] = level
        for i in range(network.link_start[tightest], network.link_start[tightest + 1]):
            path = network.paths_on[i]
            if paths.step[path] != OPEN:
                continue
            paths.step[path] = step
            _set_level(network, paths, path, level, now_s)
            flows = paths.flows[path]
            pull = flows * network.weight[path]
            for hop in range(network.path_start[path], network.path_start[path + 1]):
                link = network.path_link[hop]
                left[link] = max(left[link] - level * pull, 0.0)
                settled[link] += flows
                settled_pull[link] += pull
        step += 1
    return step


@inner
def _sift(heap: Ints, full_at: Floats, place: int, length: int) -> None:
    """Let the link at `place` sink to where it belongs in the heap; of equals the smaller is above."""
    if place >= length:
        return
    moved = heap[place]
    while True:
        child = 2 * place + 1
        if child >= length:
            break
        if child + 1 < length and _is_above(full_at, heap[child + 1], heap[child]):
            child += 1
        if not _is_above(full_at, heap[child], moved):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moved


@inner
def _is_above(full_at: Floats, one: int, other: int) -> bool:
    return bool(full_at[one] < full_at[other] or (full_at[one] == full_at[other] and one < other))


@inner
def _set_level(network: _Network, paths: _Paths, path: int, level_Bps: float, now_s: float) -> None:
    if paths.level_Bps[path] != level_Bps:
        weight = network.weight[path]
        paths.served_bytes[path] += paths.level_Bps[path] * weight * (now_s - paths.since_s[path])
        paths.since_s[path] = now_s
        paths.level_Bps[path] = level_Bps
        paths.due_s[path] = now_s + (paths.head_due_bytes[path] - paths.served_bytes[path]) / (level_Bps * weight)


@inner
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


@inner
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
