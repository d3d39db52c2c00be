"""Paths of many flows in compressed rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Ints
from echelonflow.model.coflow_trace import CoflowTrace
from echelonflow.model.network import Network


@dataclass(frozen=True, eq=False)
class Paths:
    """Row i takes the links `link[start[i]:start[i + 1]]`."""

    start: Ints
    link: Ints

    def of(self, rows: Ints) -> Paths:
        """The paths of `rows`."""
        begin = self.start[rows]
        length = self.start[rows + 1] - begin
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(length)))
        return Paths(start, self.link[np.repeat(begin - start[:-1], length) + np.arange(start[-1])])

    def distinct(self) -> tuple[Paths, Ints]:
        """The different paths among the rows, and which of them each row is."""
        length = np.diff(self.start)
        table = np.full((len(length), int(length.max(initial=0))), -1, np.int64)
        table[
            np.repeat(np.arange(len(length)), length), np.arange(len(self.link)) - np.repeat(self.start[:-1], length)
        ] = self.link
        _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return self.of(first), which.reshape(-1)


def trace_paths(trace: CoflowTrace, network: Network) -> Paths:
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
    return Paths(start, link).of(which)


def _path(network: Network, src: str, dst: str) -> tuple[int, ...]:
    """The path from host to host; up and down the host's own cable if they are the same."""
    if src != dst:
        return network.path(src, dst)
    up = next(link for link in network.links if link.src == src)
    down = next(link for link in network.links if link.dst == dst)
    return (up.index, down.index)
