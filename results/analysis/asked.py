"""What the jobs of an experiment ask of a run, held against what its records tell: steps, iterations, flows, times.

Records that tell of what no job has are not counted: a table must not be made of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Bools, Ints
from echelonflow.model.dag import Job
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.blame import Blame
from echelonflow.records.link_load import LinkLoad
from echelonflow.records.run_columns import ComputeColumns, FlowColumns
from echelonflow.records.run_record import ComputeRecord, FlowRecord, RunRecord

NAMED_AT_MOST = 3
"""Things that a message names of all that are wrong."""
MOST_STEPS = 20_000_000
"""Steps of all iterations of an experiment that is analysed: with more, a number in its files was garbled."""
MOST_CARRIED = 1e24
"""Bytes that no link carries in a run."""
MOST_S = 1e9
"""Times beyond 30 years from a run's zero are none."""


def named(what: Sequence[str]) -> str:
    """The first of many things, and how many more there are."""
    more = len(what) - NAMED_AT_MOST
    return ", ".join(what[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def first_of(what: list[str]) -> list[str]:
    """The first of many findings, and as the last one how many more there are."""
    more = len(what) - NAMED_AT_MOST
    return what[:NAMED_AT_MOST] + ([f"{more} more"] if more > 0 else [])


def check_size(jobs: Sequence[Job]) -> None:
    """InputError where the jobs have more steps, over all iterations, than any run has."""
    steps = sum(job.iterations * len(job.dag.steps) for job in jobs)
    if steps > MOST_STEPS:
        raise InputError(f"its jobs have {steps} steps in all iterations; {MOST_STEPS} are analysed at most")
    for job in jobs:
        largest_bytes = max((transfer.size_bytes for transfer in job.dag.transfers), default=0)
        if job.iterations * largest_bytes >= 1 << 63:
            raise InputError(f"job {job.name}: a flow of {largest_bytes} bytes {job.iterations} times has over 63 bits")


class AskedFlow(NamedTuple):
    """What a job says of one flow that crosses the network."""

    group: str
    src_host: str
    dst_host: str
    size_bytes: int
    offset_s: float
    coflow: str


@dataclass(frozen=True)
class Asked:
    """The steps that cross nothing and the flows that cross the network, of all jobs."""

    jobs: tuple[Job, ...]

    @cached_property
    def iterations(self) -> dict[str, int]:
        return {job.name: job.iterations for job in self.jobs}

    @cached_property
    def ranks(self) -> dict[tuple[str, str], int]:
        """Rank of every (job, computation)."""
        return {(job.name, step.name): step.rank for job in self.jobs for step in job.dag.computes}

    @cached_property
    def duration_s(self) -> dict[tuple[str, str], float]:
        """How long every (job, computation) is to take."""
        return {(job.name, step.name): step.duration_s for job in self.jobs for step in job.dag.computes}

    @cached_property
    def kinds(self) -> dict[tuple[str, str], str]:
        """Kind of every (job, computation)."""
        return {(job.name, step.name): step.kind for job in self.jobs for step in job.dag.computes}

    @cached_property
    def flows(self) -> dict[tuple[str, str], AskedFlow]:
        """Every (job, flow) that crosses the network."""
        return {
            (job.name, step.name): AskedFlow(
                job.dag.group_of[step.name].name,
                *job.hosts_of(step),
                step.size_bytes,
                job.dag.offset_s[step.name],
                step.coflow,
            )
            for job in self.jobs
            for step in job.dag.transfers
            if not job.is_local(step)
        }

    @cached_property
    def computes_asked(self) -> int:
        return sum(job.iterations * len(job.dag.computes) for job in self.jobs)

    @cached_property
    def flows_asked(self) -> int:
        return sum(self.iterations[job] for job, _ in self.flows)

    def knows(self, job: str, iteration: int) -> bool:
        return 0 <= iteration < self.iterations.get(job, 0)


def why_no_compute(asked: Asked, c: ComputeRecord) -> str | None:
    """Why a record cannot be of these jobs; None if it can."""
    if not asked.knows(c.job, c.iteration) or (c.job, c.step) not in asked.ranks:
        return f"tells of {c.job}/{c.step} of iteration {c.iteration}, which no job has"
    if c.rank != asked.ranks[c.job, c.step] or c.kind != asked.kinds[c.job, c.step]:
        return f"tells of {c.job}/{c.step} as {c.kind!r} on rank {c.rank}; the job has it otherwise"
    if not -MOST_S < c.start_s <= c.finish_s < MOST_S or not abs(c.late_s) < MOST_S:
        return f"tells of {c.job}/{c.step} of iteration {c.iteration} from {c.start_s} to {c.finish_s} s"
    return None


def why_no_flow(asked: Asked, f: FlowRecord) -> str | None:
    """Why a record cannot be of these jobs; None if it can."""
    if not asked.knows(f.job, f.iteration) or (f.job, f.flow) not in asked.flows:
        return f"tells of flow {f.job}/{f.flow} of iteration {f.iteration}, which no job has"
    if (f.group, f.src_host, f.dst_host, f.size_bytes, f.offset_s, f.coflow) != asked.flows[f.job, f.flow]:
        return f"tells of flow {f.job}/{f.flow} otherwise than its job: group, hosts, bytes, offset or Coflow"
    if (
        not all(abs(time_s) < MOST_S for time_s in (f.release_s, f.start_s, f.ready_s or 0.0))
        or abs(f.finish_s) >= MOST_S
    ):  # which may be nan
        return f"tells of flow {f.job}/{f.flow} of iteration {f.iteration} at times that cannot be"
    return None


def checked(record: RunRecord, asked: Asked, where: str) -> RunRecord:
    """`record` as it is (InputError, beginning with `where`, where it tells of what no job has, or of anything twice)."""
    computes, flows = record.computes, record.flows
    if isinstance(computes, ComputeColumns):
        computes = _doubtful_computes(computes, asked)
    if isinstance(flows, FlowColumns):
        flows = _doubtful_flows(flows, asked)
    for c in computes:
        _refuse(where, why_no_compute(asked, c))
    for f in flows:
        _refuse(where, why_no_flow(asked, f))
    _refuse(where, strange_blame(record.blame, asked))
    _refuse(where, strange_loads(record.links))
    for twice in (
        repeated((c.job, c.iteration, c.step) for c in computes),
        repeated((f.job, f.iteration, f.flow) for f in flows),
    ):
        if twice:
            raise InputError(f"{where}: tells twice of {named(twice)}")
    return record


def strange_blame(blamed: Sequence[Blame], asked: Asked) -> str | None:
    """Why it cannot be what these jobs spent their time on; None if it can."""
    for each in blamed:
        if not {each.job, each.other or each.job} <= asked.iterations.keys() or not abs(each.blamed_s) < MOST_S:
            return f"blames {each.cause} for {each.blamed_s} s of job {each.job!r}, which cannot be"
        if not each.link.isprintable():
            return "blames a link whose name holds characters that cannot be printed"
    return None


def strange_loads(loads: Sequence[LinkLoad]) -> str | None:
    """Why it cannot be what links carried; None if it can."""
    for each in loads:
        numbers = (each.carried_bytes, each.mean_share, each.peak_share or 0.0)
        if not (
            each.link.isprintable() and each.kind.isprintable() and all(0 <= one < MOST_CARRIED for one in numbers)
        ):
            return f"tells that a link carried {each.carried_bytes} bytes, which cannot be"
    return None


def _doubtful_computes(computes: ComputeColumns, asked: Asked) -> list[ComputeRecord]:
    """The computations that are to be looked at one by one: all others are in order."""
    steps = computes.steps
    strange = [(s.rank, s.kind) != (asked.ranks.get((s.job, s.step)), asked.kinds.get((s.job, s.step))) for s in steps]
    start_s, finish_s = computes.start_s, computes.finish_s
    fine = (start_s > -MOST_S) & (start_s <= finish_s) & (finish_s < MOST_S) & (abs(computes.late_s) < MOST_S)
    rows = _doubtful(computes.step, computes.iteration, [(s.job, s.step) for s in steps], strange, fine, asked)
    return [computes[row] for row in rows]


def _doubtful_flows(flows: FlowColumns, asked: Asked) -> list[FlowRecord]:
    """The same of flows."""
    steps = flows.steps
    strange = [
        (s.group, s.src_host, s.dst_host, s.size_bytes, s.offset_s, s.coflow) != asked.flows.get((s.job, s.flow))
        for s in steps
    ]
    fine = (abs(flows.release_s) < MOST_S) & (abs(flows.start_s) < MOST_S) & ~(abs(flows.finish_s) >= MOST_S)
    fine &= ~(abs(flows.ready_s) >= MOST_S)
    rows = _doubtful(flows.step, flows.iteration, [(s.job, s.flow) for s in steps], strange, fine, asked)
    return [flows[row] for row in rows]


def _doubtful(
    step: Ints, iteration: Ints, names: Sequence[tuple[str, str]], strange: Sequence[bool], fine: Bools, asked: Asked
) -> list[int]:
    """Rows that are not `fine`, are of a step or an iteration that no job has, or are there more than once."""
    most = np.array([asked.iterations.get(job, 0) for job, _ in names], np.int64)[step]
    known = fine & ~np.array(strange, bool)[step] & (iteration >= 0) & (iteration < most)
    place = {name: at for at, name in enumerate(dict.fromkeys(names))}
    width = max(asked.iterations.values(), default=0) + 1
    key = np.array([place[name] for name in names], np.int64)[step] * width + np.clip(iteration, 0, width - 1)
    _, of_row, count = np.unique(key, return_inverse=True, return_counts=True)
    rows: list[int] = np.flatnonzero(~known | (count[of_row] > 1)).tolist()
    return rows


def _refuse(where: str, why: str | None) -> None:
    if why is not None:
        raise InputError(f"{where}: {why}")


def repeated(keys: Iterable[FlowKey]) -> list[str]:
    """In words, the steps that are there more than once."""
    return [words_of(key) for key, count in Counter(keys).items() if count > 1]


def missing_computes(record: RunRecord, asked: Asked) -> list[str]:
    """In words, the computations of all iterations that have no record; `record` is `checked`."""
    if len(record.computes) == asked.computes_asked and isinstance(record.computes, ComputeColumns):
        return []  # none is there twice (`checked`)
    there = {(c.job, c.iteration, c.step) for c in record.computes}
    return _missing(asked, there, asked.ranks)


def missing_flows(record: RunRecord, asked: Asked) -> list[str]:
    """In words, the flows of all iterations that have no record, or none that has ended; `record` is `checked`."""
    flows = record.flows
    if len(flows) == asked.flows_asked and isinstance(flows, FlowColumns) and not np.isnan(flows.finish_s).any():
        return []  # none is there twice (`checked`)
    there = {(f.job, f.iteration, f.flow) for f in flows if not math.isnan(f.finish_s)}
    return _missing(asked, there, asked.flows)


def _missing(asked: Asked, there: set[FlowKey], steps: Iterable[tuple[str, str]]) -> list[str]:
    return [
        words_of((job, iteration, step))
        for job, step in steps
        for iteration in range(asked.iterations[job])
        if (job, iteration, step) not in there
    ]


def held_names(job: Job) -> frozenset[str]:
    """The transfers that a job may hold back after they are ready."""
    tasks = () if job.discipline is None else job.discipline.tasks
    return frozenset(name for task in tasks for name in task.transfers)


def ready_s(flow: FlowRecord) -> float:
    """When a flow could have been released."""
    return flow.release_s if flow.ready_s is None else flow.ready_s


def words_of(key: FlowKey) -> str:
    """One iteration of a step, in words."""
    job, iteration, step = key
    return f"{job}/{step} of iteration {iteration}"
