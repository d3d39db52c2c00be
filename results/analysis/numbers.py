"""What ended when in a run, in arrays of numbers: the same of records that are objects (packets) or columns (simulation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.dag import Job
from echelonflow.records.run_columns import ComputeColumns, FlowColumns
from echelonflow.records.run_record import ComputeRecord, FlowRecord, RunRecord


@dataclass(frozen=True, eq=False)
class FlowNumbers:
    """The flows of a run, n rows each; seconds since the run's zero."""

    groups: tuple[tuple[str, str, str], ...]
    """(job, group, kind) of every EchelonFlow."""
    group: Ints
    """Places in `groups`."""
    iteration: Ints
    offset_s: Floats
    release_s: Floats
    finish_s: Floats
    """Not a number while unfinished."""

    @staticmethod
    def of(flows: Sequence[FlowRecord]) -> FlowNumbers:
        """The numbers of `flows`, in their order."""
        places: dict[tuple[str, str, str], int] = {}
        if isinstance(flows, FlowColumns):
            own = [places.setdefault((s.job, s.group, s.kind), len(places)) for s in flows.steps]
            offsets_s = np.array([s.offset_s for s in flows.steps], np.float64)
            step = flows.step
            of_step = np.array(own, np.int64)
            return FlowNumbers(
                tuple(places), of_step[step], flows.iteration, offsets_s[step], flows.release_s, flows.finish_s
            )
        own = [places.setdefault((f.job, f.group, f.kind), len(places)) for f in flows]
        times_s = np.array([(f.offset_s, f.release_s, f.finish_s) for f in flows], np.float64).reshape(-1, 3)
        iteration = np.array([f.iteration for f in flows], np.int64)
        return FlowNumbers(tuple(places), np.array(own, np.int64), iteration, *times_s.T)


@dataclass(frozen=True, eq=False)
class GroupTimes:
    """Every EchelonFlow of every iteration of which a flow was released; m of them."""

    numbers: FlowNumbers
    group: Ints
    """Places in the groups of `numbers`, m."""
    iteration: Ints
    """m."""
    reference_s: Floats
    """Release of the head flow, which has the least offset of those released, less that offset; m."""
    of_flow: Ints
    """Which of the m each flow belongs to, n."""

    @staticmethod
    def of(numbers: FlowNumbers) -> GroupTimes:
        """Found by sorting once: the head is the first flow of its group by offset, then by release."""
        width = int(numbers.iteration.max(initial=0)) + 1
        keys, of_flow = np.unique(numbers.group * width + numbers.iteration, return_inverse=True)
        order = np.lexsort((numbers.release_s, numbers.offset_s, of_flow))
        first = order[np.searchsorted(of_flow[order], np.arange(len(keys)))]
        reference_s = numbers.release_s[first] - numbers.offset_s[first]
        return GroupTimes(numbers, keys // width, keys % width, reference_s, of_flow)

    @property
    def ideal_finish_s(self) -> Floats:
        """Ideal finish time of every flow, n."""
        ideal_s: Floats = self.reference_s[self.of_flow] + self.numbers.offset_s
        return ideal_s

    def flows(self) -> Ints:
        """How many flows of each were released, m."""
        return np.bincount(self.of_flow, minlength=len(self.group))

    def latest_s(self) -> tuple[Floats, Floats]:
        """The last finish of each, and its largest tardiness, m each; not a number while one of its flows is unfinished."""
        numbers = self.numbers
        late_s = numbers.finish_s - self.reference_s[self.of_flow] - numbers.offset_s
        return self._largest(numbers.finish_s), self._largest(late_s)

    def _largest(self, of_flows: Floats) -> Floats:
        found = np.full(len(self.group), -np.inf)
        with np.errstate(invalid="ignore"):  # what is not a number is kept
            np.maximum.at(found, self.of_flow, of_flows)
        return found


def last_ends_s(record: RunRecord, jobs: Sequence[Job]) -> Mapping[str, list[float]]:
    """When the last step of each iteration ended, by job: up to the first iteration in which a step has not.

    Transfers within a host have no record. They take no time, so they end with what they wait for.
    """
    begin = np.cumsum([0, *(job.iterations for job in jobs)])
    ended = np.zeros(begin[-1], np.int64)
    last_s = np.repeat([job.start_s for job in jobs], [job.iterations for job in jobs])
    for records in (record.computes, record.flows):
        row, finish_s = _by_iteration(records, jobs, begin)
        ended += np.bincount(row, minlength=len(ended))
        np.maximum.at(last_s, row, finish_s)
    found = {}
    for job, first, end in zip(jobs, begin, begin[1:], strict=False):
        steps = sum(not job.is_local(transfer) for transfer in job.dag.transfers) + len(job.dag.computes)
        short = np.flatnonzero(ended[first:end] < steps)
        found[job.name] = last_s[first : first + short[0] if len(short) else end].tolist()
    return found


def _by_iteration(
    records: Sequence[ComputeRecord] | Sequence[FlowRecord], jobs: Sequence[Job], begin: Ints
) -> tuple[Ints, Floats]:
    """(Row of the iteration among those of all jobs, finish) of all that ended."""
    place = {job.name: i for i, job in enumerate(jobs)}
    if isinstance(records, ComputeColumns | FlowColumns):
        job = np.array([place.get(step.job, -1) for step in records.steps], np.int64)[records.step]
        iteration, finish_s = records.iteration, records.finish_s
    else:
        job = np.array([place.get(each.job, -1) for each in records], np.int64)
        iteration = np.array([each.iteration for each in records], np.int64)
        finish_s = np.array([each.finish_s for each in records], np.float64)
    known = (job >= 0) & ~np.isnan(finish_s)
    return begin[job[known]] + iteration[known], finish_s[known]
