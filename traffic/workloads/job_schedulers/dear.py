"""Reduce-scatter while going backward, all-gather while going forward: DeAR.

Tensors are fused into groups. Going backward, each group is reduce-scattered once its gradients are there. When all have
been, the groups are gathered in forward order. A group's gathering starts when the forward pass comes to the group before
it, so one group ahead. A layer's forward pass, and its update before it, wait for its own group.

A group takes tensors, the first ones first, as long as it stays below `bucket` bytes. With `layers` it takes so many
tensors instead.

**Differs.** The original pads each group to a multiple of the ranks, by up to that many elements. Here nothing is padded,
and parts differ by a byte. It is for a ring alone.
"""

from __future__ import annotations

from echelonflow.model.discipline import Window
from traffic.workloads.tensors import Setting, TensorModel, TensorPlan, fused

SOURCE = (
    "Zhang et al., DeAR: Accelerating Distributed Deep Learning with Fine-Grained All-Reduce Pipelining (ICDCS 2023); "
    "lzhangbv/dear_pytorch, dear/dopt_rsag.py"
)
ARCHITECTURES = ("ring", "reduce-scatter")
WHOLE_TENSORS = True
WAITS_BY_LAYER = True

GROUP_BYTES = 25 * 1024 * 1024


def plan(
    model: TensorModel, setting: Setting, *, bucket_bytes: int = GROUP_BYTES, layers: int | None = None
) -> TensorPlan:
    """Tensors fused in forward order, by bytes or, where it is given, by their number."""
    tensors = list(range(len(model.tensors)))
    if layers is not None:
        groups = [tensors[k : k + layers] for k in range(0, len(tensors), layers)]
    else:
        groups = grouped(model, bucket_bytes)
    forward = range(len(groups))
    return TensorPlan(
        fused(model, groups[::-1], forward[::-1]), Window(slots=1), barrier=False, two_phase=True, ahead=1
    )


def grouped(model: TensorModel, bucket_bytes: int) -> list[list[int]]:
    """Tensors in forward order, a new group where the next one would reach `bucket_bytes`.

    >>> from traffic.workloads.tensors import Tensor
    >>> model = TensorModel(tuple(Tensor(f"l{i}", size, 1.0, 1.0) for i, size in enumerate([9, 2, 4, 1, 3])))
    >>> grouped(model, 7)
    [[0], [1, 2], [3, 4]]
    """
    groups: list[list[int]] = []
    size_bytes = 0
    for i, tensor in enumerate(model.tensors):
        if groups and size_bytes + tensor.size_bytes < bucket_bytes:
            groups[-1].append(i)
            size_bytes += tensor.size_bytes
        else:
            groups.append([i])
            size_bytes = tensor.size_bytes
    return groups
