"""Sincronia's order of the Coflows in flight, anew at every event of a trace (`echelonflow.scheduling.kernels`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Bools, Floats, Ints
from echelonflow.scheduling.kernels import bssi
from echelonflow.scheduling.trace_kernels.jit import inner

_order = inner(bssi.loop)
_LEAST_BYTES = 1e-6
"""What a flow counts as that is about to end: as in snapshots."""


class Demand(NamedTuple):
    """Room to work, and the Coflows by id."""

    by_id: Ints
    present: Bools
    weight: Floats
    cell_start: Ints
    cell_link: Ints
    need_s: Floats
    own_weight: Floats
    place: Ints
    left: Floats
    load_s: Floats
    by_link: Ints
    """3 rows by link, and one place more."""
    waiting: Ints
    needed_s: Floats
    """Both by cell."""


def demand_of(coflow_id: Ints, weight: Floats, cells: int, links: int) -> Demand:
    """Room for a trace's Coflows."""
    coflows = len(coflow_id)
    return Demand(
        np.argsort(coflow_id), np.zeros(coflows, np.bool_), weight, np.zeros(coflows + 1, np.int64),
        np.zeros(cells, np.int64), np.zeros(cells), np.zeros(coflows), np.zeros(coflows, np.int64), np.zeros(coflows),
        np.zeros(links), np.zeros((4, links + 1), np.int64), np.zeros(cells, np.int64),
        np.zeros(cells),
    )  # fmt: skip


@inner
def set_places(
    demand: Demand, flows: Ints, first_cell: Ints, cell_link: Ints, cell_flows: Ints, cell_left_bytes: Floats, capacity_Bps: Floats,
    line: Ints, present: int, places: Ints,
) -> None:  # fmt: skip
    """Set the place of each Coflow of the `line` that has `flows`; `cell_left_bytes` are as of now."""
    demand.present[:] = False
    for i in range(present):
        demand.present[line[i]] = flows[line[i]] > 0
    count, room = 0, 0
    for coflow in demand.by_id:
        if not demand.present[coflow]:
            continue
        for cell in range(first_cell[coflow], first_cell[coflow + 1]):
            if cell_flows[cell] > 0:
                demand.cell_link[room] = cell_link[cell]
                demand.need_s[room] = max(cell_left_bytes[cell], _LEAST_BYTES) / capacity_Bps[cell_link[cell]]
                room += 1
        demand.own_weight[count] = demand.weight[coflow]
        count += 1
        demand.cell_start[count] = room
    _order(
        demand.cell_start[: count + 1], demand.cell_link, demand.need_s, demand.own_weight, demand.place, demand.left,
        demand.load_s, demand.by_link[0], demand.by_link[1], demand.by_link[2], demand.by_link[3],
        demand.waiting, demand.needed_s,
    )  # fmt: skip
    count = 0
    for coflow in demand.by_id:
        if demand.present[coflow]:
            places[coflow] = demand.place[count]
            count += 1
