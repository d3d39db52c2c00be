"""What a policy decides, said as data: the keys of its order, and how those with one place are served.

A policy's `allocate` is a function that nobody can look into. Its form says the same in words that compiled loops know,
so that they can keep an order from event to event, and decide without a policy being asked. `allocate` stays what
counts: tests hold every form to it. A policy offers one by its function `form` (`echelonflow.scheduling.policies`).

The words are measures of flows and sets of flows, not names of policies. A policy that needs another measure has no
form, and is asked at every decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Fixed = Literal[
    "id", "drawn", "release_s", "due_s", "alone_s", "weight", "intensity", "clock_s", "own_clock_s", "end_clock_s",
    "own_end_clock_s", "layer",
]  # fmt: skip
"""Measures that follow neither bytes nor time: for a trace of Coflows they are known at release."""
Moving = Literal["most_left_bytes", "left_bytes", "flows", "bottleneck_s", "due_in_s", "tardiness_s", "extra_s", "queue", "bssi"]  # fmt: skip
"""Measures that change with what is sent, or as flows end."""
Of = Literal["flow", "stage", "coflow", "group", "job"]
Serve = Literal["greedy", "madd", "queues", "paced"]
Pull = Literal["equal", "group", "per_group", "per_job"]

FIXED: frozenset[str] = frozenset(Fixed.__args__)  # type: ignore[attr-defined]
CLOCKS = ("clock_s", "own_clock_s", "end_clock_s", "own_end_clock_s")
"""Moments by the clocks of jobs."""
GIVEN: frozenset[str] = frozenset({"drawn", "intensity", *CLOCKS, "layer"})
"""Measures that are quicker made in numpy, and handed to compiled loops."""
READS_SIZES: frozenset[str] = frozenset(
    {"alone_s", "intensity", "most_left_bytes", "left_bytes", "bottleneck_s", "due_in_s", "tardiness_s", "extra_s", "bssi"}
)  # fmt: skip
"""Measures that only a policy may have that is shown sizes."""


@dataclass(frozen=True)
class Key:
    """One key of an order, smallest first; in whole microseconds or bytes, so that rounding decides nothing.

    `measure` is of the flow itself, or of its stage (flows of its group that are due with it), Coflow, group or job:

    id               the stable id
    drawn            a hash of the id and `seed`
    release_s        the release, of a Coflow its first, of a group its reference time
    due_s            the ideal finish
    alone_s          seconds that the bytes of a whole group, or of an iteration of a job, need alone
    weight           the weight, of a job the largest of its groups; the largest first
    intensity        a job's computation over `alone_s`, the largest first, those without any last
    most_left_bytes  what is left of the largest flow
    left_bytes       what is left of all its flows
    flows            how many there are in flight
    bottleneck_s     Γ of what is left: its time at the slowest link, alone
    due_in_s         when a stage should end, from now: when due, or as soon as it can if that is later
    tardiness_s      τ_H of a group: the least maximum tardiness that it can still have
    extra_s          the same less what nothing can undo
    queue            how many of the form's `limits_bytes` a Coflow's sent bytes have reached
    bssi             the place in Sincronia's order
    clock_s          the latest moment at which a Coflow may end by the clock of its job, at the pace of all jobs together
    own_clock_s      the same at the pace that its job would have alone
    end_clock_s      the latest moment for the end of the flow's own iteration, at the pace of all jobs together
    own_end_clock_s  the same at the pace that its job would have alone
    layer            the place of a flow in the order in which its job's computations wait for flows

    With `per_weight` a weight of two makes it count half; below zero, twice.
    """

    measure: Fixed | Moving
    of: Of
    per_weight: bool = False
    seed: int = 0

    @property
    def is_fixed(self) -> bool:
        return self.measure in FIXED


@dataclass(frozen=True)
class Form:
    """Flows that are equal in all `keys` share a place; without keys, all do.

    How a place is served:

    greedy   it takes what it can use of what those before it left, max-min fairly by `pull`
    madd     first each place the least rates at which its flows end together, then spare capacity in the same order
             by bytes left (`echelonflow.scheduling.fill.serve_in_order`)
    queues   the first key is a queue; queues share each link by their weights, the first one's largest (Aalo)
    paced    first each flow the least rate that ends its group no later than it must, then spare capacity as for `madd`

    `pull` is the weight of a flow: one, its group's, or that of its group or job divided among the flows in flight.
    Groups whose `patience` is over go before all others (`echelonflow.scheduling.urgency`). `counts_pending`: measures
    of bytes count those that are declared and not released.
    """

    keys: tuple[Key, ...]
    serve: Serve
    pull: Pull = "equal"
    patience: float = math.inf
    limits_bytes: tuple[float, ...] = ()
    counts_pending: bool = False

    @property
    def reads_sizes(self) -> bool:
        return self.serve in {"madd", "paced"} or any(key.measure in READS_SIZES for key in self.keys)
