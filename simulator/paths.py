"""Which links the flows of a trace of Coflows take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.coflow_trace import CoflowTrace
from echelonflow.model.network import Network
from echelonflow.model.path_rows import PathRows


def trace_paths(trace: CoflowTrace, network: Network) -> PathRows:
    """The path of every flow of `trace`, in its order; InputError for ports that the network lacks."""
    ports = len(network.hosts)
    top = np.maximum(trace.src, trace.dst)
    if top.size and top.max() >= ports:
        coflow = trace.coflow_id[trace.coflow[int(np.argmax(top))]]
        raise InputError(
            f"{trace.name}: Coflow {coflow} has a flow at port {top.max()}; the network has ports 0 to {ports - 1}"
        )
    if network.spreads_connections:  # flows of a trace have no ports: each has its place in the trace for one
        ends = zip(trace.src.tolist(), trace.dst.tolist(), strict=True)
        return _rows([_path(network, network.hosts[a], network.hosts[b], place) for place, (a, b) in enumerate(ends)])
    pair, which = np.unique(trace.src.astype(np.int64) * ports + trace.dst, return_inverse=True)
    paths = [_path(network, network.hosts[p // ports], network.hosts[p % ports]) for p in pair.tolist()]
    return _rows(paths).of(which)


def _rows(paths: Sequence[Sequence[int]]) -> PathRows:
    start = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(path) for path in paths], dtype=np.int64)))
    return PathRows(start, np.array([hop for path in paths for hop in path], np.int64))


def _path(network: Network, src: str, dst: str, src_port: int | None = None) -> tuple[int, ...]:
    """The path from host to host; up and down the host's own cable if they are the same."""
    if src != dst:
        return network.path(src, dst, src_port)
    up = next(link for link in network.links if link.src == src)
    down = next(link for link in network.links if link.dst == dst)
    return (up.index, down.index)
