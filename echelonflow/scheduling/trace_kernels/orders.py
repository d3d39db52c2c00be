"""What of a form's order a trace of Coflows needs: each Coflow is its own group and job, due when it arrives.

So keys of a Coflow, group, job or stage are all of Coflows. Most are known when the Coflow arrives. One at most may
change, and then only while the Coflow sends.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.fill import QUANTUM_S, dense_rank, quantised
from echelonflow.scheduling.forms import CLOCKS, Form, Key
from echelonflow.scheduling.measures import drawn
from echelonflow.scheduling.trace_kernels import TraceFlows
from echelonflow.scheduling.urgency import weighted

NOTHING, MOST_LEFT, LEFT, FLOWS, BOTTLENECK, TARDINESS, QUEUE, BSSI = range(8)
"""What changes, as a number."""
NEVER = np.iinfo(np.int64).max

_NUMBER = {
    "most_left_bytes": MOST_LEFT,
    "left_bytes": LEFT,
    "flows": FLOWS,
    "bottleneck_s": BOTTLENECK,
    "due_in_s": BOTTLENECK,  # what is due already should end as soon as it can
    "extra_s": BOTTLENECK,  # nothing can undo that it was due when it arrived
    "tardiness_s": TARDINESS,
    "queue": QUEUE,
    "bssi": BSSI,
}
_IN_BYTES = (MOST_LEFT, LEFT)


class Order(NamedTuple):
    """The order of c Coflows: overdue ones by when they became so, then by three keys, smallest first."""

    before: Ints
    """c; place by the keys before the one that changes."""
    measure: int
    """What changes (NOTHING to BSSI)."""
    unit: float
    """Of what changes, in whole ones of which it counts."""
    weight: Floats
    """c; what changes is divided by it."""
    after: Ints
    """c; place by the keys after the one that changes."""
    arrival_s: Floats
    overdue_s: Floats
    """c; infinite where patience is."""
    overdue: Ints
    """c; the same in whole quanta."""
    limits_bytes: Floats
    """What queues hold, less the byte that counts as nothing; as many as there are queues but the last."""


def order_of(form: Form, trace: TraceFlows) -> Order | None:
    """The order of a trace's Coflows; None where the form's keys are not of Coflows, or more than one changes.

    Coflows that are equal in all keys share a place in `after`.
    """
    coflows = len(trace.arrival_s)
    fixed: list[list[Ints]] = [[np.zeros(coflows, np.int64)]]
    moving: Key | None = None
    for key in form.keys:
        if key.of == "flow" and key.measure not in {"release_s", "due_s"}:
            return None
        if key.is_fixed:
            fixed[-1].append(fixed_of_coflow(key, trace))
            if key.measure == "id":
                break
        elif moving is not None:
            return None
        else:
            moving = key
            fixed.append([np.zeros(coflows, np.int64)])
    measure = NOTHING if moving is None else _NUMBER[moving.measure]
    limits_bytes = np.array(form.limits_bytes) - 1.0
    overdue_s = np.full(coflows, math.inf)
    if not math.isinf(form.patience):
        overdue_s = trace.arrival_s + form.patience * trace.alone_s
    return Order(
        before=dense_rank(fixed[0]) if moving is not None else np.zeros(coflows, np.int64),
        measure=measure,
        unit=1.0 if measure in _IN_BYTES else QUANTUM_S,
        weight=trace.weight if moving is not None and moving.per_weight else np.ones(coflows),
        after=dense_rank(fixed[-1]),
        arrival_s=trace.arrival_s,
        overdue_s=overdue_s,
        overdue=quantised(overdue_s),
        limits_bytes=limits_bytes,
    )


def fixed_of_coflow(key: Key, trace: TraceFlows) -> Ints:
    """What a fixed key is for each Coflow."""
    if key.measure in {"release_s", "due_s", *CLOCKS}:  # nobody declared a clock
        return quantised(trace.arrival_s)
    if key.measure == "id":
        return trace.coflow_id
    if key.measure == "drawn":
        return drawn(trace.coflow_id, key.seed)
    if key.measure == "alone_s":
        return weighted(trace.alone_s, trace.weight if key.per_weight else np.ones(len(trace.weight)))
    if key.measure == "weight":
        return quantised(-trace.weight)
    return np.zeros(len(trace.arrival_s), np.int64)  # intensity, layer: nobody computes
