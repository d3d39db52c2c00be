"""Ends all flows of a trace of Coflows at once, as a policy's form says, without asking the policy at every event.

Three loops do it: flow by flow (`flow_by_flow`), Coflow by Coflow (`in_turn`, `coflow_sharing`), and all flows alike
(`fair_sharing`). `orders` says what of a form each goes by. None of them knows a policy; tests hold every policy that has
a form to what comes out. They are compiled where numba is installed (extra `fast`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.path_rows import PathRows
from echelonflow.scheduling.forms import Form

SIMULTANEOUS_S = 1e-9
"""Flows that would end within this time of each other end together (rounding)."""

Ended = tuple[Floats, int]
"""When each flow of a trace ends in seconds, and the number of events."""


@dataclass(frozen=True, eq=False)
class TraceFlows:
    """n flows in order of release, those of c Coflows side by side, on L links."""

    paths: PathRows
    """n rows."""
    size_bytes: Floats
    first_flow: Ints
    """c + 1: Coflow i has the flows from `first_flow[i]` to `first_flow[i + 1]`."""
    arrival_s: Floats
    """c, does not fall: when all flows of a Coflow are released."""
    coflow_id: Ints
    weight: Floats
    alone_s: Floats
    """c; seconds that its bytes need at its slowest link if nothing else is on it."""
    capacity_Bps: Floats
    """L"""


def loop_of(form: Form) -> Callable[[Form, TraceFlows], Ended | None] | None:
    """What runs whole traces as `form` says; None if nothing does. It answers None for a trace that it cannot run."""
    name = _loop_name(form)
    if name is None:
        return None

    def run(form: Form, trace: TraceFlows) -> Ended | None:
        loop: Any = importlib.import_module(f"{__name__}.{name}")  # loads the compiler
        ended: Ended | None = loop.finish_times(form, trace)
        return ended

    return run


def _loop_name(form: Form) -> str | None:
    if form.serve in {"madd", "paced"}:
        return "coflow_sharing"
    if form.serve == "queues":
        return "in_turn"
    if not form.keys:
        return "fair_sharing"
    if any(key.of == "flow" and key.measure not in {"release_s", "due_s"} for key in form.keys):
        return "flow_by_flow"
    return "in_turn"
