"""What a policy sees: every released, unfinished flow at one instant, as arrays.

Arrays, not objects, because a snapshot may carry 100,000 flows. n flows, g EchelonFlows, c Coflows,
j jobs, L links. Ragged data (paths, pending bytes) is in compressed rows: row i of `path_link` is
`path_link[path_start[i]:path_start[i + 1]]`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling.steady import JobLoads


@dataclass(frozen=True, eq=False)
class GroupTable:
    """The EchelonFlows that have a flow in the snapshot; one row each, g rows."""

    id: Ints
    """Stable ids: ties are broken by the smaller one, whatever the order of rows."""
    weight: Floats
    reference_s: Floats
    """Reference time r: release of the head flow less its offset (earliest estimate until it is released)."""
    incurred_tardiness_s: Floats
    """Largest tardiness among the group's finished flows; minus infinity where none has finished."""
    job: Ints
    """g rows of `jobs`."""
    span_s: Floats
    """Largest offset of the group's flows: its last ideal finish is reference_s + span_s."""
    alone_s: Floats
    """Seconds that all bytes of the group, sent or not, need at its slowest link if nothing else is on it."""
    pending_start: Ints
    """g + 1 entries; declared but unreleased bytes of the group, by link, in compressed rows."""
    pending_link: Ints
    pending_bytes: Floats

    def weight_of_jobs(self, jobs: int) -> Floats:
        """The largest weight among the groups of each of `jobs` jobs."""
        largest: Floats = np.zeros(jobs)
        np.maximum.at(largest, self.job, self.weight)
        return largest


@dataclass(frozen=True, eq=False)
class CoflowTable:
    """The Coflows (collective grouping) that have a flow in the snapshot; one row each, c rows."""

    id: Ints
    weight: Floats
    arrival_s: Floats
    """Release of the Coflow's first flow."""
    sent_bytes: Floats
    """Bytes that the Coflow's flows have sent, finished ones included: all that a policy without foresight knows."""


@dataclass(frozen=True, eq=False)
class JobTable:
    """The jobs that have a flow in the snapshot; one row each, j rows."""

    id: Ints
    compute_s: Floats
    """GPU-seconds of computation in one iteration, over all ranks; 0 where nobody declared it."""
    alone_s: Floats
    """Seconds that the bytes of one iteration need at the job's slowest link if nothing else is on it."""


@dataclass(frozen=True, eq=False)
class ClockTable:
    """What the clocks of the jobs say (`echelonflow.model.clock`): of the n flows, and of all jobs that are under way."""

    ended_s: Floats
    """n; when the last iteration of the flow's job ended that has ended, of its first one when it began. Not a number where the job has
    no clock."""
    behind: Ints
    """n; how many iterations are to end after that one up to and with the next after the flow's own: two or more."""
    tail_s: Floats
    """n; the longest path from the flow's end to the end of the next iteration; 0 where nobody declared it."""
    to_end_s: Floats
    """n; the same to the end of the flow's own iteration."""
    layer: Ints
    """n; the flow's place in the order in which computations of an iteration wait for flows of its job; 0 where nobody declared it."""
    under_way: JobLoads
    """Jobs that have begun and not ended, whether they have a flow in the snapshot or not, in order of ids."""


@dataclass(frozen=True, eq=False)
class ConnectionTable:
    """What jobs send from one host to another in one iteration: one connection of a training framework; k rows.

    Here each flow has a connection of its own, so these are made of the flows that share both ends.
    """

    id: Ints
    sent_bytes: Floats
    """What its flows have sent, finished ones included."""
    size_bytes: Floats
    """What all its flows send in an iteration."""
    of_flow: Ints
    """n rows of this table."""


_Table = TypeVar("_Table", GroupTable, CoflowTable, JobTable, ConnectionTable)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of the network at `now_s`. Sizes are payload bytes, rates payload bytes per second."""

    now_s: float
    flow_id: Ints
    """n stable ids, unique; the order of rows carries no meaning."""
    remaining_bytes: Floats
    """n, positive."""
    sent_bytes: Floats
    release_s: Floats
    ideal_finish_s: Floats
    group: Ints
    """n rows of `groups`."""
    coflow: Ints
    """n rows of `coflows`."""
    path_start: Ints
    path_link: Ints
    capacity_Bps: Floats
    """L, positive; what a link can carry in payload, not its line rate."""
    groups: GroupTable
    coflows: CoflowTable
    jobs: JobTable
    link_names: tuple[str, ...] = ()
    """Names for messages; empty or L long."""
    clock: ClockTable | None = None
    """None where no job has declared its clock."""
    connections: ConnectionTable | None = None
    """None where nobody counted."""

    @property
    def flows(self) -> int:
        return len(self.flow_id)

    @property
    def links(self) -> int:
        return len(self.capacity_Bps)

    def link_name(self, link: int) -> str:
        return self.link_names[link] if self.link_names else f"link {link}"

    def without_sizes(self) -> Snapshot:
        """The same with every size, and every time that follows from one, not a number: what was sent stays known.

        What clocks say follows from sizes, and is left out.
        """
        groups = dataclasses.replace(
            self.groups,
            alone_s=np.full_like(self.groups.alone_s, np.nan),
            pending_bytes=np.full_like(self.groups.pending_bytes, np.nan),
        )
        jobs = dataclasses.replace(self.jobs, alone_s=np.full_like(self.jobs.alone_s, np.nan))
        unknown = np.full_like(self.remaining_bytes, np.nan)
        connections = self.connections
        if connections is not None:
            connections = dataclasses.replace(connections, size_bytes=np.full_like(connections.size_bytes, np.nan))
        return dataclasses.replace(
            self, remaining_bytes=unknown, groups=groups, jobs=jobs, clock=None, connections=connections
        )

    def beside(self, some: Bools) -> Bools:
        """n: whether a flow has a link that one of `some` (n) uses; these themselves are among them."""
        hop_flow = self.hop_flow()
        used = np.bincount(self.path_link, weights=some[hop_flow], minlength=self.links) > 0
        found: Bools = np.bincount(hop_flow, weights=used[self.path_link], minlength=self.flows) > 0
        return found

    def hop_flow(self) -> Ints:
        """For every entry of `path_link`, the row of the flow it belongs to."""
        return np.repeat(np.arange(self.flows, dtype=np.int64), np.diff(self.path_start))

    def only(self, kept: Bools) -> Snapshot:
        """The same with these of the n flows, and the groups, Coflows and jobs that still have one."""
        groups, group = _rows_in_use(self.group[kept])
        coflows, coflow = _rows_in_use(self.coflow[kept])
        jobs, job = _rows_in_use(self.groups.job[groups])
        hop_kept = kept[self.hop_flow()]
        pending_start, pending = compressed(self.groups.pending_start, groups)
        return dataclasses.replace(
            self,
            flow_id=self.flow_id[kept],
            remaining_bytes=self.remaining_bytes[kept],
            sent_bytes=self.sent_bytes[kept],
            release_s=self.release_s[kept],
            ideal_finish_s=self.ideal_finish_s[kept],
            group=group,
            coflow=coflow,
            path_start=np.concatenate((np.zeros(1, np.int64), np.cumsum(np.diff(self.path_start)[kept]))),
            path_link=self.path_link[hop_kept],
            groups=dataclasses.replace(
                _table_rows(self.groups, groups, ("pending_start", "pending_link", "pending_bytes")),
                job=job,
                pending_start=pending_start,
                pending_link=self.groups.pending_link[pending],
                pending_bytes=self.groups.pending_bytes[pending],
            ),
            coflows=_table_rows(self.coflows, coflows),
            jobs=_table_rows(self.jobs, jobs),
            clock=None
            if self.clock is None
            else ClockTable(
                self.clock.ended_s[kept],
                self.clock.behind[kept],
                self.clock.tail_s[kept],
                self.clock.to_end_s[kept],
                self.clock.layer[kept],
                self.clock.under_way,
            ),
            connections=None if self.connections is None else _connections_of(self.connections, kept),
        )


def _connections_of(table: ConnectionTable, kept: Bools) -> ConnectionTable:
    rows, of_flow = _rows_in_use(table.of_flow[kept])
    return dataclasses.replace(_table_rows(table, rows, ("of_flow",)), of_flow=of_flow)


def _rows_in_use(of: Ints) -> tuple[Ints, Ints]:
    """Rows of a table that are referred to, ascending; and the references to them, renumbered."""
    rows, references = np.unique(of, return_inverse=True)
    return rows, references.astype(np.int64)


def compressed(start: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Some rows of compressed rows: where each starts then, and the places of all that is in them."""
    lengths = np.diff(start)[rows]
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return starts, np.repeat(start[:-1][rows] - starts[:-1], lengths) + np.arange(starts[-1])


def _table_rows(table: _Table, rows: Ints, but: Collection[str] = ()) -> _Table:
    """These rows of every column of a table, but some columns."""
    columns = (column.name for column in dataclasses.fields(table) if column.name not in but)
    return dataclasses.replace(table, **{name: getattr(table, name)[rows] for name in columns})
