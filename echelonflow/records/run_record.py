"""What a run leaves behind, the same from the simulator and from the emulation.

All times are seconds since the run's own zero.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from echelonflow.errors import InputError
from echelonflow.model.dag import Job
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.blame import Blame
from echelonflow.records.link_load import LinkLoad


@dataclass(frozen=True, slots=True)
class ComputeRecord:
    """One compute step as it happened; `late_s` is how much longer than asked it took to end."""

    job: str
    iteration: int
    step: str
    kind: str
    rank: int
    host: str
    start_s: float
    finish_s: float
    late_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """One flow as its endpoints saw it.

    `start_s` is the first byte handed to TCP, `finish_s` the last byte received. `sent_bytes` and
    `received_bytes` are counted by the two ends; `retransmissions` is TCP's own count of segments.
    """

    job: str
    iteration: int
    flow: str
    group: str
    kind: str
    coflow: str
    src_host: str
    dst_host: str
    src_port: int
    dst_port: int
    size_bytes: int
    offset_s: float
    release_s: float
    start_s: float
    finish_s: float
    sent_bytes: int
    received_bytes: int
    dscp: int | None = None
    """The mark that was last decided (emulation only)."""
    retransmissions: int = 0
    ahead: bool | None = None
    """Whether it was decided on before its release; None where nobody said."""
    held: bool = False
    """Whether it was to wait by that decision."""
    corrected_s: float | None = None
    """How long after its release something else was in force, as the decision at the release said; None if nothing was."""
    ready_s: float | None = None
    """When all that it waits for had ended, where its own job held it back from then until its release; None elsewhere."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision: when, on what, how long it took, what it changed."""

    time_s: float
    """When it was taken. From the coordinator."""
    trigger: str
    """Events since the decision before, such as `release job/flow#0`; `expiry` where its answer ran out. From the coordinator."""
    flows: int
    """Flows that were released and unfinished, or supposed to be. From the snapshot."""
    groups: int
    """EchelonFlows to which they belong. From the snapshot."""
    digest: str
    """Hash of the snapshot's arrays: equal digests mean equal inputs; empty where an answer was remembered. From the snapshot."""
    policy_ms: float
    """Time that the policy took. From the coordinator."""
    total_ms: float
    """Time from the first of these events to the instructions. From the coordinator."""
    changed: tuple[tuple[str, int, str, int, float | None], ...] = ()
    """(job, iteration, flow, dscp, rate in bytes/s or null) of every setting that changed. From the coordinator."""
    number: int = 0
    """Counted over all decisions of the controller, 0 where it was not; agents are told it. From the coordinator."""
    ahead: bool = False
    """Whether it supposes releases that have not happened yet: what it changes holds from the release on. From the coordinator."""
    after: tuple[tuple[str, int, str] | None, ...] = ()
    """Of each of `changed` the (job, iteration, flow) from whose end on it holds, null where it waits for none; empty where none does. From the coordinator."""
    corrected: tuple[tuple[str, int, str], ...] = ()
    """(job, iteration, flow) of flows that were decided ahead, and differently from what was decided at their release. From the coordinator."""

    weights: tuple[tuple[str, tuple[tuple[int, float], ...]], ...] = ()
    """Each link on which classes share by other weights from now on, with (class, share of the link) of those that have flows there. From the coordinator."""

    @property
    def marks(self) -> Iterator[tuple[FlowKey, int]]:
        """The flow and the DSCP of every setting that a packet may bear; what only waits ahead of its release has none."""
        for job, iteration, flow, dscp, rate_Bps in self.changed:
            if not (self.ahead and rate_Bps == 0):
                yield (job, iteration, flow), dscp


class Admitted(msgspec.Struct, frozen=True):
    """When a job that had to wait for GPUs arrived, when it began, and on which host each of its ranks ran."""

    arrival_s: float
    start_s: float
    placement: tuple[str, ...]


@dataclass(slots=True)
class RunRecord:
    """All records of one run of one policy."""

    policy: str
    repeat: int
    computes: Sequence[ComputeRecord] = field(default_factory=list)
    """A list, or the columns of a simulation (`echelonflow.records.run_columns`), which are such a sequence too."""
    flows: Sequence[FlowRecord] = field(default_factory=list)
    """The same of flows."""
    decisions: list[DecisionRecord] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    """What the policy's memory counted, if it has one."""
    blame: tuple[Blame, ...] = ()
    """What the mean iteration of each job was spent on; empty where nobody found out."""
    links: tuple[LinkLoad, ...] = ()
    """How busy links were; empty where nobody found out."""
    admitted: dict[str, Admitted] = field(default_factory=dict)
    """By job, where jobs were placed when GPUs were free for them; jobs that had a placement of their own are not in it."""
    began: dict[str, float] = field(default_factory=dict)
    """By job that comes after another: when the first steps of its last rank might begin, so that it had begun as a whole."""

    @property
    def end_s(self) -> float:
        """When its last computation or flow ended; 0 if none did."""
        return max(0.0, _last_s(self.computes), _last_s(self.flows))


def as_run(jobs: Sequence[Job], record: RunRecord) -> tuple[Job, ...]:
    """The jobs as they ran: those that were admitted are where they were placed, and start when they were.

    Those that come after others start when they began. Raises InputError where the record does not say where a job was placed.
    """
    return as_begun([job if job.is_placed else _as_admitted(job, record) for job in jobs], record)


def as_begun(jobs: Sequence[Job], record: RunRecord) -> tuple[Job, ...]:
    """The jobs, those that come after others with the start that they had in a run; one that never began has none."""
    return tuple(
        dataclasses.replace(job, start_s=record.began[job.name]) if job.name in record.began else job for job in jobs
    )


def as_far_as_run(jobs: Sequence[Job], record: RunRecord) -> tuple[Job, ...]:
    """The same, without the jobs of which the record does not say where they were placed."""
    return as_run([job for job in jobs if job.is_placed or job.name in record.admitted], record)


def _as_admitted(job: Job, record: RunRecord) -> Job:
    admitted = record.admitted.get(job.name)
    if admitted is None:
        raise InputError(f"the run of {record.policy} does not say where job {job.name} was placed")
    return dataclasses.replace(job, placement=admitted.placement, start_s=admitted.start_s)


def _last_s(records: Sequence[ComputeRecord] | Sequence[FlowRecord]) -> float:
    """The last finish of all that ended; 0 of none."""
    of_columns: float | None = getattr(records, "last_s", None)
    if of_columns is not None:
        return of_columns
    return max((each.finish_s for each in records if not math.isnan(each.finish_s)), default=0.0)
