"""The smallest tensor first: what a job scheduler looks like that is only tried out.

Whole tensors go one at a time, the smaller ones first. A layer's forward pass waits for its own tensor.

**Differs.** There is no original.
"""

from __future__ import annotations

from echelonflow.model.discipline import Window
from traffic.workloads.tensors import Setting, TensorModel, TensorPlan, whole_tensors

SOURCE = "Shortest processing time first: Smith, Various Optimizers for Single-Stage Production (1956)"
WHOLE_TENSORS = True
WAITS_BY_LAYER = True


def plan(model: TensorModel, setting: Setting, *, slots: int = 1) -> TensorPlan:
    """Tensors by their bytes, `slots` of them under way."""
    return TensorPlan(whole_tensors(model, [t.size_bytes for t in model.tensors]), Window(slots=slots), barrier=False)
