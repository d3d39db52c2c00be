"""Whole tensors by what their arrival unlocks: TicTac's timing-aware order (TAC; TAO in the paper).

M of a tensor is how long it takes to receive, P the computation that its arrival alone unlocks. Of two tensors a goes
before b if min(P_b, M_a) < min(P_a, M_b): then more of the waiting is covered by computation. After every choice all is
computed anew. In a chain of layers that makes the order of the layers. With parameter servers a step pulls nothing
before the last one is done, unless `crosses`.
  faithful  the comparison as in the code. It is not transitive: where it goes in a circle, the order of the list decides
  fixed     Johnson's rule, a total order that agrees with it wherever it decides by time

Only pulls are put in order; pushes go as they come.

**Differs.** As `tic`. Times are computed from bytes and the link's rate; the original measures them.
"""

from __future__ import annotations

from echelonflow.errors import InputError
from traffic.workloads.job_schedulers._tictac import SOURCE as TICTAC
from traffic.workloads.job_schedulers._tictac import Form, chain, one_by_one, places, tac_order
from traffic.workloads.tensors import Setting, TensorModel, TensorPlan

SOURCE = f"{TICTAC}; xldrx/tictac, tictac/tac.py"
WHOLE_TENSORS = True
WAITS_BY_LAYER = True


def plan(model: TensorModel, setting: Setting, *, crosses: bool = False, form: Form = "fixed") -> TensorPlan:
    """Tensors in TAC's order (InputError where the link's rate is not known)."""
    if setting.rate_Bps is None:
        raise InputError("needs the rate of a link, and here none is known; tic needs none")
    receive_s = [setting.carried_bytes(tensor.size_bytes) / setting.rate_Bps for tensor in model.tensors]
    order = tac_order(chain([tensor.forward_s for tensor in model.tensors]), receive_s, form)
    return one_by_one(model, places(order), crosses=crosses)
