"""From jobs on a network to the plan of `tables`, in columns from the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.dag import Compute, Job
from echelonflow.model.edges import Edges, edges_between
from echelonflow.model.network import Network
from echelonflow.scheduling.correction import begin_and_rest_s
from echelonflow.scheduling.snapshot import compressed
from echelonflow.scheduling.steady import JobLoads
from echelonflow.wire.declare import declarations
from echelonflow.wire.messages import Declare, FlowClock, FlowDeclaration, JobGraph
from simulator.columns.tables import (
    COMPUTE,
    FLOW,
    FLOW_GROUP,
    FLOW_INDEX,
    GROUP_FIRST_CELL,
    GROUP_FIRST_PART,
    GROUP_JOB,
    JOB_PLACE,
    LOCAL,
    Plan,
)


@dataclass(frozen=True, eq=False)
class Asked:
    """A plan, and what its declared flows are called."""

    plan: Plan
    declared: list[tuple[Declare, FlowDeclaration]]
    capacity_Bps: Floats
    clocks: Clocks | None
    """None where they are not asked for."""


@dataclass(frozen=True, eq=False)
class Clocks:
    """What the clocks of all jobs say."""

    loads: JobLoads
    """Of all jobs; those without flows bring nothing to any link."""

    def in_order(self, jobs: Ints) -> Ints:
        """Some jobs, given by their places in `loads`, in the order of their ids."""
        return jobs[np.argsort(self.loads.id[jobs], kind="stable")]

    def of(self, jobs: Ints) -> JobLoads:
        """The loads of some jobs, in order."""
        loads = self.loads
        start, entries = compressed(loads.link_start, jobs)
        return JobLoads(
            loads.id[jobs],
            loads.iteration_s[jobs],
            start,
            loads.link[entries],
            loads.load_s[entries],
            loads.compute_s[jobs],
            loads.begin_s[jobs],
            loads.rest_s[jobs],
        )


@dataclass(frozen=True, eq=False)
class Outline:
    """What a plan needs of a job beside its declarations: its steps, and what they wait for."""

    name: str
    iterations: int
    duration_s: Floats
    """Of each step: 0 of transfers."""
    computes: npt.NDArray[np.bool_]
    step_of_flow: Ints
    """By index of flow, its step; of transfers within a host too, where they have an index."""
    edges: Edges

    @staticmethod
    def of(job: Job) -> Outline:
        """The outline of a job."""
        computes = np.array([isinstance(step, Compute) for step in job.dag.steps])
        duration_s = np.zeros(len(computes))
        duration_s[computes] = [step.duration_s for step in job.dag.computes]
        return Outline(job.name, job.iterations, duration_s, computes, np.flatnonzero(~computes), job.dag.edges)

    @staticmethod
    def told(graph: JobGraph, iterations: int) -> Outline:
        """The outline of a job that told its graph, for so many iterations."""
        flow = np.array([step.flow for step in graph.steps], np.int64)
        duration_s = np.array([step.duration_s for step in graph.steps])
        step_of_flow = np.full(int(flow.max(initial=-1)) + 1, -1)
        step_of_flow[flow[flow >= 0]] = np.flatnonzero(flow >= 0)
        earlier, later = (np.array([pair[end] for pair in graph.next_iteration], np.int64) for end in (0, 1))
        edges = edges_between([step.after for step in graph.steps], earlier, later)
        return Outline(graph.job, iterations, duration_s, flow < 0, step_of_flow, edges)


def asked_of(
    jobs: Sequence[Job], network: Network, profiles: Sequence[Job] | None = None, *, clocks: bool = False
) -> Asked:
    """The plan of `jobs`, whose groups are declared as those of any run; with what their clocks say only if that is asked for.

    What is declared is that of `profiles`, if there are any: the same jobs with other computations.
    """
    given = declarations(profiles or jobs, ahead=False, network=network if clocks else None)
    return asked_by(given, [Outline.of(job) for job in jobs], network, clocks=clocks)


def asked_by(given: Sequence[Declare], jobs: Sequence[Outline], network: Network, *, clocks: bool = False) -> Asked:
    """The plan of jobs with these outlines and declarations, which are in the same order, those of a job side by side."""
    declared = [(group, flow) for group in given for flow in group.flows]
    capacity_Bps = np.array(network.capacity_Bps, np.float64)
    job_of = {job.name: i for i, job in enumerate(jobs)}
    group_job = np.array([job_of[group.job] for group in given], np.int64)
    flow_group = np.repeat(np.arange(len(given)), np.array([len(group.flows) for group in given], np.int64))
    parts = _parts(given, group_job)
    path_start, links = _paths(declared, network)
    size_bytes, index = (
        np.array([getattr(flow, name) for _, flow in declared], np.int64) for name in ("size_bytes", "index")
    )
    offset_s = np.array([flow.offset_s for _, flow in declared], np.float64)
    flows = _matrix(size_bytes, index, flow_group, parts.of_flow, path_start)
    cells = _cells(flow_group, size_bytes, path_start, links, capacity_Bps)
    groups, group_floats = _groups(given, group_job, flows, offset_s, parts, cells)
    first_step = _before([len(job.duration_s) for job in jobs])
    by_part = np.argsort(parts.of_flow, kind="stable")
    first_in_part = _first(parts.of_flow[by_part], len(parts.group))[:-1]
    plan = Plan(
        *_steps(jobs, first_step, group_job[flow_group], index),
        *_jobs(jobs, first_step, groups, parts),
        groups=groups,
        group_floats=group_floats,
        parts=_matrix(parts.coflow, _of_each(np.minimum, index[by_part], first_in_part), parts.group),
        cells=_matrix(cells.link, cells.size_bytes),
        flows=flows,
        offset_s=offset_s,
        clock=np.stack([_of_clocks(declared, what) for what in ("lead_s", "rest_s", "tail_s", "to_end_s", "layer")]),
        hops=_matrix(links, cells.of_hop),
        drawn_s=np.zeros(0),
    )
    for group in given:
        plan.job_floats[0, job_of[group.job]] = group.compute_s
    loads = _loads(group_job, cells, capacity_Bps)
    np.maximum.at(plan.job_floats[1], loads.job, loads.load_s)
    if not clocks:
        return Asked(plan, declared, capacity_Bps, None)
    known = _clocks(given, group_job, plan.jobs[JOB_PLACE, :-1], loads)
    return Asked(plan, declared, capacity_Bps, Clocks(known))


def _of_clocks(declared: Sequence[tuple[Declare, FlowDeclaration]], what: str) -> Floats:
    """What clocks say of each declared flow; nothing where they were not asked."""
    return np.array([getattr(flow.clock, what) for _, flow in declared if flow.clock is not None], np.float64)


def _clocks(given: Sequence[Declare], group_job: Ints, place: Ints, loads: _Loads) -> JobLoads:
    iteration_s, compute_s = np.zeros(len(place)), np.zeros(len(place))
    clocks: list[list[FlowClock]] = [[] for _ in place]
    for group, job in zip(given, group_job.tolist(), strict=True):
        compute_s[job] = group.compute_s
        clocks[job] += [flow.clock for flow in group.flows if flow.clock is not None]
        if group.clock is not None:
            iteration_s[job] = group.clock.iteration_s
    begin_s, rest_s = np.array([begin_and_rest_s(one) for one in clocks], np.float64).reshape(-1, 2).T
    first = _first(loads.job, len(place))
    return JobLoads(place, iteration_s, first, loads.link, loads.load_s, compute_s, begin_s, rest_s)


def _paths(flows: Sequence[tuple[Declare, FlowDeclaration]], network: Network) -> tuple[Ints, Ints]:
    """The links of all flows, and where those of each begin."""
    numbers: dict[tuple[str, str, int | None], int] = {}
    spread = network.spreads_connections
    ways = ((flow.src_host, flow.dst_host, flow.src_port if spread else None) for _, flow in flows)
    number = np.array([numbers.setdefault(way, len(numbers)) for way in ways], np.int64)
    paths = [network.path(*way) for way in numbers]
    hops = np.array([len(path) for path in paths], np.int64)
    table = np.full((len(paths), int(hops.max(initial=0))), -1, np.int64)
    for row, path in zip(table, paths, strict=True):
        row[: len(path)] = path
    links = table[number].reshape(-1)
    return _before(hops[number]), links[links >= 0]


@dataclass(frozen=True, eq=False)
class _Cells:
    """What groups bring to links: a cell for each link of each group."""

    group: Ints
    link: Ints
    size_bytes: Ints
    alone_s: Floats
    """Time that the cell needs if nothing else is on the link."""
    of_hop: Ints
    """Which of its group's cells each hop of a flow is."""


def _cells(flow_group: Ints, size_bytes: Ints, path_start: Ints, links: Ints, capacity_Bps: Floats) -> _Cells:
    hop_flow = np.repeat(np.arange(len(flow_group)), np.diff(path_start))
    cell, volume_bytes, of_hop = _sums(flow_group[hop_flow] * len(capacity_Bps) + links, size_bytes[hop_flow])
    group, link = np.divmod(cell, len(capacity_Bps))
    of_hop -= np.searchsorted(group, flow_group[hop_flow])
    return _Cells(group, link, volume_bytes, volume_bytes / capacity_Bps[link], of_hop)


def _groups(
    given: Sequence[Declare], group_job: Ints, flows: Ints, offset_s: Floats, parts: _Parts, cells: _Cells
) -> tuple[Ints, Floats]:
    first_flow, first_cell = _first(flows[FLOW_GROUP, :-1], len(given)), _first(cells.group, len(given))
    begin = first_flow[:-1]
    numbers = _matrix(
        group_job,
        _of_each(np.minimum, flows[FLOW_INDEX, :-1], begin),
        np.diff(first_flow),
        _first(parts.group, len(given)),
        first_cell,
    )
    weight = np.array([group.weight for group in given], np.float64)
    head_s, span_s = _of_each(np.minimum, offset_s, begin), _of_each(np.maximum, offset_s, begin)
    return numbers, np.stack((weight, head_s, span_s, _of_each(np.maximum, cells.alone_s, first_cell[:-1])))


@dataclass(frozen=True, eq=False)
class _Parts:
    of_flow: Ints
    group: Ints
    coflow: Ints
    coflow_job: Ints
    """By Coflow."""


def _parts(given: Sequence[Declare], group_job: Ints) -> _Parts:
    part: list[int] = []
    part_group: list[int] = []
    part_coflow: list[int] = []
    coflows: dict[tuple[int, str], int] = {}
    for g, (group, job) in enumerate(zip(given, group_job.tolist(), strict=True)):
        parts: dict[str, int] = {}
        for flow in group.flows:
            if flow.coflow not in parts:
                parts[flow.coflow] = len(part_group)
                part_group.append(g)
                part_coflow.append(coflows.setdefault((job, flow.coflow), len(coflows)))
            part.append(parts[flow.coflow])
    coflow_job = np.array([job for job, _ in coflows], np.int64)
    return _Parts(np.array(part, np.int64), np.array(part_group, np.int64), np.array(part_coflow, np.int64), coflow_job)


def _steps(jobs: Sequence[Outline], first_step: Ints, flow_job: Ints, flow_index: Ints) -> tuple[Ints, Floats, Ints]:
    """The steps, their durations, and their edges."""
    kinds = [np.where(job.computes, COMPUTE, LOCAL) for job in jobs]
    transfers = [first + job.step_of_flow for job, first in zip(jobs, first_step.tolist(), strict=False)]
    kind, flow = np.concatenate(kinds), np.full(int(first_step[-1]), -1)
    first_transfer = _before([len(each) for each in transfers])
    step = np.concatenate(transfers)[first_transfer[flow_job] + flow_index]
    kind[step], flow[step] = FLOW, np.arange(len(step))
    edges = [job.edges for job in jobs]
    needs, needs_previous = (
        np.concatenate([getattr(each, name) for each in edges]) for name in ("needs", "needs_previous")
    )
    after_start, after = _joined([(each.after_start, each.after) for each in edges], first_step)
    next_start, following = _joined([(each.next_start, each.next) for each in edges], first_step)
    steps = _matrix(kind, flow, needs, needs_previous, after_start, len(after) + next_start)
    return steps, np.concatenate([job.duration_s for job in jobs]), np.concatenate((after, following))


def _jobs(jobs: Sequence[Outline], first_step: Ints, groups: Ints, parts: _Parts) -> tuple[Ints, Floats, Ints]:
    """The jobs, with room for what they compute and how long they take alone; and steps that can be the first."""
    iterations = np.array([job.iterations for job in jobs], np.int64)
    first_group = _first(groups[GROUP_JOB, :-1], len(jobs))
    first_part, first_coflow = groups[GROUP_FIRST_PART][first_group], _first(parts.coflow_job, len(jobs))
    ready = [np.flatnonzero(job.edges.needs == 0) for job in jobs]
    once = [job.edges.needs_previous[places] > 0 for job, places in zip(jobs, ready, strict=True)]
    starts = [places + first for places, first in zip(ready, first_step.tolist(), strict=False)]
    with_flows = np.diff(first_group) > 0
    place = np.zeros(len(jobs), np.int64)
    names = [job.name for job, some in zip(jobs, with_flows.tolist(), strict=True) if some]
    place[with_flows] = np.argsort(np.argsort(np.array(names, object), kind="stable"), kind="stable")
    piece = [1 << (length - 1).bit_length() for length in np.diff(groups[GROUP_FIRST_CELL]).tolist()]
    pieces = [piece[a:b] for a, b in zip(first_group.tolist(), first_group[1:].tolist(), strict=False)]
    first = (first_step, first_group, first_part, first_coflow)
    columns = _matrix(
        iterations,
        place,
        np.array([max(each, default=0) for each in pieces]),
        np.array([sum(each) for each in pieces]),
        *first,
        *(_before(np.diff(each) * iterations) for each in first),
        _before([len(places) for places in ready]),
        _before(iterations),
    )
    return columns, np.zeros((2, len(jobs))), np.stack((np.concatenate(starts), np.concatenate(once)))


@dataclass(frozen=True, eq=False)
class _Loads:
    """What one iteration of a job brings to a link, by job and then link."""

    job: Ints
    link: Ints
    load_s: Floats
    """Seconds that its bytes need there, alone."""


def _loads(group_job: Ints, cells: _Cells, capacity_Bps: Floats) -> _Loads:
    key, size_bytes, _ = _sums(group_job[cells.group] * len(capacity_Bps) + cells.link, cells.size_bytes)
    job, link = np.divmod(key, len(capacity_Bps))
    return _Loads(job, link, size_bytes / capacity_Bps[link])


def _matrix(*columns: Ints) -> Ints:
    """Columns as rows of a matrix, as long as the longest; zeros fill it up."""
    found = np.zeros((len(columns), max(map(len, columns))), np.int64)
    for row, column in zip(found, columns, strict=True):
        row[: len(column)] = column
    return found


def _sums(key: Ints, value: Ints) -> tuple[Ints, Ints, Ints]:
    """The different keys, ascending, the sum of the values of each, and which of them each is."""
    keys, which = np.unique(key, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, which, value)
    return keys, sums, which.astype(np.int64)


def _of_each(what: np.ufunc, values: np.ndarray, first: Ints) -> np.ndarray:
    """The least or the largest of the values from each `first` to the next."""
    found: np.ndarray = what.reduceat(values, first) if len(first) else values[:0]
    return found


def _before(counts: Sequence[int] | Ints) -> Ints:
    """How many there are before each, and in all."""
    start = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=start[1:])
    return start


def _first(of: Ints, rows: int) -> Ints:
    """Where in `of`, which does not fall, each of so many rows begins; and its length."""
    return np.searchsorted(of, np.arange(rows + 1)).astype(np.int64)


def _joined(rows: Sequence[tuple[Ints, Ints]], first: Ints) -> tuple[Ints, Ints]:
    """Compressed rows one after the other; the values of each are counted from its `first` on."""
    before = _before([len(values) for _, values in rows])
    starts = [start[:-1] + at for (start, _), at in zip(rows, before.tolist(), strict=False)]
    values = [each + at for (_, each), at in zip(rows, first.tolist(), strict=False)]
    return np.concatenate([*starts, before[-1:]]), np.concatenate(values)
