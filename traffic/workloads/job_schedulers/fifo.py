"""Whole tensors in the order in which their gradients become ready: frameworks as they are.

One tensor follows another, as on one connection or one NCCL stream. What comes after an iteration is the framework's:
  mxnet       a layer's forward pass waits for its own tensor (dependencies are those of its engine)
  pytorch     the next iteration waits for all tensors (`optimizer.step()`)
  tensorflow  the same with all-reduce; with parameter servers, a step pulls nothing before the last one is done
  auto        mxnet with parameter servers, pytorch with all-reduce: what ByteScheduler is compared with most

A server shards every tensor evenly, and sends each to all workers at once.

**Differs.** MXNet shards only tensors of over a million elements; here all are. TensorFlow pulls in random order: that
is `random`. Several streams or connections, which some set-ups have, are left out.
"""

from __future__ import annotations

from typing import Literal

from echelonflow.model.discipline import Window
from traffic.workloads.tensors import PARAMETER_SERVER, Setting, TensorModel, TensorPlan, whole_tensors

SOURCE = (
    "Peng et al., A Generic Communication Scheduler for Distributed DNN Training Acceleration (SOSP 2019), section 2"
)
WHOLE_TENSORS = True
KEEPS_ORDER = True

Framework = Literal["auto", "mxnet", "pytorch", "tensorflow"]


def plan(model: TensorModel, setting: Setting, *, framework: Framework = "auto") -> TensorPlan:
    """Every tensor as it is, one after the other; `framework` says what the next iteration waits for."""
    served = setting.architecture == PARAMETER_SERVER
    if framework == "auto":
        framework = "mxnet" if served else "pytorch"
    stepwise = framework == "tensorflow" and served
    return TensorPlan(
        whole_tensors(model),
        Window(slots=1),
        barrier=framework != "mxnet" and not stepwise,
        whole=True,
        pulls_wait=stepwise,
    )
