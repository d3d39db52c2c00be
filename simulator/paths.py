"""Which links the flows of a trace of Coflows take."""

from __future__ import annotations

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
    pair, which = np.unique(trace.src.astype(np.int64) * ports + trace.dst, return_inverse=True)
    paths = [_path(network, network.hosts[p // ports], network.hosts[p % ports]) for p in pair.tolist()]
    start = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(path) for path in paths], dtype=np.int64)))
    link = np.array([hop for path in paths for hop in path], np.int64)
    return PathRows(start, link).of(which)


def _path(network: Network, src: str, dst: str) -> tuple[int, ...]:
    """The path from host to host; up and down the host's own cable if they are the same."""
    if src != dst:
        return network.path(src, dst)
    up = next(link for link in network.links if link.src == src)
    down = next(link for link in network.links if link.dst == dst)
    return (up.index, down.index)
