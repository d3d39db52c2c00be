"""Service in an order that nobody may overtake: what priority queues over TCP do, in the limit.

Coflow's own service (MADD, then spare capacity) is in `fill`; here a set of flows takes all that it can use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from echelonflow.fill import max_min, serve_in_order
from echelonflow.snapshot import Floats, Ints, Snapshot


def greedy(snapshot: Snapshot, stages: Sequence[Ints]) -> Floats:
    """Rates when each of `stages` (disjoint sets of rows, all rows among them), in order, takes what it can use.

    The flows of a stage share max-min fairly what the stages before left on their links, so no link that a flow
    could use stays idle, and no stage slows one before it: the greedy, order-preserving rates of Sincronia
    (SIGCOMM '18, section 3.2). Reads no sizes. Returns bytes/s, one per flow.
    """
    if all(len(rows) == 1 for rows in stages):
        # One flow alone takes the same by MADD, whatever its size; that way serves thousands of stages at once.
        unsized = dataclasses.replace(snapshot, remaining_bytes=np.ones(snapshot.flows))
        return serve_in_order(unsized, stages)
    residual = snapshot.capacity_Bps.copy()
    rates = np.zeros(snapshot.flows)
    share_in_order(snapshot, stages, rates, residual)
    return rates


def share_in_order(snapshot: Snapshot, stages: Sequence[Ints], rates_Bps: Floats, residual_Bps: Floats) -> None:
    """Let each of `stages`, in order, share max-min fairly what is left; adds to `rates_Bps`, uses up `residual_Bps`."""
    for rows in stages:
        rates_Bps[rows] += max_min(snapshot, rows, np.ones(len(rows)), residual_Bps)
