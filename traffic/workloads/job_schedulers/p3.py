"""Small slices, the first layer's first: P3, priority-based parameter propagation.

Tensors are cut into slices of 40,000 elements, which are dealt to the servers in turn. Workers and servers send from a
priority queue each. A slice's priority is its layer, so what the next forward pass needs first overtakes the rest.

**Differs.** The original's sender hands slices to its sockets one by one and has no window. Here as many are under way
as there are servers, one for each connection; what waits in sockets is not modelled. A slice that would be smaller
than the number of ranks goes with the one before. The original is for parameter servers alone, and so is this.
"""

from __future__ import annotations

from echelonflow.model.discipline import Window
from traffic.workloads.tensors import (
    PARAMETER_SERVER,
    Setting,
    TensorModel,
    TensorPlan,
    Unit,
    check_partition,
    cut,
    part_name,
)

SOURCE = "Jayarajan et al., Priority-based Parameter Propagation for Distributed DNN Training (MLSys 2019); anandj91/p3"
ARCHITECTURES = (PARAMETER_SERVER,)
WAITS_BY_LAYER = True

SLICE_BYTES = 160_000
"""40,000 elements of four bytes."""


def plan(model: TensorModel, setting: Setting, *, slice_bytes: int = SLICE_BYTES) -> TensorPlan:
    """Every tensor in slices of `slice_bytes`, with the layer's place as priority."""
    check_partition("slice", slice_bytes, model, setting, default_bytes=SLICE_BYTES)
    units = [
        Unit(part_name(model, i, k, len(sizes)), ((i, size_bytes),), i)
        for i, sizes in cut(model, slice_bytes, setting.least_bytes)
        for k, size_bytes in enumerate(sizes)
    ]
    return TensorPlan(tuple(units), Window(slots=setting.servers), barrier=False, round_robin=True)
