"""Whole tensors by how many receives a layer waits for: TicTac's timing-independent order (TIC; TIO in the paper).

Every receive costs 1. A tensor's rank is M+: the least number of receives of a layer that needs it and others. So in a
chain of layers the first two share the first rank, and go in the order in which they are ready. Nothing is measured.
With parameter servers a step pulls nothing before the last one is done, unless `crosses`.
  faithful  ranks as in the code, ties included
  fixed     a tie goes to the layer that comes first

Only pulls are put in order; pushes go as they come.

**Differs.** The original hands transfers to one channel in its order; here one is under way at a time. On an all-reduce,
which it does not treat, the all-reduce is the receive.
"""

from __future__ import annotations

from traffic.workloads.job_schedulers._tictac import SOURCE as TICTAC
from traffic.workloads.job_schedulers._tictac import Form, chain, one_by_one, places, tic_ranks
from traffic.workloads.tensors import Setting, TensorModel, TensorPlan

SOURCE = f"{TICTAC}; xldrx/tictac, tictac/tic.py"
WHOLE_TENSORS = True
WAITS_BY_LAYER = True


def plan(model: TensorModel, setting: Setting, *, crosses: bool = False, form: Form = "fixed") -> TensorPlan:
    """Tensors by their ranks."""
    count = len(model.tensors)
    ranks = tic_ranks(chain([1.0] * count), count)
    if form == "fixed":
        ranks = places(sorted(range(count), key=lambda i: (ranks[i], i)))
    return one_by_one(model, ranks, crosses=crosses)
