"""Whether a job kept its own discipline, by what agents logged: no more at a time than its window, and in order.

Each rank is checked alone, by its *tasks* (`echelonflow.model.discipline`). A task starts with the first of its flows
that is released, and ends with the last of those that give its credit back, as this rank's host noticed. Nobody logs
transfers within a host, so that a task which has any is left out. A rank that has nothing on its way may start a task
beyond its window (`echelonflow.job_scheduling.gate`): such starts are not judged. Order is where all of a rank was seen.

A rank of a training program also starts what another rank has begun, as collectives of programs go on only together
(`traffic.live.scheduled`). Such starts are not judged either; the rank that begins is.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from echelonflow.model.dag import Job
from echelonflow.model.discipline import TaskSpec, Window
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.run_record import FlowRecord, RunRecord
from results.analysis.asked import named, ready_s


class TaskSeen(NamedTuple):
    """One task in one iteration, in seconds since the run's zero."""

    ready_s: float
    start_s: float
    end_s: float
    """As early as it may have been where not all of it was seen."""
    iteration: int
    spec: TaskSpec
    follows: bool = False
    """Whether another rank had begun the same before, and this one had to follow."""


@dataclass
class RankSeen:
    """One rank: its tasks that crossed the network alone, in order of their starts, and all flows that it held or could."""

    tasks: list[TaskSeen] = field(default_factory=list)
    released_s: list[float] = field(default_factory=list)
    acked_s: list[float] = field(default_factory=list)
    """Both sorted, and each for itself."""
    whole: bool = True
    """Whether all that the rank did was seen: nothing within its host, and nothing that never came to an end."""

    def is_sending(self, now_s: float) -> bool:
        """Whether it had released flows before `now_s` of which the end was yet to be noticed."""
        return bisect.bisect_left(self.released_s, now_s) > bisect.bisect_right(self.acked_s, now_s)


def of_windows(
    record: RunRecord, acked_s: Mapping[FlowKey, float], jobs: Sequence[Job], programs: Collection[str] = ()
) -> list[str]:
    """In words, where a rank had more under way than its window lets it, or released what had to wait for another.

    `programs` are the jobs that are training programs.
    """
    wrong = [
        f"{job.name}, rank {number}: {told}"
        for job in jobs
        if job.discipline is not None
        for number, rank in ranks_seen(job, record, acked_s, may_follow=job.name in programs).items()
        for told in broken(rank, job.discipline.window)
    ]
    return [f"a job did not keep to its own scheduler: {named(wrong)}; see agents/*.jsonl"] if wrong else []


def ranks_seen(
    job: Job, record: RunRecord, acked_s: Mapping[FlowKey, float], *, may_follow: bool = False
) -> dict[int, RankSeen]:
    """The ranks that have tasks; `acked_s` is when senders noticed that flows had ended. A program's `may_follow` others."""
    flows = {(f.iteration, f.flow): f for f in record.flows if f.job == job.name}
    begun = _first_releases(job, flows.values()) if may_follow else {}
    local = {transfer.name for transfer in job.dag.transfers if job.is_local(transfer)}
    coflow_of = {transfer.name: transfer.coflow for transfer in job.dag.transfers}
    found: dict[int, RankSeen] = defaultdict(RankSeen)
    for spec in () if job.discipline is None else job.discipline.tasks:
        host, rank, inside = job.placement[spec.rank], found[spec.rank], local.intersection(spec.transfers)
        rank.whole = rank.whole and not local.intersection((*spec.transfers, *spec.ends))
        for iteration in range(job.iterations):
            sent = [flows[iteration, name] for name in spec.transfers if (iteration, name) in flows]
            rank.released_s.extend(f.release_s for f in sent)
            rank.acked_s.extend(end_s for f in sent if not math.isnan(end_s := _end_s(f, f.src_host, acked_s)))
            ends_s = [_end_s(flows.get((iteration, name)), host, acked_s) for name in spec.ends if name not in local]
            rank.whole = rank.whole and len(sent) == len(spec.transfers) and not any(map(math.isnan, ends_s))
            if not sent or inside:
                continue
            start_s = min(f.release_s for f in sent)
            # What never ended was not under way for all that is known.
            end_s = max([start_s, *(one_s for one_s in ends_s if not math.isnan(one_s))])
            others = begun.get((iteration, coflow_of[spec.transfers[0]]), {})
            follows = any(at_s < start_s for src, at_s in others.items() if src != spec.rank)
            rank.tasks.append(TaskSeen(min(map(ready_s, sent)), start_s, end_s, iteration, spec, follows))
    for rank in found.values():
        # Of those that start at one moment the core starts the most urgent first.
        rank.tasks.sort(key=lambda task: (task.start_s, task.spec.priority_in(task.iteration), task.iteration))
        rank.released_s.sort()
        rank.acked_s.sort()
    return dict(sorted(found.items()))


def _first_releases(job: Job, flows: Iterable[FlowRecord]) -> dict[tuple[int, str], dict[int, float]]:
    """By iteration and Coflow: when each rank released its first flow of it."""
    transfers = {transfer.name: transfer for transfer in job.dag.transfers}
    found: dict[tuple[int, str], dict[int, float]] = defaultdict(dict)
    for flow in flows:
        transfer = transfers[flow.flow]
        by_rank = found[flow.iteration, transfer.coflow]
        by_rank[transfer.src_rank] = min(by_rank.get(transfer.src_rank, math.inf), flow.release_s)
    return found


def _end_s(flow: FlowRecord | None, host: str, acked_s: Mapping[FlowKey, float]) -> float:
    """When `host` noticed that a flow had ended; not a number where nothing tells."""
    if flow is None:
        return math.nan
    if host == flow.dst_host:
        return flow.finish_s
    return acked_s.get((flow.job, flow.iteration, flow.flow), math.nan)


@dataclass
class _UnderWay:
    """What a rank has started and not ended, as time goes on."""

    ends: list[tuple[float, int]]
    """Heap of (end, size)."""
    size_bytes: int = 0

    def start(self, task: TaskSeen) -> None:
        heapq.heappush(self.ends, (task.end_s, task.spec.size_bytes))
        self.size_bytes += task.spec.size_bytes

    def go_on(self, now_s: float) -> None:
        """What has ended by now gives its credit back, that of this very moment included."""
        while self.ends and self.ends[0][0] <= now_s:
            self.size_bytes -= heapq.heappop(self.ends)[1]


def broken(rank: RankSeen, window: Window) -> Iterator[str]:
    """In words, what one rank started beyond its window, or before others.

    Where nothing may be overdrawn, smaller tasks overtake larger ones, and order is not looked at.
    """
    under_way = _UnderWay([])
    waiting = _Waiting(rank.tasks)
    for place, task in enumerate(rank.tasks):
        under_way.go_on(task.start_s)
        told = _beyond(task, under_way, window)
        first = waiting.first_beside(place)
        if task.follows:
            pass
        elif told is not None and rank.is_sending(task.start_s):
            yield told
        elif told is None and window.overdraw and rank.whole and first is not None:
            yield (
                f"{_started(task)}, and {first.spec.name}, which goes before it, was ready since {first.ready_s:.6f} s"
            )
        under_way.start(task)


def _beyond(task: TaskSeen, under_way: _UnderWay, window: Window) -> str | None:
    """Why a task could not start beside what was under way; None if it could."""
    if window.slots is not None and len(under_way.ends) >= window.slots:
        return f"{_started(task)} beside {len(under_way.ends)} others (slots: {window.slots})"
    credit_bytes = window.credit_bytes
    if credit_bytes is None:
        return None
    taken_bytes = under_way.size_bytes if window.overdraw else under_way.size_bytes + task.spec.size_bytes - 1
    if taken_bytes < credit_bytes:
        return None
    return f"{_started(task)} beside {under_way.size_bytes} bytes (credit: {credit_bytes})"


def _started(task: TaskSeen) -> str:
    return f"{task.spec.name} of iteration {task.iteration} started at {task.start_s:.6f} s"


class _Waiting:
    """The tasks of a rank that are ready and not started, as it starts one after the other."""

    def __init__(self, tasks: Sequence[TaskSeen]) -> None:
        self._tasks = tasks
        self._arriving = sorted(range(len(tasks)), key=lambda place: tasks[place].ready_s)
        self._arrived = 0
        self._waiting: list[tuple[int, int]] = []
        """Heap of (priority, place); what has started since is taken out when it comes first."""

    def first_beside(self, place: int) -> TaskSeen | None:
        """What was ready before this task started, started later, and goes before it; to be asked in order of starts."""
        tasks = self._tasks
        task = tasks[place]
        while self._arrived < len(tasks) and tasks[self._arriving[self._arrived]].ready_s < task.start_s:
            other = self._arriving[self._arrived]
            heapq.heappush(self._waiting, (tasks[other].spec.priority_in(tasks[other].iteration), other))
            self._arrived += 1
        while self._waiting and self._waiting[0][1] <= place:
            heapq.heappop(self._waiting)
        if not self._waiting or self._waiting[0][0] >= task.spec.priority_in(task.iteration):
            return None
        first = tasks[self._waiting[0][1]]
        return first if first.start_s > task.start_s else None
