"""A declared group with what follows from it on a network: paths, bytes on each link, time alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.network import Network
from echelonflow.wire.messages import Declare, FlowDeclaration

INDEX_BITS = 24
"""A flow's index in its job has so many bits of a stable id."""


@dataclass(frozen=True, slots=True)
class FlowInfo:
    """A flow of a declared group.

    `place` is its row in the group, `cells` are the places of its path's links in the group's `links`.
    """

    declaration: FlowDeclaration
    group: str
    place: int
    path: tuple[int, ...]
    cells: Ints


@dataclass(frozen=True, eq=False)
class GroupInfo:
    """A declared group. `links` are all links that its flows use, in ascending order."""

    declaration: Declare
    flows: Mapping[str, FlowInfo]
    first_index: int
    """The smallest index of its flows."""
    coflow_index: Mapping[str, int]
    """The smallest index of the flows of each of its Coflows."""
    head_offset_s: float
    span_s: float
    links: Ints
    volume_bytes: Ints
    """What the group's flows bring to each of `links`, together."""
    alone_s: float


def group_info(group: Declare, network: Network, capacity_Bps: Floats, taken: Collection[tuple[str, str]]) -> GroupInfo:
    """What follows from a declaration; `capacity_Bps` is the network's, `taken` has the (job, flow) declared already.

    Raises InputError where the group has no flows, or a flow is declared already or has no bytes, no path, or an offset
    or index that makes no sense. It also does where the weight or the computing time is not one.
    """
    what = f"group {group.group!r} of job {group.job!r}"
    if not group.flows:
        raise InputError(f"{what} has no flows")
    if not (group.weight > 0 and math.isfinite(group.weight)):
        raise InputError(f"{what}: weight {group.weight} is not positive")
    if not (group.compute_s >= 0 and math.isfinite(group.compute_s)):
        raise InputError(f"{what}: compute_s {group.compute_s} is not a time: it must be finite and not negative")
    paths: dict[str, tuple[int, ...]] = {}
    coflow_index: dict[str, int] = {}
    for flow in group.flows:
        if flow.flow in paths or (group.job, flow.flow) in taken:
            raise InputError(f"flow {flow.flow!r} of job {group.job!r} is declared already")
        paths[flow.flow] = _path(flow, group.job, network)
        coflow_index[flow.coflow] = min(flow.index, coflow_index.get(flow.coflow, flow.index))
    hops = [link for path in paths.values() for link in path]
    links, cells = np.unique(np.array(hops, np.int64), return_inverse=True)
    starts = np.cumsum([0, *map(len, paths.values())])
    sizes = np.array([flow.size_bytes for flow in group.flows], np.int64)
    volume = np.zeros(len(links), np.int64)
    np.add.at(volume, cells, np.repeat(sizes, np.diff(starts)))
    offsets = [flow.offset_s for flow in group.flows]
    return GroupInfo(
        declaration=group,
        flows={
            flow.flow: FlowInfo(flow, group.group, i, paths[flow.flow], cells[starts[i] : starts[i + 1]])
            for i, flow in enumerate(group.flows)
        },
        first_index=min(flow.index for flow in group.flows),
        coflow_index=coflow_index,
        head_offset_s=min(offsets),
        span_s=max(offsets),
        links=links,
        volume_bytes=volume,
        alone_s=float(np.max(volume / capacity_Bps[links])),
    )


def _path(flow: FlowDeclaration, job: str, network: Network) -> tuple[int, ...]:
    what = f"flow {flow.flow!r} of job {job!r}"
    if flow.size_bytes <= 0:
        raise InputError(f"{what} has {flow.size_bytes} bytes; a size must be positive")
    if not (flow.offset_s >= 0 and math.isfinite(flow.offset_s)):
        raise InputError(f"{what} has offset {flow.offset_s} s; an offset is finite and not negative")
    if not 0 <= flow.index < 1 << INDEX_BITS:
        raise InputError(f"{what} has index {flow.index}; it must lie in 0 to {(1 << INDEX_BITS) - 1}")
    for host in (flow.src_host, flow.dst_host):
        if host not in network.edge_switch:
            raise InputError(f"{what} names host {host!r}, which the network does not have")
    path = network.path(flow.src_host, flow.dst_host, flow.src_port)
    if not path:
        raise InputError(f"{what} goes from {flow.src_host} to itself; only flows on the network are declared")
    return path
