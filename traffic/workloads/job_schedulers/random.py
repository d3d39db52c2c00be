"""Whole tensors in an order drawn by lot: what TicTac found in TensorFlow, and starts from.

With parameter servers a step pulls nothing before the last one is done, and a layer's forward pass waits for its own
tensor. With `crosses` a tensor is pulled as soon as it is updated. Only pulls are put in order; pushes go as they come.

**Differs.** TensorFlow draws anew in every iteration and at every worker. Here one order, drawn from `seed`, holds for
all. On an all-reduce, which TicTac does not treat, it is the all-reduce that is ordered.
"""

from __future__ import annotations

from random import Random

from traffic.workloads.job_schedulers._tictac import SOURCE as TICTAC
from traffic.workloads.job_schedulers._tictac import one_by_one
from traffic.workloads.tensors import Setting, TensorModel, TensorPlan

SOURCE = f"{TICTAC}, section 2"
WHOLE_TENSORS = True
WAITS_BY_LAYER = True


def plan(model: TensorModel, setting: Setting, *, seed: int = 1, crosses: bool = False) -> TensorPlan:
    """A random order of all tensors; the same for the same `seed`."""
    order = list(range(len(model.tensors)))
    Random(seed).shuffle(order)
    return one_by_one(model, order, crosses=crosses)
