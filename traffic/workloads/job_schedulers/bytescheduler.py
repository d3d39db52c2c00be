"""Partitions by layer in a window of credit: ByteScheduler.

A tensor is cut into even partitions of at most `partition`. Those of earlier layers go first. A partition starts while any
credit is left, so the last one may overdraw it, and its bytes come back when it has been sent. A layer's forward pass
waits for its own partitions; with `barrier` it waits for all, as where the framework's barrier is not crossed.

The original counts in elements, 1,000,000 and 4,000,000 by default; here they are bytes, 4 for each. Its documents advise
32 and 64 MB for all-reduce. With `overdraw=false` only what fits is started, and smaller partitions overtake: BytePS.
Its faults are in the first of two forms:
  faithful  as in the code: the priority is 1000 times the layer plus the partition, so beyond 1,000 partitions layers
            mix. The tuner writes one variable and posting reads another: `partition` has no effect, tensors are cut at 4 MB
  fixed     layers never mix, and `partition` is what tensors are cut at

With parameter servers a push and its pull are one task: the pull follows when the server has updated, neither counted nor
held. Partitions are dealt to the servers in turn.

**Differs.** Of an all-reduce, the original's credit comes back when it is over; here, when this rank has sent its part of
a round. The original cuts along a tensor's rows, and a push waits until all workers are ready for it. Only the first
worker's credit is tuned there; here all ranks have the same.
"""

from __future__ import annotations

from typing import Literal

from echelonflow.errors import InputError
from echelonflow.model.discipline import Window
from echelonflow.model.units import format_size
from traffic.workloads.tensors import (
    Setting,
    TensorModel,
    TensorPlan,
    Unit,
    check_credit,
    check_partition,
    cut,
    part_name,
)

SOURCE = (
    "Peng et al., A Generic Communication Scheduler for Distributed DNN Training Acceleration (SOSP 2019); "
    "bytedance/byteps, branch bytescheduler, bytescheduler/common/bytecore.py"
)

PARTITION_BYTES = 4_000_000
CREDIT_BYTES = 16_000_000
_PARTS_OF_A_LAYER = 1000

Form = Literal["faithful", "fixed"]


def plan(
    model: TensorModel,
    setting: Setting,
    *,
    partition_bytes: int = PARTITION_BYTES,
    credit_bytes: int = CREDIT_BYTES,
    overdraw: bool = True,
    barrier: bool = False,
    form: Form = "fixed",
) -> TensorPlan:
    """Every tensor in partitions of `partition_bytes`, at most `credit_bytes` of them under way."""
    check_partition("partition", partition_bytes, model, setting, default_bytes=PARTITION_BYTES)
    check_credit("credit", credit_bytes, model, default_bytes=CREDIT_BYTES)
    faithful = form == "faithful"
    size_bytes = PARTITION_BYTES if faithful else partition_bytes
    parts = cut(model, size_bytes, setting.least_bytes, evenly=True)
    each = _PARTS_OF_A_LAYER if faithful else max(len(sizes) for _, sizes in parts)
    units = [
        Unit(part_name(model, i, k, len(sizes)), ((i, part_bytes),), i * each + k)
        for i, sizes in parts
        for k, part_bytes in enumerate(sizes)
    ]
    largest_bytes = max(unit.size_bytes for unit in units)
    if not overdraw and largest_bytes > credit_bytes:
        raise InputError(
            f"credit: {format_size(credit_bytes)} is less than a partition and may not be overdrawn, so it would never "
            f"start; at least {largest_bytes} B would do"
        )
    window = Window(credit_bytes=credit_bytes, overdraw=overdraw)
    return TensorPlan(tuple(units), window, barrier, pull_with_push=True, round_robin=True)
