"""Arrangement functions: how the ideal finish times of a group's flows are staggered.

Each returns the offsets o_j (seconds after the reference time, least one 0) of a group's flows in the
order of consumption. The paper's section 4 gives the closed forms; `echelonflow.model.dag.derived_offsets`
gives them for any DAG.
"""

from __future__ import annotations


def equal(flows: int) -> tuple[float, ...]:
    """A Coflow: all flows are wanted at once (paper, eq. 5)."""
    return (0.0,) * flows


def staggered(flows: int, unit_s: float) -> tuple[float, ...]:
    """A pipeline: flow j is wanted `unit_s` after flow j - 1 (paper, eq. 6)."""
    return tuple(j * unit_s for j in range(flows))


def fsdp(layers: int, forward_s: float, backward_s: float) -> tuple[float, ...]:
    """FSDP's 2n all-gathers C_0 .. C_2n-1 (paper, eq. 7), one offset for each all-gather.

    Gathers 1 .. n-1 follow at distance `forward_s`, gathers n .. 2n-1 at distance `backward_s`.
    """
    offsets = [0.0]
    for gather in range(1, 2 * layers):
        offsets.append(offsets[-1] + (forward_s if gather < layers else backward_s))
    return tuple(offsets)
