"""What ideal overlap could make of a training iteration: the least time that any order of a job's tensors can reach.

**Why it holds.** Forward passes go through layers 0, 1, .., n - 1, backward passes through n - 1, .., 0, on one GPU.
Let d be the time from the end of the last layer's backward pass to the start of its next forward pass. Then one
iteration takes that layer's two passes and d. All else has to fit into d. There is something to send of layer i once layers
n - 2, .., i have gone backward (its *head*). What follows once all of it has come are the forward passes of layers
i, .., n - 2 (its *tail*). In between, its bytes occupy each link that they cross. Forget all links but one, let
partitions be as small as one likes and let them be interrupted at will. Then d is at least what one machine needs for tasks
with heads and tails, and the rule "longest tail first" reaches that (Jackson; Carlier, EJOR 1982). The longest tail is that
of the lowest layer. So this is also the proof that layer priority is optimal on one link. The bound is the largest
over links. It is never less than all computations together, nor than all bytes of an iteration on one link.

**What it leaves out** only makes real iterations longer: latencies, partitions that are not divided further, a barrier
between iterations, and windows. Nor does it know that a byte can be pulled only after it was pushed and added up.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from echelonflow.errors import InputError
from echelonflow.scheduling.bounds.iterations import one_machine_s


@dataclass(frozen=True)
class OverlapBound:
    """Seconds of one iteration: `least_s` is the bound, the others are what it is made of."""

    least_s: float
    compute_s: float
    """Both passes through all layers: an iteration whose communication costs nothing."""
    communication_s: float
    """What the busiest link needs for all bytes of an iteration."""

    @property
    def serial_s(self) -> float:
        """An iteration in which nothing overlaps."""
        return self.compute_s + self.communication_s

    @property
    def intensity(self) -> float:
        """Communication as a share of computation."""
        return self.communication_s / self.compute_s


def overlap_bound(
    forward_s: Sequence[float], backward_s: Sequence[float], busy_s: Sequence[Sequence[float]]
) -> OverlapBound:
    """The bound for layers in forward order; `busy_s[link][layer]` is how long a layer's bytes hold a link at full rate.

    Raises InputError where the lists do not have one entry per layer, and for times that are negative.
    """
    layers = len(forward_s)
    if layers < 1 or any(len(times_s) != layers for times_s in (backward_s, *busy_s)):
        raise InputError(f"overlap bound: {layers} forward times; every other list needs as many, and at least one")
    if min((min(times_s) for times_s in (forward_s, backward_s, *busy_s)), default=0.0) < 0:
        raise InputError("overlap bound: a time is negative")
    # What lies between the last layer's backward pass and layer i's, and between layer i's forward pass and the last one's.
    head_s = list(itertools.accumulate(reversed(backward_s[:-1]), initial=0.0))[::-1]
    tail_s = list(itertools.accumulate(reversed(forward_s[:-1]), initial=0.0))[::-1]
    turning_s = forward_s[-1] + backward_s[-1]
    compute_s = sum(forward_s) + sum(backward_s)
    least_s = compute_s
    for held_s in busy_s:
        tasks = [(head, tail, held) for head, tail, held in zip(head_s, tail_s, held_s, strict=True) if held > 0]
        least_s = max(least_s, turning_s + one_machine_s(tasks))
    return OverlapBound(least_s, compute_s, max(map(sum, busy_s), default=0.0))
