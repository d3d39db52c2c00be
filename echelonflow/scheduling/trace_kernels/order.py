"""The order of Coflows, kept from event to event."""

from __future__ import annotations

from echelonflow.model.arrays import Ints
from echelonflow.scheduling.trace_kernels.jit import inner


@inner
def _is_before(keys: Ints, one: int, other: int) -> bool:
    for key in range(4):
        if keys[key, one] != keys[key, other]:
            return bool(keys[key, one] < keys[key, other])
    return False


@inner
def sort_coflows(keys: Ints, line: Ints, present: int) -> None:
    """Put Coflows in order; they are nearly so already. `keys` are four for each Coflow, smallest first."""
    for i in range(1, present):
        coflow, k = line[i], i
        while k > 0 and _is_before(keys, coflow, line[k - 1]):
            line[k] = line[k - 1]
            k -= 1
        line[k] = coflow
