"""How loops that go Coflow by Coflow have a trace in memory: side by side is what is used together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.path_rows import PathRows
from echelonflow.scheduling.trace_kernels import TraceFlows

_ROOM = 1 << 22
"""A table of so many entries is quicker than sorting, however few of them are used."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A trace's flows by Coflow, those of a Coflow by their first link: a *bundle*. A *cell* is a link of a Coflow."""

    flow: Ints
    """n: the flow of the trace that each row is. All columns of flows are in this order."""
    size_bytes: Floats
    paths: PathRows
    hop_cell: Ints
    bundle: Ints
    first_flow: Ints
    """By Coflow, and one more; as the other first ones."""
    first_bundle: Ints
    first_cell: Ints
    bundle_start: Ints
    bundle_flows: Ints
    bundle_cell: Ints
    cell_link: Ints
    cell_bytes: Floats

    def most(self) -> tuple[int, int]:
        """Cells and hops of the Coflow that has most of them."""
        return int(np.diff(self.first_cell).max()), int(np.diff(self.paths.start[self.first_flow]).max())


def layout_of(trace: TraceFlows, first_flow: Ints, *, keep_order: bool = False) -> Layout:
    """The layout of a trace whose Coflows begin with `first_flow`; to `keep_order`, a Coflow is one bundle."""
    links, coflows = len(trace.capacity_Bps), len(first_flow) - 1
    coflow = np.repeat(np.arange(coflows), np.diff(first_flow))
    link = np.zeros(len(coflow), np.int64) if keep_order else trace.paths.link[trace.paths.start[:-1]]
    bundles, bundle = _numbered(coflow * links + link, coflows * links)
    flow = np.argsort(bundle, kind="stable")
    paths, size_bytes, bundle = trace.paths.of(flow), trace.size_bytes[flow], bundle[flow]
    hops = np.diff(paths.start)
    cells, hop_cell = _numbered(np.repeat(coflow, hops) * links + paths.link, coflows * links)
    edges = np.arange(coflows + 1) * links
    first_cell = np.searchsorted(cells, edges)
    bundle_flows = np.bincount(bundle)
    return Layout(
        flow=flow,
        size_bytes=size_bytes,
        paths=paths,
        hop_cell=hop_cell,
        bundle=bundle,
        first_flow=first_flow,
        first_bundle=np.searchsorted(bundles, edges),
        first_cell=first_cell,
        bundle_start=np.cumsum(bundle_flows) - bundle_flows,
        bundle_flows=bundle_flows,
        bundle_cell=first_cell[:-1] if keep_order else np.flatnonzero(np.isin(cells, bundles)),
        cell_link=cells % links,
        cell_bytes=np.bincount(hop_cell, weights=np.repeat(size_bytes, hops), minlength=len(cells)).astype(np.float64),
    )


def _numbered(key: Ints, limit: int) -> tuple[Ints, Ints]:
    """The different keys, all below `limit`, in order, and which of them each is."""
    if limit > max(_ROOM, 4 * len(key)):
        keys, number = np.unique(key, return_inverse=True)
        return keys, number.astype(np.int64)
    there = np.zeros(limit, np.int64)
    there[key] = 1
    return np.flatnonzero(there), (np.cumsum(there) - 1)[key]
