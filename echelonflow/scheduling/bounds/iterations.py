"""A lower bound on iteration times: what computation, link loads and competition make unavoidable."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats
from echelonflow.model.dag import Compute, Job, Transfer
from echelonflow.model.network import Network
from echelonflow.model.progress import StepKey
from echelonflow.scheduling.bounds.flow_set import FlowSet, compressed
from echelonflow.scheduling.bounds.several import CLOSE, INTERVALS, sum_of_tardiness
from echelonflow.wire.declare import paths_of

MOST_JOINT_FLOWS = 120
"""Flows that the joint linear program takes; more are first merged by job, iteration and path."""


@dataclass(frozen=True)
class IterationBound:
    """Seconds that no scheduler can beat."""

    mean_s: float
    """Mean over jobs of the mean duration of a job's iterations, all jobs together."""
    alone_s: dict[str, float]
    """Mean duration of each job's iterations even if it had the network for itself."""


@dataclass(frozen=True)
class _Demand:
    """A flow on its way through its job: not before `head_s`, and `tail_s` must follow its end."""

    key: StepKey
    path: tuple[int, ...]
    size_bytes: float
    head_s: float
    tail_s: float


def iteration_bound(
    jobs: Sequence[Job],
    network: Network,
    intervals: int = INTERVALS,
    *,
    programs: int = 1,
    enough_s: float = math.inf,
) -> IterationBound:
    """Bounds on iteration times of `jobs` on `network`, whatever the scheduler; seconds.

    Each job alone: earliest starts along its DAG, all iterations, where a transfer takes at least its size over its
    slowest link. A step that waits for several flows of a link waits at least as long as one machine with heads and
    tails would take (Jackson's preemptive schedule; Carlier, EJOR 1982). There a flow cannot start before its head,
    holds the link for size / capacity, and its tail must follow. Together: a job's end is at least each of its flows'
    finish plus that flow's tail, which is a tardiness with due time minus the tail. So the bound of `several` holds for
    the weighted sum of the jobs' ends, with earliest starts as releases. `programs` linear programs are spent on it at most,
    and none more where the mean is within 0.1 % of `enough_s`, which some schedule reaches. And each link alone: it
    carries the bytes of all jobs one after the other at best. The weighted sum of the moments at which it is done with each job is
    least in order of time over weight (Smith, Naval Research Logistics Quarterly 1956).

    A job's end is that of its last step, transfers included (`echelonflow.model.iterations`).
    """
    path_of = paths_of(jobs, network)
    found = [_alone(job, network, path_of) for job in jobs]
    alone = {job.name: (end_s - job.start_s) / job.iterations for job, (end_s, _) in zip(jobs, found, strict=True)}
    mean_alone_s = sum(alone.values()) / len(jobs)
    joint = _joint(jobs, found, network)
    if joint is None:
        return IterationBound(mean_alone_s, alone)
    starts = sum(job.start_s / job.iterations for job in jobs)
    enough = enough_s * len(jobs) + starts
    ends = _link_by_link(jobs, found, network)
    if ends < enough * (1 - CLOSE):
        ends = max(ends, sum_of_tardiness(joint, intervals, programs=programs, enough_s=enough, exact=False).total_s)
    return IterationBound(max((ends - starts) / len(jobs), mean_alone_s), alone)


def _link_by_link(jobs: Sequence[Job], found: Sequence[tuple[float, list[_Demand]]], network: Network) -> float:
    """The least weighted sum of the jobs' ends that the load of one link implies; of the link for which it is most."""
    held: dict[int, dict[int, list[tuple[float, float, float]]]] = defaultdict(lambda: defaultdict(list))
    for number, (_, demands) in enumerate(found):
        for d in demands:
            for link in d.path:
                held[link][number].append((d.head_s, d.size_bytes / network.capacity_Bps[link], d.tail_s))
    alone_s = [end_s / job.iterations for job, (end_s, _) in zip(jobs, found, strict=True)]
    most_s = sum(alone_s)
    for of_job in held.values():
        now_s = min(head_s for each in of_job.values() for head_s, _, _ in each)
        total_s = sum(each for number, each in enumerate(alone_s) if number not in of_job)
        takes_s = {number: sum(hold_s for _, hold_s, _ in each) for number, each in of_job.items()}
        for number in sorted(takes_s, key=lambda number: takes_s[number] * jobs[number].iterations):
            now_s += takes_s[number]
            tail_s = min(tail_s for _, _, tail_s in of_job[number])
            total_s += (now_s + tail_s) / jobs[number].iterations
        most_s = max(most_s, total_s)
    return most_s


def _joint(jobs: Sequence[Job], found: Sequence[tuple[float, list[_Demand]]], network: Network) -> FlowSet | None:
    """All flows that some job's end waits for, as groups whose tardiness is the job's end; None without flows."""
    merge = sum(len(demands) for _, demands in found) > MOST_JOINT_FLOWS
    rows: list[tuple[float, float, float, int, tuple[int, ...]]] = []
    for number, (_, demands) in enumerate(found):
        if not merge:
            rows += [(d.size_bytes, d.head_s, -d.tail_s, number, d.path) for d in demands]
            continue
        together: dict[tuple[int, tuple[int, ...]], list[_Demand]] = {}
        for d in demands:
            together.setdefault((d.key[0], d.path), []).append(d)
        for (_, path), same in together.items():
            whole_bytes, head_s = sum(d.size_bytes for d in same), min(d.head_s for d in same)
            rows.append((whole_bytes, head_s, -min(d.tail_s for d in same), number, path))
    if not rows:
        return None
    size, head, due, member, paths = zip(*rows, strict=True)
    weight = np.array([1 / job.iterations for job in jobs])
    alone_s = np.array([end_s for end_s, _ in found])
    return FlowSet(
        np.array(size), np.array(head), np.array(due), np.array(member, np.int64), *compressed(paths),
        np.array(network.capacity_Bps), weight, alone_s, tuple(job.name for job in jobs),
    )  # fmt: skip


def _alone(
    job: Job, network: Network, path_of: Mapping[tuple[str, str], tuple[int, ...]]
) -> tuple[float, list[_Demand]]:
    """Least end of all iterations if the job were alone, and its flows, for which that end waits."""
    steps = [(k, name) for k in range(job.iterations) for name in job.dag.order]
    place = {key: i for i, key in enumerate(steps)}
    paths: dict[int, tuple[int, ...]] = {}
    own_s = np.zeros(len(steps))
    for i, (_, name) in enumerate(steps):
        step = job.dag.by_name[name]
        if isinstance(step, Compute):
            own_s[i] = step.duration_s
        elif not job.is_local(step):
            paths[i] = path_of[job.name, name]
            own_s[i] = step.size_bytes / min(network.capacity_Bps[link] for link in paths[i])
    last = [place[key] for key in _awaited_by_nothing(job)]
    start_s = np.full(len(steps) + 1, job.start_s)
    follows = np.full((len(steps) + 1, len(steps)), -np.inf)  # least seconds from the end of a column to a row's start
    for i in range(len(steps) + 1):
        before = last if i == len(steps) else _before(job, steps[i], place)
        for b in before:
            start_s[i] = max(start_s[i], start_s[b] + own_s[b])
            np.maximum(follows[i], follows[b] + own_s[b], out=follows[i])
            follows[i, b] = max(follows[i, b], 0.0)
        if len(before) > 1 and (i == len(steps) or any(b in paths for b in before)):
            start_s[i] = max(start_s[i], _link_bound_s(job, steps, paths, start_s, follows[i], network))
    demands = [
        _Demand(steps[i], path, _size(job, steps[i]), float(start_s[i]), float(follows[-1, i]))
        for i, path in paths.items()
        if follows[-1, i] > -np.inf
    ]
    return float(start_s[-1]), demands


def _awaited_by_nothing(job: Job) -> Iterator[StepKey]:
    """The steps of all iterations that no other step waits for: with the last of them the job ends."""
    for name in job.dag.order:
        if not job.dag.followers[name]:
            first = 0 if not job.dag.next_followers[name] else job.iterations - 1
            yield from ((iteration, name) for iteration in range(first, job.iterations))


def _before(job: Job, key: StepKey, place: dict[StepKey, int]) -> list[int]:
    iteration, name = key
    before = [place[iteration, other] for other in job.dag.by_name[name].after]
    if iteration:
        before += [place[iteration - 1, other] for other in job.dag.previous[name]]
    return before


def _size(job: Job, key: StepKey) -> float:
    step = job.dag.by_name[key[1]]
    assert isinstance(step, Transfer)
    return float(step.size_bytes)


def _link_bound_s(
    job: Job, steps: Sequence[StepKey], paths: dict[int, tuple[int, ...]], start_s: Floats, follows: Floats,
    network: Network,
) -> float:  # fmt: skip
    """The largest over links of the one-machine bound of the flows that a step waits for."""
    demands: dict[int, list[tuple[float, float, float]]] = {}
    for i, path in paths.items():
        if follows[i] > -np.inf:
            for link in path:
                hold_s = _size(job, steps[i]) / network.capacity_Bps[link]
                demands.setdefault(link, []).append((float(start_s[i]), float(follows[i]), hold_s))
    return max((one_machine_s(held) for held in demands.values()), default=0.0)


def one_machine_s(held: Sequence[tuple[float, float, float]]) -> float:
    """Least moment by which all of (head, tail, duration), preemptive on one machine, have ended with their tails.

    Jackson's preemptive schedule: always the job with the longest tail. Optimal; O(n log n).
    """
    coming = sorted(held)
    waiting: list[tuple[float, float]] = []  # (-tail, what is left)
    now_s, end_s, i = 0.0, 0.0, 0
    while i < len(coming) or waiting:
        if not waiting:
            now_s = max(now_s, coming[i][0])
        while i < len(coming) and coming[i][0] <= now_s:
            heapq.heappush(waiting, (-coming[i][1], coming[i][2]))
            i += 1
        tail, left_s = heapq.heappop(waiting)
        next_s = coming[i][0] if i < len(coming) else np.inf
        if now_s + left_s <= next_s:
            now_s += left_s
            end_s = max(end_s, now_s - tail)
        else:
            heapq.heappush(waiting, (tail, left_s - (next_s - now_s)))
            now_s = next_s
    return float(end_s)
