"""Exact event-driven simulation: flows are fluids, rates are what the policy allocates.

There is no time step. Between two events every flow has a constant rate, so the next event is known:
a computation ends, a flow runs empty, or the policy's answer expires. Decisions are made at once and
take no time; a rate is in force the moment it is decided.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from echelonflow.allocation import Allocation
from echelonflow.dag import Compute, Job, Transfer
from echelonflow.declare import declarations
from echelonflow.errors import RunError
from echelonflow.messages import FlowDeclaration
from echelonflow.network import Network
from echelonflow.policies import Policy
from echelonflow.progress import JobProgress, StepKey
from echelonflow.records import ComputeRecord, FlowRecord, RunRecord
from echelonflow.state import FlowKey, SchedulerState

SIMULTANEOUS_S = 1e-9
"""Flows that would end within this time of each other end together (rounding)."""


@dataclass(slots=True)
class _Flow:
    """A flow in flight."""

    declaration: FlowDeclaration
    group: str
    kind: str
    release_s: float
    remaining_bytes: float
    rate_Bps: float = 0.0
    start_s: float | None = None


def simulate(
    jobs: Sequence[Job],
    network: Network,
    policy: Policy,
    repeat: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> RunRecord:
    """Run all iterations of `jobs` on `network` under `policy`; times in seconds from the run's zero.

    Raises PolicyError if the policy fails or allocates too much, RunError if the run cannot go on (flows
    in flight, none of them with a rate, and nothing else to wait for). `on_progress` is told the simulated time.
    """
    return _Simulation(jobs, network, policy, repeat).run(on_progress)


@dataclass
class _Simulation:
    jobs: Sequence[Job]
    network: Network
    policy: Policy
    repeat: int
    now_s: float = 0.0
    _flows: dict[FlowKey, _Flow] = field(default_factory=dict)
    _calendar: list[tuple[float, int, str, StepKey]] = field(default_factory=list)
    """Heap of (time, sequence number, job, step): computations that end then; an empty name starts the job."""
    _sequence: int = 0
    _expires_s: float = math.inf
    _changed: bool = False
    """Whether a flow has come or gone since the last decision."""

    def __post_init__(self) -> None:
        self._by_name = {job.name: job for job in self.jobs}
        self._progress = {job.name: JobProgress(job) for job in self.jobs}
        self._state = SchedulerState(self.network)
        self._declared: dict[tuple[str, str], tuple[FlowDeclaration, str, str]] = {}
        for group in declarations(self.jobs):
            self._state.declare(group)
            for flow in group.flows:
                self._declared[group.job, flow.flow] = (flow, group.group, group.kind)
        self._record = RunRecord(self.policy.name, self.repeat)
        self._started: dict[tuple[str, int, str], float] = {}

    def run(self, on_progress: Callable[[float], None] | None) -> RunRecord:
        for job in self.jobs:
            self._schedule(job.start_s, job.name, (0, ""))
        while self._calendar or self._flows:
            if self._advance():
                self._decide()
            if on_progress is not None:
                on_progress(self.now_s)
        unfinished = [name for name, progress in self._progress.items() if not progress.done]
        if unfinished:
            raise RunError(f"simulation ended but job {unfinished[0]} still waits: its DAG never lets it go on")
        return self._record

    def _schedule(self, time_s: float, job: str, step: StepKey) -> None:
        heapq.heappush(self._calendar, (time_s, self._sequence, job, step))
        self._sequence += 1

    def _advance(self) -> bool:
        """Move to the next event and carry it out; returns whether the policy must decide again."""
        empty_s = min(
            (self.now_s + flow.remaining_bytes / flow.rate_Bps for flow in self._flows.values() if flow.rate_Bps > 0),
            default=math.inf,
        )
        computed_s = self._calendar[0][0] if self._calendar else math.inf
        next_s = min(empty_s, computed_s, self._expires_s)
        if next_s == math.inf:
            raise RunError(
                f"simulation is stuck at {self.now_s:.6g} s: policy {self.policy.name} gives none of "
                f"{len(self._flows)} flows a rate and nothing else will happen"
            )
        elapsed = next_s - self.now_s
        for flow in self._flows.values():
            flow.remaining_bytes -= flow.rate_Bps * elapsed
        self.now_s = next_s
        for key, flow in list(self._flows.items()):
            if flow.rate_Bps > 0 and flow.remaining_bytes <= flow.rate_Bps * SIMULTANEOUS_S:
                self._end_flow(key, flow)
        while self._calendar and self._calendar[0][0] <= self.now_s:
            _, _, job, step = heapq.heappop(self._calendar)
            self._end_compute(job, step)
        return self._changed or self.now_s >= self._expires_s

    def _end_flow(self, key: FlowKey, flow: _Flow) -> None:
        del self._flows[key]
        self._changed = True
        self._state.finish(key, self.now_s)
        job, iteration, name = key
        d = flow.declaration
        self._record.flows.append(
            FlowRecord(
                job, iteration, name, flow.group, flow.kind, d.coflow, d.src_host, d.dst_host, d.src_port, d.dst_port,
                d.size_bytes, d.offset_s, flow.release_s,
                flow.release_s if flow.start_s is None else flow.start_s,
                self.now_s, d.size_bytes, d.size_bytes,
            )
        )  # fmt: skip
        self._begin(self._by_name[job], self._progress[job].finish(iteration, name))

    def _end_compute(self, job_name: str, key: StepKey) -> None:
        job, progress = self._by_name[job_name], self._progress[job_name]
        iteration, name = key
        if not name:
            self._begin(job, progress.start())
            return
        step = job.dag.by_name[name]
        if isinstance(step, Compute):
            start = self._started.pop((job_name, iteration, name))
            self._record.computes.append(
                ComputeRecord(
                    job_name, iteration, name, step.kind, step.rank, job.placement[step.rank], start, self.now_s
                )
            )
        self._begin(job, progress.finish(iteration, name))

    def _begin(self, job: Job, steps: list[StepKey]) -> None:
        for iteration, name in steps:
            step = job.dag.by_name[name]
            if isinstance(step, Transfer) and not job.is_local(step):
                key = (job.name, iteration, name)
                declaration, group, kind = self._declared[job.name, name]
                self._state.release(key, self.now_s)
                self._changed = True
                self._flows[key] = _Flow(declaration, group, kind, self.now_s, float(step.size_bytes))
            elif isinstance(step, Transfer):
                self._schedule(self.now_s, job.name, (iteration, name))
            else:
                self._started[job.name, iteration, name] = self.now_s
                self._schedule(self.now_s + step.duration_s, job.name, (iteration, name))

    def _decide(self) -> None:
        self._changed = False
        for key, flow in self._flows.items():
            self._state.progress(key, flow.declaration.size_bytes - flow.remaining_bytes)
        if not self._flows:
            self._expires_s = math.inf
            return
        snapshot, keys = self._state.snapshot(self.now_s)
        allocation: Allocation = self.policy(snapshot)
        self._expires_s = allocation.valid_until_s
        for key, rate in zip(keys, allocation.rates_Bps.tolist(), strict=True):
            flow = self._flows[key]
            flow.rate_Bps = rate
            if rate > 0 and flow.start_s is None:
                flow.start_s = self.now_s
