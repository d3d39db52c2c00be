"""What is known of all flows at one moment, built from declarations and events, without input or output.

The coordinator feeds it with agents' messages, the simulator with its own events; both get the same
`Snapshot`, so that any difference between them is enforcement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from echelonflow.errors import InputError
from echelonflow.messages import Declare, FlowDeclaration
from echelonflow.network import Network
from echelonflow.snapshot import CoflowTable, GroupTable, JobTable, Snapshot

FlowKey = tuple[str, int, str]
"""(job, iteration, flow): one flow of one iteration."""

_ITERATION_BITS, _INDEX_BITS = 20, 24


def stable_id(job_place: int, iteration: int, index: int) -> int:
    """An id that sorts by job, then iteration, then index, and never depends on timing."""
    return (job_place << (_ITERATION_BITS + _INDEX_BITS)) | (iteration << _INDEX_BITS) | index


@dataclass(slots=True)
class ActiveFlow:
    """A released, unfinished flow."""

    declaration: FlowDeclaration
    iteration: int
    release_s: float
    sent_bytes: float = 0.0


@dataclass(slots=True)
class GroupRun:
    """One EchelonFlow in one iteration: released in part, not all finished."""

    released: set[str] = field(default_factory=set)
    active: dict[str, ActiveFlow] = field(default_factory=dict)
    head_release_s: float = math.inf
    """Earliest (release - offset) among the head flows, those of the least offset; infinite until one is released."""
    earliest_s: float = math.inf
    """Earliest (release - offset) among all flows: stands in until a head flow is released."""
    incurred_s: float = -math.inf
    finished: list[tuple[FlowDeclaration, float]] = field(default_factory=list)

    @property
    def reference_s(self) -> float:
        return self.head_release_s if self.head_release_s < math.inf else self.earliest_s


@dataclass(slots=True)
class CoflowRun:
    """One Coflow in one iteration, kept until its group has finished."""

    arrival_s: float
    finished_bytes: int = 0


@dataclass(frozen=True)
class GroupInfo:
    """A declared group with what follows from it: paths, offsets, its bytes on each link and their time alone."""

    declaration: Declare
    paths: Mapping[str, tuple[int, ...]]
    flows: Mapping[str, FlowDeclaration]
    head_offset_s: float
    span_s: float
    volume_bytes: Mapping[int, int]
    alone_s: float


@dataclass(slots=True)
class JobInfo:
    """What all groups of a job add up to."""

    compute_s: float
    volume_bytes: dict[int, int] = field(default_factory=dict)
    alone_s: float = 0.0


class SchedulerState:
    """Declared groups and active flows on one network.

    Every method raises InputError, and changes nothing, for a flow or group that does not fit what
    was declared: a duplicate, an unknown flow, a release twice.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._groups: dict[tuple[str, str], GroupInfo] = {}
        self._group_of: dict[tuple[str, str], GroupInfo] = {}
        self._runs: dict[tuple[str, int, str], GroupRun] = {}
        self._coflows: dict[tuple[str, int, str], CoflowRun] = {}
        self._jobs: dict[str, JobInfo] = {}

    def declare(self, group: Declare) -> None:
        """Make a group known, for all iterations to come."""
        key = (group.job, group.group)
        if key in self._groups:
            raise InputError(f"group {group.group!r} of job {group.job!r} is declared already")
        if not group.flows:
            raise InputError(f"group {group.group!r} of job {group.job!r} has no flows")
        if not (group.weight > 0 and math.isfinite(group.weight)):
            raise InputError(f"group {group.group!r} of job {group.job!r}: weight {group.weight} is not positive")
        flows, paths = {}, {}
        for flow in group.flows:
            what = f"flow {flow.flow!r} of job {group.job!r}"
            if flow.flow in flows or (group.job, flow.flow) in self._group_of:
                raise InputError(f"{what} is declared already")
            if flow.size_bytes <= 0:
                raise InputError(f"{what} has {flow.size_bytes} bytes; a size must be positive")
            if not (flow.offset_s >= 0 and math.isfinite(flow.offset_s)):
                raise InputError(f"{what} has offset {flow.offset_s} s; an offset is finite and not negative")
            if not 0 <= flow.index < 1 << _INDEX_BITS:
                raise InputError(f"{what} has index {flow.index}; it must lie in 0 to {(1 << _INDEX_BITS) - 1}")
            for host in (flow.src_host, flow.dst_host):
                if host not in self.network.edge_switch:
                    raise InputError(f"{what} names host {host!r}, which the network does not have")
            paths[flow.flow] = self.network.path(flow.src_host, flow.dst_host)
            if not paths[flow.flow]:
                raise InputError(f"{what} goes from {flow.src_host} to itself; only flows on the network are declared")
            flows[flow.flow] = flow
        if not (group.compute_s >= 0 and math.isfinite(group.compute_s)):
            raise InputError(f"group {group.group!r} of job {group.job!r}: compute_s {group.compute_s} is negative")
        offsets = [flow.offset_s for flow in group.flows]
        volume = self._volume_bytes(flows, paths)
        info = GroupInfo(group, paths, flows, min(offsets), max(offsets), volume, self._alone_s(volume))
        job = self._jobs.setdefault(group.job, JobInfo(group.compute_s))
        for link, size_bytes in volume.items():
            job.volume_bytes[link] = job.volume_bytes.get(link, 0) + size_bytes
        job.alone_s = self._alone_s(job.volume_bytes)
        self._groups[key] = info
        for name in flows:
            self._group_of[group.job, name] = info

    def release(self, key: FlowKey, now_s: float) -> None:
        """The flow's data is ready since `now_s`."""
        job, iteration, name = key
        info = self._info(key)
        run = self._runs.setdefault((job, iteration, info.declaration.group), GroupRun())
        if name in run.released:
            raise InputError(f"flow {name!r} of job {job!r}, iteration {iteration}, is released already")
        flow = info.flows[name]
        run.released.add(name)
        run.active[name] = ActiveFlow(flow, iteration, now_s)
        run.earliest_s = min(run.earliest_s, now_s - flow.offset_s)
        if flow.offset_s == info.head_offset_s:
            run.head_release_s = min(run.head_release_s, now_s - flow.offset_s)
        coflow = self._coflows.setdefault((job, iteration, flow.coflow), CoflowRun(now_s))
        coflow.arrival_s = min(coflow.arrival_s, now_s)

    def progress(self, key: FlowKey, sent_bytes: float) -> None:
        """`sent_bytes` of the flow have been acknowledged; never goes back."""
        flow = self._active(key)
        flow.sent_bytes = max(flow.sent_bytes, min(sent_bytes, flow.declaration.size_bytes))

    def finish(self, key: FlowKey, now_s: float) -> None:
        """The flow's last byte has arrived at `now_s`."""
        self._active(key)
        job, iteration, name = key
        info = self._info(key)
        run_key = (job, iteration, info.declaration.group)
        run = self._runs[run_key]
        flow = run.active.pop(name).declaration
        run.finished.append((flow, now_s))
        self._coflows[job, iteration, flow.coflow].finished_bytes += flow.size_bytes
        run.incurred_s = max(finish - run.reference_s - f.offset_s for f, finish in run.finished)
        if len(run.finished) == len(info.flows):
            del self._runs[run_key]
            for coflow in {f.coflow for f in info.flows.values()}:
                self._coflows.pop((job, iteration, coflow), None)

    def withdraw(self, job: str) -> None:
        """Forget a job: its groups, its flows in flight."""
        self._groups = {key: info for key, info in self._groups.items() if key[0] != job}
        self._group_of = {key: info for key, info in self._group_of.items() if key[0] != job}
        self._runs = {key: run for key, run in self._runs.items() if key[0] != job}
        self._coflows = {key: run for key, run in self._coflows.items() if key[0] != job}
        self._jobs.pop(job, None)

    @property
    def groups(self) -> Mapping[tuple[str, str], GroupInfo]:
        """Declared groups by (job, group)."""
        return self._groups

    @property
    def active(self) -> list[FlowKey]:
        """Keys of all released, unfinished flows."""
        return [(job, iteration, name) for (job, iteration, _), run in self._runs.items() for name in run.active]

    def declaration(self, job: str, flow: str) -> FlowDeclaration:
        """What was declared of a flow (InputError if nothing was)."""
        return self._info((job, 0, flow)).flows[flow]

    def group_of(self, job: str, flow: str) -> str:
        """The group that a declared flow belongs to (InputError if it was not declared)."""
        return self._info((job, 0, flow)).declaration.group

    def ideal_finish_s(self, key: FlowKey) -> float:
        """Due time d = r + offset of an active flow, with what is known of r now."""
        info, flow = self._info(key), self._active(key)
        run = self._runs[key[0], key[1], info.declaration.group]
        return run.reference_s + flow.declaration.offset_s

    def snapshot(self, now_s: float) -> tuple[Snapshot, list[FlowKey]]:
        """The snapshot at `now_s`, and the key of each of its rows."""
        place = {job: i for i, job in enumerate(sorted({job for job, _ in self._groups}))}
        keys: list[FlowKey] = []
        rows: list[tuple[int, float, float, float, float, int, int]] = []
        hops: list[int] = []
        path_start = [0]
        job_row: dict[str, int] = {}
        group_rows: list[tuple[int, float, float, float, int, float, float]] = []
        pending_start, pending_link, pending_bytes = [0], list[int](), list[float]()
        coflow_row: dict[tuple[str, int, str], int] = {}
        coflow_rows: list[tuple[int, float, float, float]] = []
        for (job, iteration, name), run in self._runs.items():
            if not run.active:
                continue
            info = self._groups[job, name]
            group_row = len(group_rows)
            first = stable_id(place[job], iteration, min(flow.index for flow in info.flows.values()))
            weight, row = info.declaration.weight, job_row.setdefault(job, len(job_row))
            group_rows.append((first, weight, run.reference_s, run.incurred_s, row, info.span_s, info.alone_s))
            for flow_name, active in run.active.items():
                flow = active.declaration
                coflow = (job, iteration, flow.coflow)
                flow_id = stable_id(place[job], iteration, flow.index)
                if coflow not in coflow_row:
                    coflow_row[coflow] = len(coflow_rows)
                    seen = self._coflows[coflow]
                    coflow_rows.append((flow_id, weight, seen.arrival_s, float(seen.finished_bytes)))
                row = coflow_row[coflow]
                least_id, _, arrival_s, sent_bytes = coflow_rows[row]
                coflow_rows[row] = (min(least_id, flow_id), weight, arrival_s, sent_bytes + active.sent_bytes)
                keys.append((job, iteration, flow_name))
                hops.extend(info.paths[flow_name])
                path_start.append(len(hops))
                remaining = max(flow.size_bytes - active.sent_bytes, 1.0)
                ideal = run.reference_s + flow.offset_s
                rows.append((flow_id, remaining, active.sent_bytes, active.release_s, ideal, group_row, row))
            waiting: dict[int, float] = {}
            for flow_name, flow in info.flows.items():
                if flow_name not in run.released:
                    for link in info.paths[flow_name]:
                        waiting[link] = waiting.get(link, 0.0) + flow.size_bytes
            pending_link.extend(waiting)
            pending_bytes.extend(waiting.values())
            pending_start.append(len(pending_link))
        columns = list(zip(*rows, strict=True)) or [()] * 7
        group_columns = list(zip(*group_rows, strict=True)) or [()] * 7
        coflow_columns = list(zip(*coflow_rows, strict=True)) or [()] * 4
        jobs = [self._jobs[job] for job in job_row]
        floats, ints = np.float64, np.int64
        snapshot = Snapshot(
            now_s=now_s,
            flow_id=np.array(columns[0], ints),
            remaining_bytes=np.array(columns[1], floats),
            sent_bytes=np.array(columns[2], floats),
            release_s=np.array(columns[3], floats),
            ideal_finish_s=np.array(columns[4], floats),
            group=np.array(columns[5], ints),
            coflow=np.array(columns[6], ints),
            path_start=np.array(path_start, ints),
            path_link=np.array(hops, ints),
            capacity_Bps=np.array(self.network.capacity_Bps, floats),
            groups=GroupTable(
                id=np.array(group_columns[0], ints),
                weight=np.array(group_columns[1], floats),
                reference_s=np.array(group_columns[2], floats),
                incurred_tardiness_s=np.array(group_columns[3], floats),
                job=np.array(group_columns[4], ints),
                span_s=np.array(group_columns[5], floats),
                alone_s=np.array(group_columns[6], floats),
                pending_start=np.array(pending_start, ints),
                pending_link=np.array(pending_link, ints),
                pending_bytes=np.array(pending_bytes, floats),
            ),
            coflows=CoflowTable(
                id=np.array(coflow_columns[0], ints),
                weight=np.array(coflow_columns[1], floats),
                arrival_s=np.array(coflow_columns[2], floats),
                sent_bytes=np.array(coflow_columns[3], floats),
            ),
            jobs=JobTable(
                id=np.array([place[job] for job in job_row], ints),
                compute_s=np.array([job.compute_s for job in jobs], floats),
                alone_s=np.array([job.alone_s for job in jobs], floats),
            ),
            link_names=tuple(link.name for link in self.network.links),
        )
        return snapshot, keys

    def _volume_bytes(
        self, flows: Mapping[str, FlowDeclaration], paths: Mapping[str, tuple[int, ...]]
    ) -> dict[int, int]:
        volume: dict[int, int] = {}
        for name, flow in flows.items():
            for link in paths[name]:
                volume[link] = volume.get(link, 0) + flow.size_bytes
        return volume

    def _alone_s(self, volume_bytes: Mapping[int, int]) -> float:
        return max(size_bytes / self.network.capacity_Bps[link] for link, size_bytes in volume_bytes.items())

    def _info(self, key: FlowKey) -> GroupInfo:
        job, _, name = key
        if (job, name) not in self._group_of:
            raise InputError(f"flow {name!r} of job {job!r} was not declared")
        return self._group_of[job, name]

    def _active(self, key: FlowKey) -> ActiveFlow:
        job, iteration, name = key
        run = self._runs.get((job, iteration, self._info(key).declaration.group))
        if run is None or name not in run.active:
            raise InputError(f"flow {name!r} of job {job!r}, iteration {iteration}, is not in flight")
        return run.active[name]
