"""The critical path of a job through a recorded run: what its time was spent on, back from the end of an iteration.

Each step on it is the one that ended last of those that the next one waited for. The path covers every moment once.
Steps that ended at the same time could each be on it: the first in the order of the DAG is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.dag import Job, Transfer
from echelonflow.records.run_columns import ComputeColumns, FlowColumns
from echelonflow.records.run_record import RunRecord

Kind = Literal["computation", "flow", "in job", "gap"]
"""What a job's path did: compute; send; hold a flow back by its own scheduler; or nothing, though all that the next step
waits for had ended."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a path, from `begin_s` to `end_s`; of a flow also its row in the record."""

    kind: Kind
    begin_s: float
    end_s: float
    row: int = -1


@dataclass(frozen=True, eq=False)
class JobTimes:
    """When the steps of a job began and ended: a row for each iteration, a column for each step of its DAG.

    Not a number where nothing is recorded, as of transfers within a host.
    """

    job: Job
    begin_s: Floats
    """Of a flow: when it was released."""
    ready_s: Floats
    """When a flow could have been released, where its job held it back; elsewhere when the step began."""
    finish_s: Floats
    row: Ints
    """Of a flow: its row in the record; of others -1."""

    def path(self, last: int, from_s: float) -> Iterator[Stretch]:
        """The path from the end of the iterations up to `last` back to `from_s`, the latest part first.

        Nothing where none of their steps has ended.
        """
        ended = np.where(np.isnan(self.finish_s[: last + 1]), -math.inf, self.finish_s[: last + 1])
        iteration, place = divmod(int(ended.argmax()), ended.shape[1])
        now_s = float(ended[iteration, place])
        at: tuple[int, int] | None = (iteration, place)
        while now_s > from_s:
            if at is None:
                yield Stretch("gap", from_s, now_s)
                return
            for part in self._parts(*at, now_s):
                now_s = part.begin_s
                if part.end_s > part.begin_s and part.end_s > from_s:
                    yield Stretch(part.kind, max(part.begin_s, from_s), part.end_s, part.row)
            at, before_s = self._before(*at)
            if before_s < now_s and now_s > from_s:
                yield Stretch("gap", max(before_s, from_s), now_s)
            now_s = min(now_s, before_s)

    def _parts(self, iteration: int, place: int, until_s: float) -> list[Stretch]:
        """What a step did up to a moment, the latest first."""
        begin_s = min(float(self.begin_s[iteration, place]), until_s)
        row = int(self.row[iteration, place])
        if row < 0:
            return [Stretch("computation", begin_s, until_s)]
        ready_s = min(float(self.ready_s[iteration, place]), begin_s)
        return [Stretch("flow", begin_s, until_s, row), Stretch("in job", ready_s, begin_s)]

    def _before(self, iteration: int, place: int) -> tuple[tuple[int, int] | None, float]:
        """The recorded step that a step waited for longest, and when it ended; the job's start where there is none."""
        best, best_s = None, self.job.start_s
        seen = set()
        todo = self._waits_for(iteration, place)
        while todo:
            each = todo.pop(0)
            if each in seen:
                continue
            seen.add(each)
            finish_s = float(self.finish_s[each])
            if math.isnan(finish_s):
                if each[1] in self._local:  # it ends with what it waits for
                    todo += self._waits_for(*each)
            elif best is None or finish_s > best_s:
                best, best_s = each, finish_s
        return best, best_s

    def _waits_for(self, iteration: int, place: int) -> list[tuple[int, int]]:
        found = [(iteration, each) for each in self.job.dag.places_before[place]]
        if iteration:
            found += [(iteration - 1, each) for each in self._previous[place]]
        return found

    @cached_property
    def _local(self) -> frozenset[int]:
        steps = enumerate(self.job.dag.steps)
        return frozenset(place for place, step in steps if isinstance(step, Transfer) and self.job.is_local(step))

    @cached_property
    def _previous(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.job.dag.steps]
        for earlier, later in self.job.dag.next_iteration:
            found[self.job.dag.place[later]].append(self.job.dag.place[earlier])
        return found


def times_of(record: RunRecord, jobs: Sequence[Job]) -> list[JobTimes]:
    """When the steps of each job began and ended, by a simulated run's record (ValueError for one of packets)."""
    computes, flows = ComputeColumns.of(record.computes), FlowColumns.of(record.flows)
    found = []
    places = {job.name: number for number, job in enumerate(jobs)}
    job_of_flow = np.array([places[s.job] for s in flows.steps], np.int64)
    place_of_flow = np.array([jobs[places[s.job]].dag.place[s.flow] for s in flows.steps], np.int64)
    job_of_compute = np.array([places[s.job] for s in computes.steps], np.int64)
    place_of_compute = np.array([jobs[places[s.job]].dag.place[s.step] for s in computes.steps], np.int64)
    flow_rows = _by_job(job_of_flow[flows.step], len(jobs))
    compute_rows = _by_job(job_of_compute[computes.step], len(jobs))
    release_s, flow_ready_s, flow_finish_s = flows.release_s, flows.ready_s, flows.finish_s
    flow_ready_s = np.where(np.isnan(flow_ready_s), release_s, flow_ready_s)
    compute_begin_s, compute_finish_s = computes.start_s, computes.finish_s
    for number, job in enumerate(jobs):
        shape = (job.iterations, len(job.dag.steps))
        begin_s, ready_s, finish_s = (np.full(shape, np.nan) for _ in range(3))
        row = np.full(shape, -1)
        mine = flow_rows[number]
        at = flows.iteration[mine], place_of_flow[flows.step[mine]]
        begin_s[at], ready_s[at], finish_s[at], row[at] = (
            release_s[mine], flow_ready_s[mine], flow_finish_s[mine], mine,
        )  # fmt: skip
        mine = compute_rows[number]
        at = computes.iteration[mine], place_of_compute[computes.step[mine]]
        begin_s[at], ready_s[at], finish_s[at] = compute_begin_s[mine], compute_begin_s[mine], compute_finish_s[mine]
        found.append(JobTimes(job, begin_s, ready_s, finish_s, row))
    return found


def _by_job(job: Ints, jobs: int) -> list[Ints]:
    """The rows of each job."""
    order = np.argsort(job, kind="stable")
    return np.split(order, np.searchsorted(job[order], np.arange(1, jobs)))
