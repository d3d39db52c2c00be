"""Buckets of gradients, one all-reduce after another: PyTorch's DistributedDataParallel.

A bucket takes tensors until it holds `bucket` bytes or more. The first one is smaller (`first`), so that something is sent
early. All buckets go in order on one stream, and the optimizer waits for all of them.
  rebuilt     buckets are filled in the order in which gradients came, as from the second iteration on
  registered  in the order in which parameters were defined, then the list is reversed: as it stays with
              `find_unused_parameters=True`. Then the *last* bucket is the small one, with the first layers in it

**Differs.** In the very first iteration current releases fill one bucket with everything, and rebuild it after. Here all
iterations are alike. What is registered and what comes first differ in order alone, as a model is a chain of layers.
Broadcasts of buffers are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from echelonflow.model.discipline import Window
from traffic.workloads.paradigms._layers import BUCKET_BYTES
from traffic.workloads.tensors import COLLECTIVES, Setting, TensorModel, TensorPlan, fused

SOURCE = (
    "Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training (VLDB 2020); "
    "pytorch/pytorch, torch/nn/parallel/distributed.py and torch/csrc/distributed/c10d/reducer.cpp"
)
ARCHITECTURES = COLLECTIVES
WHOLE_TENSORS = True
KEEPS_ORDER = True

FIRST_BYTES = 1024 * 1024
"""PyTorch's `_DEFAULT_FIRST_BUCKET_BYTES`."""

Order = Literal["rebuilt", "registered"]


def plan(
    model: TensorModel,
    setting: Setting,
    *,
    bucket_bytes: int = BUCKET_BYTES,
    first_bytes: int = FIRST_BYTES,
    order: Order = "rebuilt",
) -> TensorPlan:
    """Tensors fused into buckets of `bucket_bytes`, one of them of `first_bytes`."""
    tensors = range(len(model.tensors))
    if order == "rebuilt":
        groups = assigned(model, reversed(tensors), first_bytes, bucket_bytes)
    else:
        groups = [group[::-1] for group in reversed(assigned(model, tensors, first_bytes, bucket_bytes))]
    return TensorPlan(fused(model, groups), Window(slots=1), barrier=True, whole=True)


def assigned(model: TensorModel, tensors: Iterable[int], first_bytes: int, bucket_bytes: int) -> list[list[int]]:
    """PyTorch's `compute_bucket_assignment_by_size`: a bucket is closed once it has reached its limit.

    >>> from traffic.workloads.tensors import Tensor
    >>> model = TensorModel(tuple(Tensor(f"l{i}", size, 1.0, 1.0) for i, size in enumerate([6, 5, 4, 3, 2])))
    >>> assigned(model, [4, 3, 2, 1, 0], 1, 7)
    [[4], [3, 2], [1, 0]]
    """
    groups: list[list[int]] = []
    group: list[int] = []
    size_bytes, limit_bytes = 0, first_bytes
    for tensor in tensors:
        group.append(tensor)
        size_bytes += model.tensors[tensor].size_bytes
        if size_bytes >= limit_bytes:
            groups.append(group)
            group, size_bytes, limit_bytes = [], 0, bucket_bytes
    return [*groups, group] if group else groups
