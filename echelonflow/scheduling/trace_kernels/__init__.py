"""What ends all flows of a trace of Coflows at once, as one policy would, without asking it at every event.

A policy that has such a form offers it by its function `trace_kernel` (`echelonflow.scheduling.policies`). Tests hold
each to the policy that offers it. Kernels are compiled where numba is installed (extra `fast`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.path_rows import PathRows

SIMULTANEOUS_S = 1e-9
"""Flows that would end within this time of each other end together (rounding)."""


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
    capacity_Bps: Floats
    """L"""


@dataclass(frozen=True)
class TraceKernel:
    """A policy's decisions over a whole trace."""

    finish_times: Callable[[TraceFlows], tuple[Floats, int]]
    """When each flow ends in seconds (n), and the number of events."""
    tells_flows_apart: bool
    """False: all flows have one place in its order, so that few traffic classes change nothing."""
