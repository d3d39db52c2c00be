"""What is known of all flows at one moment, built from declarations and events, without input or output.

The coordinator feeds it with agents' messages, the simulator with its own events; both get the same
`Snapshot`, so that any difference between them is enforcement. Rows of a snapshot are in the order of stable
ids: which of two events of one moment came first leaves no trace.

Flows in flight, runs of groups and runs of Coflows are rows of tables that events change in place, so that a
snapshot is a copy of columns. A row is called a slot; a flow keeps its own until it has finished.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.flow_key import FlowKey
from echelonflow.model.network import Network
from echelonflow.scheduling import job_clocks
from echelonflow.scheduling.group_info import INDEX_BITS, FlowInfo, GroupInfo, group_info
from echelonflow.scheduling.job_clocks import JobClocks
from echelonflow.scheduling.slot_table import PathNumbers, Pool, SlotTable
from echelonflow.scheduling.snapshot import (
    ClockTable,
    CoflowTable,
    ConnectionTable,
    GroupTable,
    JobTable,
    Snapshot,
)
from echelonflow.wire.messages import Declare, FlowClock, FlowDeclaration

Estimate = Callable[[Sequence[FlowKey]], Floats]
"""Bytes sent of each of these flows."""

ITERATION_BITS = 20


def stable_id(job_place: int, iteration: int, index: int) -> int:
    """An id that sorts by job, then iteration, then index, and never depends on timing."""
    return (job_place << (ITERATION_BITS + INDEX_BITS)) | (iteration << INDEX_BITS) | index


_SHARED = {"job": np.int64, "in_job": np.int64, "active": np.int64}
"""Of every table but that of jobs: its job's slot, the part of its id below the job, flows in flight."""

JOB_COLUMNS: Mapping[str, Any] = MappingProxyType({"place": np.int64, "compute_s": np.float64, "alone_s": np.float64})
"""`place`: among the jobs in order of their names."""

RUN_COLUMNS: Mapping[str, Any] = MappingProxyType(
    {**_SHARED, **dict.fromkeys(("weight", "span_s", "alone_s", "head_s", "earliest_s", "worst_s"), np.float64)}
    | dict.fromkeys(("pending", "links"), np.int64)
)
"""`pending`: where the run's pending bytes begin; `links`: how many, 0 if there are none. `head_s`: earliest release
less offset among released head flows, those of least offset. `earliest_s`: the same among all flows, which stands in
until a head flow is released. `worst_s`: latest finish less offset."""

COFLOW_COLUMNS: Mapping[str, Any] = MappingProxyType(
    {**_SHARED, **dict.fromkeys(("weight", "arrival_s", "finished_bytes"), np.float64)}
)

CONNECTION_COLUMNS: Mapping[str, Any] = MappingProxyType(
    {**_SHARED, **dict.fromkeys(("size_bytes", "finished_bytes"), np.float64)}
)

FLOW_COLUMNS: Mapping[str, Any] = MappingProxyType(
    {**_SHARED, **dict.fromkeys(("run", "coflow", "path", "clock", "iteration", "layer", "connection"), np.int64)}
    | dict.fromkeys(("size_bytes", "offset_s", "sent_bytes", "release_s", "tail_s", "to_end_s"), np.float64)
)
"""`clock`: the slot of its job's; that and what follows from it is not a number where no clock was declared."""

_NO_CLOCK = FlowClock(0.0, 0.0, 0.0)

FEW = 32
"""So many flows may come or go until a list of all keys is made anew, not mended."""


@dataclass(slots=True)
class GroupRun:
    """One EchelonFlow in one iteration: released in part, not all finished."""

    slot: int
    group: GroupInfo
    released: bytearray
    """By place in the group, whether the flow was released."""
    unreleased: int
    unfinished: int
    pending: int
    """Where its piece of the pool of pending bytes begins: one place for each of the group's links."""
    coflows: dict[str, int] = field(default_factory=dict)
    """Slots of its Coflows that have begun."""


@dataclass(frozen=True, slots=True)
class _Before:
    """What a release changes and cannot be computed back, as it was before: of the flow's run and its Coflow."""

    key: FlowKey
    earliest_s: float
    head_s: float
    links: int
    arrival_s: float
    has_coflow: bool
    """Whether a flow of the run's part of the Coflow was released."""
    clock: job_clocks.Before
    has_connection: bool
    """Whether a flow with the same ends was released."""


@dataclass(slots=True)
class CoflowIteration:
    """One Coflow in one iteration, kept until its groups have finished."""

    slot: int
    groups: int = 0


@dataclass(slots=True)
class ConnectionInfo:
    """What a job's flows between two hosts add up to in an iteration."""

    first_index: int
    """The smallest index of its flows."""
    flows: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class ConnectionIteration:
    """The same in one iteration, kept until all its flows have finished."""

    slot: int
    unfinished: int


@dataclass(slots=True)
class JobInfo:
    """What all groups of a job add up to: the bytes on each link of the network, and from host to host."""

    slot: int
    volume_bytes: Ints
    connections: dict[tuple[str, str], ConnectionInfo] = field(default_factory=dict)


class SchedulerState:
    """Declared groups and active flows on one network.

    Every method raises InputError, and changes nothing, for a flow or group that does not fit what
    was declared: a duplicate, an unknown flow, a release twice.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._capacity_Bps: Floats = np.array(network.capacity_Bps, np.float64)
        self._link_names = tuple(link.name for link in network.links)
        self._paths = PathNumbers()
        self._pending = Pool()
        self._groups: dict[tuple[str, str], GroupInfo] = {}
        self._declared: dict[tuple[str, str], FlowInfo] = {}
        self._jobs: dict[str, JobInfo] = {}
        self._clocks = JobClocks()
        self._runs: dict[tuple[str, int, str], GroupRun] = {}
        self._coflows: dict[tuple[str, int, str], CoflowIteration] = {}
        self._connections: dict[tuple[str, int, str, str], ConnectionIteration] = {}
        self._slot_of: dict[FlowKey, int] = {}
        self._key_of: dict[int, FlowKey] = {}
        self._job_table = SlotTable(JOB_COLUMNS)
        self._run_table = SlotTable(RUN_COLUMNS)
        self._coflow_table = SlotTable(COFLOW_COLUMNS)
        self._connection_table = SlotTable(CONNECTION_COLUMNS)
        self._flow_table = SlotTable(FLOW_COLUMNS)
        self._in_order: Ints = np.zeros(0, np.int64)
        """Slots of the flows in order of their ids, as of when they were last put in order."""
        self._ids: Ints = np.zeros(0, np.int64)
        self._keys: list[FlowKey] = []
        self._come: list[int] = []
        """Slots of flows released since then."""
        self._gone: list[int] = []
        """Slots of flows finished since then; nobody gets them before the flows are put in order again."""
        self._jobs_changed = False

    def declare(self, group: Declare) -> None:
        """Make a group known, for all iterations to come."""
        key = (group.job, group.group)
        if key in self._groups:
            raise InputError(f"group {group.group!r} of job {group.job!r} is declared already")
        info = group_info(group, self.network, self._capacity_Bps, self._declared)
        if group.job not in self._jobs:
            slot = self._job_table.take(place=0, compute_s=group.compute_s, alone_s=0.0)
            self._jobs[group.job] = JobInfo(slot, np.zeros(len(self._capacity_Bps), np.int64))
            self._jobs_changed = True
        job = self._jobs[group.job]
        job.volume_bytes[info.links] += info.volume_bytes
        self._job_table["alone_s"][job.slot] = np.max(job.volume_bytes / self._capacity_Bps)
        paths = {name: flow.path for name, flow in info.flows.items()}
        self._clocks.declare(group, job.volume_bytes / self._capacity_Bps, paths, self._capacity_Bps)
        for flow in group.flows:
            known = job.connections.setdefault((flow.src_host, flow.dst_host), ConnectionInfo(flow.index))
            known.first_index = min(known.first_index, flow.index)
            known.flows += 1
            known.size_bytes += flow.size_bytes
        self._add_to_connections(group)
        self._groups[key] = info
        self._declared.update({(group.job, name): flow for name, flow in info.flows.items()})

    def release(self, key: FlowKey, now_s: float) -> int:
        """The flow's data is ready since `now_s`; returns its slot."""
        job, iteration, name = key
        flow = self._info(key)
        if not 0 <= iteration < 1 << ITERATION_BITS:
            raise InputError(
                f"flow {name!r} of job {job!r}: iteration {iteration} is not in 0 to 2^{ITERATION_BITS} - 1"
            )
        run = self._runs.get((job, iteration, flow.group))
        if run is None:
            run = self._begin_run(job, iteration, self._groups[job, flow.group])
        elif run.released[flow.place]:
            raise InputError(f"flow {name!r} of job {job!r}, iteration {iteration}, is released already")
        coflow = self._begin_coflow(run, job, iteration, flow.declaration.coflow)
        run.released[flow.place] = True
        run.unreleased -= 1
        self._pending.size_bytes[run.pending + flow.cells] -= flow.declaration.size_bytes
        offset_s, runs, coflows = flow.declaration.offset_s, self._run_table, self._coflow_table
        _lower(runs["earliest_s"], run.slot, now_s - offset_s)
        if offset_s == run.group.head_offset_s:
            _lower(runs["head_s"], run.slot, now_s - offset_s)
        _lower(coflows["arrival_s"], coflow, now_s)
        runs["active"][run.slot] += 1
        if run.unreleased == 0:
            runs["links"][run.slot] = 0
        coflows["active"][coflow] += 1
        connection = self._begin_connection(job, iteration, flow.declaration)
        self._connection_table["active"][connection] += 1
        if self._flow_table.full:
            self._put_in_order()
        clock = flow.declaration.clock or _NO_CLOCK
        slot = self._flow_table.take(
            job=self._jobs[job].slot,
            in_job=stable_id(0, iteration, flow.declaration.index),
            active=1,
            run=run.slot,
            coflow=coflow,
            connection=connection,
            path=self._paths.number(flow.path),
            size_bytes=flow.declaration.size_bytes,
            offset_s=offset_s,
            sent_bytes=0.0,
            release_s=now_s,
            clock=self._clocks.release(job, iteration, flow.declaration.clock, now_s),
            iteration=iteration,
            tail_s=clock.tail_s,
            to_end_s=clock.to_end_s,
            layer=clock.layer,
        )
        self._slot_of[key] = slot
        self._key_of[slot] = key
        self._come.append(slot)
        return slot

    @contextlib.contextmanager
    def supposing(self, keys: Sequence[FlowKey], now_s: float) -> Iterator[None]:
        """Within the block these flows are released since `now_s`; after it everything is as it was, bit by bit.

        Raises what `release` does. Within the block only snapshots may be made.
        """
        self._put_in_order()
        in_order = self._in_order, self._ids, self._keys
        released: list[_Before] = []
        try:
            for key in keys:
                before = self._before(key)
                self.release(key, now_s)
                released.append(before)
            yield
        finally:
            for before in reversed(released):
                self._take_back(before)
            self._in_order, self._ids, self._keys = in_order
            self._come = []

    def _before(self, key: FlowKey) -> _Before:
        job, iteration, _ = key
        flow, runs = self._info(key), self._run_table
        run = self._runs.get((job, iteration, flow.group))
        coflow = self._coflows.get((job, iteration, flow.declaration.coflow))
        return _Before(
            key,
            earliest_s=math.inf if run is None else float(runs["earliest_s"][run.slot]),
            head_s=math.inf if run is None else float(runs["head_s"][run.slot]),
            links=0 if run is None else int(runs["links"][run.slot]),
            arrival_s=math.inf if coflow is None else float(self._coflow_table["arrival_s"][coflow.slot]),
            has_coflow=run is not None and flow.declaration.coflow in run.coflows,
            clock=self._clocks.before(job),
            has_connection=_connection_key(job, iteration, flow.declaration) in self._connections,
        )

    def _take_back(self, before: _Before) -> None:
        """Undo the last release: slots go back in the order in which they are taken again."""
        job, iteration, _ = key = before.key
        flow, runs, coflows = self._info(key), self._run_table, self._coflow_table
        run, name = self._runs[job, iteration, flow.group], flow.declaration.coflow
        self._clocks.take_back(job, before.clock)
        slot = self._slot_of.pop(key)
        del self._key_of[slot]
        self._flow_table["active"][slot] = 0
        self._flow_table.give_back([slot])
        runs["active"][run.slot] -= 1
        connection = _connection_key(job, iteration, flow.declaration)
        self._connection_table["active"][self._connections[connection].slot] -= 1
        if not before.has_connection:
            self._end_connection(connection)
        coflows["active"][run.coflows[name]] -= 1
        coflows["arrival_s"][run.coflows[name]] = before.arrival_s
        runs["earliest_s"][run.slot], runs["head_s"][run.slot] = before.earliest_s, before.head_s
        runs["links"][run.slot] = before.links
        self._pending.size_bytes[run.pending + flow.cells] += flow.declaration.size_bytes
        run.released[flow.place] = False
        run.unreleased += 1
        if run.unreleased == len(run.released):
            self._end_run((job, iteration, flow.group))
        elif not before.has_coflow:
            del run.coflows[name]
            self._leave_coflow((job, iteration, name))

    def progress(self, key: FlowKey, sent_bytes: float) -> None:
        """`sent_bytes` of the flow have been acknowledged; never goes back."""
        slot, flows = self._slot(key), self._flow_table
        sent = flows["sent_bytes"]
        sent[slot] = max(sent[slot], min(sent_bytes, flows["size_bytes"][slot]))

    def progress_all(self, slots: Ints, sent_bytes: Floats) -> None:
        """The same for many flows in flight, each at most once, given by their slots."""
        flows = self._flow_table
        if not np.all(flows["active"][slots]):
            raise InputError("progress of a flow that is not in flight")
        sent = flows["sent_bytes"]
        sent[slots] = np.maximum(sent[slots], np.minimum(sent_bytes, flows["size_bytes"][slots]))

    def finish(self, key: FlowKey, now_s: float) -> float | None:
        """The flow's last byte has arrived at `now_s`; returns the tardiness of its group where it was the last of it."""
        slot, flows, runs, coflows = self._slot(key), self._flow_table, self._run_table, self._coflow_table
        run_key = (key[0], key[1], self._info(key).group)
        run, coflow = self._runs[run_key], flows["coflow"][slot]
        runs["worst_s"][run.slot] = max(runs["worst_s"][run.slot], now_s - flows["offset_s"][slot])
        runs["active"][run.slot] -= 1
        coflows["finished_bytes"][coflow] += flows["size_bytes"][slot]
        coflows["active"][coflow] -= 1
        self._finish_in_connection(key[0], key[1], self._info(key).declaration)
        self._clocks.finish(key[0], key[1], self._info(key).declaration.clock, now_s)
        self._forget_flow(key)
        run.unfinished -= 1
        if run.unfinished:
            return None
        head_s = float(runs["head_s"][run.slot])
        reference_s = head_s if head_s < math.inf else float(runs["earliest_s"][run.slot])
        tardiness_s = float(runs["worst_s"][run.slot]) - reference_s
        self._end_run(run_key)
        return tardiness_s

    def withdraw(self, job: str) -> None:
        """Forget a job: its groups, its flows in flight."""
        for run_key in [key for key in self._runs if key[0] == job]:
            self._end_run(run_key)
        for key in [key for key in self._slot_of if key[0] == job]:
            self._forget_flow(key)
        for connection in [key for key in self._connections if key[0] == job]:
            self._end_connection(connection)
        self._groups = {key: info for key, info in self._groups.items() if key[0] != job}
        self._declared = {key: info for key, info in self._declared.items() if key[0] != job}
        if job in self._jobs:
            self._job_table.give_back([self._jobs.pop(job).slot])
            self._clocks.withdraw(job)
            self._jobs_changed = True

    @property
    def groups(self) -> Mapping[tuple[str, str], GroupInfo]:
        """Declared groups by (job, group)."""
        return self._groups

    @property
    def clocks(self) -> JobClocks:
        """Which jobs are under way, and what they declared of their iterations."""
        return self._clocks

    @property
    def places(self) -> dict[str, int]:
        """Of each job its place among all, in order of their names: ids of its flows begin with it."""
        return {name: place for place, name in enumerate(sorted(self._jobs))}

    @property
    def active(self) -> list[FlowKey]:
        """Keys of all released, unfinished flows, in order of their release."""
        return list(self._slot_of)

    @property
    def slots(self) -> Ints:
        """Slots of the flows in flight, in the order of rows of a snapshot made now."""
        self._put_in_order()
        slots: Ints = self._in_order.copy()
        return slots

    def is_declared(self, job: str, flow: str) -> bool:
        """Whether a flow is known."""
        return (job, flow) in self._declared

    def declaration(self, job: str, flow: str) -> FlowDeclaration:
        """What was declared of a flow (InputError if nothing was)."""
        return self._info((job, 0, flow)).declaration

    def group_of(self, job: str, flow: str) -> str:
        """The group that a declared flow belongs to (InputError if it was not declared)."""
        return self._info((job, 0, flow)).group

    def ideal_finish_s(self, key: FlowKey) -> float:
        """Due time d = r + offset of an active flow, with what is known of r now."""
        flows, slot = self._flow_table, self._slot(key)
        reference_s = self._reference_s(flows["run"][[slot]])[0]
        return float(reference_s + flows["offset_s"][slot])

    def ideal_finishes_s(self) -> tuple[list[FlowKey], Floats]:
        """The keys of all flows in flight, and the due time of each, as `ideal_finish_s` has it (the list is not to be changed)."""
        self._put_in_order()
        flows, slots = self._flow_table, self._in_order
        return self._keys, self._reference_s(flows["run"][slots]) + flows["offset_s"][slots]

    def snapshot(
        self, now_s: float, estimate: Estimate | None = None, *, connections: bool = True
    ) -> tuple[Snapshot, list[FlowKey]]:
        """The snapshot at `now_s`, and the key of each of its rows, in order of ids (the list is not to be changed).

        `estimate` gives the bytes that each flow has sent where reports are older than `now_s`; without it, the
        bytes reported count. What is sent from host to host may be left out where nobody reads it: it takes time.
        """
        self._put_in_order()
        flows, slots = self._flow_table, self._in_order
        runs, group = self._in_flight(self._run_table, flows["run"][slots])
        coflows, coflow = self._in_flight(self._coflow_table, flows["coflow"][slots])
        groups, jobs = self._group_table(runs)
        size, reference = flows["size_bytes"][slots], groups.reference_s
        sent = flows["sent_bytes"][slots] if estimate is None else np.minimum(estimate(self._keys), size)
        path_start, path_link = self._paths.rows(flows["path"][slots])
        coflow_columns = self._coflow_table
        finished = coflow_columns["finished_bytes"][coflows]
        snapshot = Snapshot(
            now_s=now_s,
            flow_id=self._ids.copy(),
            remaining_bytes=np.maximum(size - sent, 1.0),
            sent_bytes=sent,
            release_s=flows["release_s"][slots],
            ideal_finish_s=reference[group] + flows["offset_s"][slots],
            group=group,
            coflow=coflow,
            path_start=path_start,
            path_link=path_link,
            capacity_Bps=self._capacity_Bps.copy(),
            groups=groups,
            coflows=CoflowTable(
                id=self._id_of(coflow_columns, coflows),
                weight=coflow_columns["weight"][coflows],
                arrival_s=coflow_columns["arrival_s"][coflows],
                sent_bytes=finished + np.bincount(coflow, weights=sent, minlength=len(coflows)),
            ),
            jobs=JobTable(
                id=self._job_table["place"][jobs],
                compute_s=self._job_table["compute_s"][jobs],
                alone_s=self._job_table["alone_s"][jobs],
            ),
            link_names=self._link_names,
            clock=self._clock_table(slots) if self._clocks else None,
            connections=self._connections_in_flight(slots, sent) if connections else None,
        )
        return snapshot, self._keys

    def _connections_in_flight(self, slots: Ints, sent_bytes: Floats) -> ConnectionTable:
        """What the flows in `slots`, of which so much is sent, are part of from host to host."""
        table = self._connection_table
        rows, of_flow = self._in_flight(table, self._flow_table["connection"][slots])
        in_flight_bytes = np.bincount(of_flow, weights=sent_bytes, minlength=len(rows))
        return ConnectionTable(
            id=self._id_of(table, rows),
            sent_bytes=table["finished_bytes"][rows] + in_flight_bytes,
            size_bytes=table["size_bytes"][rows],
            of_flow=of_flow,
        )

    def _clock_table(self, slots: Ints) -> ClockTable:
        """What clocks say of the flows in `slots`."""
        place, flows = self._job_table["place"], self._flow_table
        under_way = self._clocks.under_way({name: int(place[job.slot]) for name, job in self._jobs.items()})
        clock = flows["clock"][slots]
        behind = flows["iteration"][slots] + 1 - self._clocks.last[clock]
        tail_s, to_end_s, layer = (flows[what][slots] for what in ("tail_s", "to_end_s", "layer"))
        return ClockTable(self._clocks.ended_s[clock], behind, tail_s, to_end_s, layer, under_way)

    def _group_table(self, slots: Ints) -> tuple[GroupTable, Ints]:
        """The runs in `slots`, and the slots of their jobs."""
        runs = self._run_table
        jobs, job = np.unique(self._job_table["place"][runs["job"][slots]], return_inverse=True)
        job_slots: Ints = np.zeros(len(jobs), np.int64)
        job_slots[job] = runs["job"][slots]
        pending_start, pending_link, pending_bytes = self._pending.rows(runs["pending"][slots], runs["links"][slots])
        reference_s = self._reference_s(slots)
        table = GroupTable(
            id=self._id_of(runs, slots),
            weight=runs["weight"][slots],
            reference_s=reference_s,
            incurred_tardiness_s=runs["worst_s"][slots] - reference_s,
            job=job.astype(np.int64),
            span_s=runs["span_s"][slots],
            alone_s=runs["alone_s"][slots],
            pending_start=pending_start,
            pending_link=pending_link,
            pending_bytes=pending_bytes.astype(np.float64),
        )
        return table, job_slots

    def _reference_s(self, slots: Ints) -> Floats:
        head_s: Floats = self._run_table["head_s"][slots]
        return np.where(head_s < math.inf, head_s, self._run_table["earliest_s"][slots])

    def _id_of(self, table: SlotTable, slots: Ints) -> Ints:
        places: Ints = self._job_table["place"][table["job"][slots]]
        ids: Ints = (places << (ITERATION_BITS + INDEX_BITS)) | table["in_job"][slots]
        return ids

    def _in_flight(self, table: SlotTable, of_flow: Ints) -> tuple[Ints, Ints]:
        """Slots of a table that have flows in flight, in order of ids; and of each flow the row it has among them."""
        slots = np.flatnonzero(table["active"])
        slots = slots[np.argsort(self._id_of(table, slots), kind="stable")]
        row = np.empty(len(table), np.int64)
        row[slots] = np.arange(len(slots))
        return slots, row[of_flow]

    def _put_in_order(self) -> None:
        """Bring slots, ids and keys of the flows in flight up to date."""
        if self._jobs_changed:
            for place, job in enumerate(sorted(self._jobs)):
                self._job_table["place"][self._jobs[job].slot] = place
            self._clocks.note_places()
        if self._jobs_changed or self._come or self._gone:
            active = self._flow_table["active"]
            stays = active[self._in_order] == 1
            come = [slot for slot in self._come if active[slot]]
            slots = np.concatenate((self._in_order[stays], np.array(come, np.int64)))
            ids = self._id_of(self._flow_table, slots)
            order = np.argsort(ids, kind="stable")  # all but those that came are in order already, which is fast
            self._in_order, self._ids = slots[order], ids[order]
            left, new = np.flatnonzero(~stays).tolist(), np.flatnonzero(order >= len(slots) - len(come)).tolist()
            self._keys = self._keys_in_order(left, new)
        self._flow_table.give_back(self._gone)
        self._come, self._gone, self._jobs_changed = [], [], False

    def _keys_in_order(self, left: list[int], new: list[int]) -> list[FlowKey]:
        """Keys of the flows in order: those before less the places that `left`, with `new` places among them."""
        key_of = self._key_of
        if len(left) + len(new) > FEW:
            return [key_of[slot] for slot in self._in_order.tolist()]
        keys = self._keys.copy()
        for place in reversed(left):
            del keys[place]
        for place in new:
            keys.insert(place, key_of[int(self._in_order[place])])
        return keys

    def _begin_run(self, job: str, iteration: int, group: GroupInfo) -> GroupRun:
        flows = len(group.flows)
        pending = self._pending.take(group.links, group.volume_bytes)
        slot = self._run_table.take(
            job=self._jobs[job].slot,
            in_job=stable_id(0, iteration, group.first_index),
            active=0,
            weight=group.declaration.weight,
            span_s=group.span_s,
            alone_s=group.alone_s,
            head_s=math.inf,
            earliest_s=math.inf,
            worst_s=-math.inf,
            pending=pending,
            links=len(group.links),
        )
        run = GroupRun(slot, group, bytearray(flows), flows, flows, pending)
        self._runs[job, iteration, group.declaration.group] = run
        return run

    def _begin_coflow(self, run: GroupRun, job: str, iteration: int, name: str) -> int:
        """The slot of a Coflow of the run; a Coflow begins with its first flow."""
        if name not in run.coflows:
            key, group = (job, iteration, name), run.group
            if key not in self._coflows:
                slot = self._coflow_table.take(
                    job=self._jobs[job].slot,
                    in_job=stable_id(0, iteration, group.coflow_index[name]),
                    active=0,
                    weight=group.declaration.weight,
                    arrival_s=math.inf,
                    finished_bytes=0.0,
                )
                self._coflows[key] = CoflowIteration(slot)
            self._coflows[key].groups += 1
            run.coflows[name] = self._coflows[key].slot
        return run.coflows[name]

    def _end_run(self, key: tuple[str, int, str]) -> None:
        job, iteration, _ = key
        run = self._runs.pop(key)
        self._run_table["active"][run.slot] = 0
        self._run_table.give_back([run.slot])
        self._pending.give_back(run.pending, len(run.group.links))
        for name in reversed(run.coflows):
            self._leave_coflow((job, iteration, name))

    def _leave_coflow(self, key: tuple[str, int, str]) -> None:
        """A run of a group has no part in a Coflow any more, which ends with its last one."""
        coflow = self._coflows[key]
        coflow.groups -= 1
        if coflow.groups == 0:
            del self._coflows[key]
            self._coflow_table["active"][coflow.slot] = 0
            self._coflow_table.give_back([coflow.slot])

    def _begin_connection(self, job: str, iteration: int, flow: FlowDeclaration) -> int:
        """The slot of what the job sends between the ends of a flow in an iteration."""
        key = _connection_key(job, iteration, flow)
        if key not in self._connections:
            declared = self._jobs[job].connections[flow.src_host, flow.dst_host]
            slot = self._connection_table.take(
                job=self._jobs[job].slot,
                in_job=stable_id(0, iteration, declared.first_index),
                active=0,
                size_bytes=declared.size_bytes,
                finished_bytes=0.0,
            )
            self._connections[key] = ConnectionIteration(slot, declared.flows)
        return self._connections[key].slot

    def _add_to_connections(self, group: Declare) -> None:
        """What a job sends in iterations that have begun becomes more by a group that is declared only now."""
        begun = [(key, connection) for key, connection in self._connections.items() if key[0] == group.job]
        for flow in group.flows if begun else ():
            for (_, _, src_host, dst_host), connection in begun:
                if (src_host, dst_host) == (flow.src_host, flow.dst_host):
                    connection.unfinished += 1
                    self._connection_table["size_bytes"][connection.slot] += flow.size_bytes

    def _finish_in_connection(self, job: str, iteration: int, flow: FlowDeclaration) -> None:
        key, table = _connection_key(job, iteration, flow), self._connection_table
        connection = self._connections[key]
        table["finished_bytes"][connection.slot] += flow.size_bytes
        table["active"][connection.slot] -= 1
        connection.unfinished -= 1
        if connection.unfinished == 0:
            self._end_connection(key)

    def _end_connection(self, key: tuple[str, int, str, str]) -> None:
        connection = self._connections.pop(key)
        self._connection_table["active"][connection.slot] = 0
        self._connection_table.give_back([connection.slot])

    def _forget_flow(self, key: FlowKey) -> None:
        slot = self._slot_of.pop(key)
        del self._key_of[slot]
        self._flow_table["active"][slot] = 0
        self._gone.append(slot)

    def _info(self, key: FlowKey) -> FlowInfo:
        job, _, name = key
        if (job, name) not in self._declared:
            raise InputError(f"flow {name!r} of job {job!r} was not declared")
        return self._declared[job, name]

    def _slot(self, key: FlowKey) -> int:
        slot = self._slot_of.get(key)
        if slot is None:
            job, iteration, name = key
            self._info(key)
            raise InputError(f"flow {name!r} of job {job!r}, iteration {iteration}, is not in flight")
        return slot


def _connection_key(job: str, iteration: int, flow: FlowDeclaration) -> tuple[str, int, str, str]:
    return job, iteration, flow.src_host, flow.dst_host


def _lower(column: Floats, slot: int, value: float) -> None:
    column[slot] = min(column[slot], value)
