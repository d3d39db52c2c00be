"""Shares by progress, as MLTCP's congestion control gives them: who has sent more of its iteration gets more.

MLTCP (Rajasekaran, Narang, Zabreyko and Ghobadi, HotNets '24): a sender's congestion window grows by F times what its
congestion control would add, where F = `slope` * r + `intercept`. Here r is the share of the iteration's bytes that the
connection has sent. The defaults are the paper's, 1.75 and 0.25. So the job that is ahead gains on the others, is done sooner,
and computes while they send. From iteration to iteration jobs slide apart until they interleave, and nobody schedules them.

Windows that grow by F, and shrink alike when a queue is full, share a bottleneck in proportion to F. So here rates are
weighted max-min with the weight F. As in the paper, what counts is a connection, which carries all that one host sends
another for a job. Here each flow has a connection of its own; those of a job with the same ends count as one, and divide
its weight. Left out: how windows converge, round trips, and how a sender finds out where an iteration ends.

The weight grows while bytes flow. The answer goes by the middle of one of `steps` equal steps of r, and holds until the first
connection is in its next one. Jobs that do not declare how much an iteration sends count flow by flow.

**Knows** how much an iteration sends, and has sent. **Cost.** At most L rounds, each O(nh); `steps` decisions for each connection.
"""

from __future__ import annotations

import math

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import QUANTUM_S, max_min
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "flows"
ENFORCER = "rate"
WORK_CONSERVING = True
STARVATION_FREE = True
READS_CONNECTIONS = True

_A_BYTE = 1.0
"""A connection that lacks less to its next step has reached it: time is not exact enough for less."""


def validate(slope: float = 1.75, intercept: float = 0.25, steps: int = 8) -> None:
    """Raise InputError for a function of progress that cannot be."""
    if not (math.isfinite(slope) and slope >= 0):
        raise InputError(f"slope is {slope}; who has sent more cannot get less, so it must be 0 or more")
    if not (math.isfinite(intercept) and intercept > 0):
        raise InputError(f"intercept is {intercept}; who has sent nothing must get something, so more than 0")
    if not 1 <= steps <= 1000:
        raise InputError(f"steps is {steps}; there can be 1 to 1000")


def allocate(snapshot: Snapshot, *, slope: float = 1.75, intercept: float = 0.25, steps: int = 8) -> Allocation:
    """Shares of every bottleneck in proportion to F of the connections on it.

    Example: half of the long flow is sent, which is the fifth of eight steps: F is 1.75 * 4.5 / 8 + 0.25 = 1.23. The short
    one has sent nothing, so its F is 0.36. The answer holds until the short one has sent 1.25 MB, and is in its second step.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> answer = allocate(example.snapshot)
        >>> example.show(answer)
        long: 7.7 MB/s, place 0
        short: 2.3 MB/s, place 0
        >>> round(answer.valid_until_s, 2)
        2.55
    """
    sent_bytes, size_bytes, connection = _connections(snapshot)
    step = np.minimum(np.floor((sent_bytes + _A_BYTE) / size_bytes * steps).astype(np.int64), steps - 1)
    weight = slope * (step + 0.5) / steps + intercept
    rows = np.arange(snapshot.flows, dtype=np.int64)
    pull = (weight / np.bincount(connection, minlength=len(weight)))[connection]
    rates = max_min(snapshot, rows, pull, snapshot.capacity_Bps.copy())
    rate_Bps = np.bincount(connection, weights=rates, minlength=len(weight))
    rises = (rate_Bps > 0) & (step < steps - 1)
    left_s = ((step + 1) / steps * size_bytes - sent_bytes)[rises] / rate_Bps[rises]
    until_s = snapshot.now_s + max(float(left_s.min(initial=math.inf)), QUANTUM_S)
    return Allocation(rates, np.zeros(snapshot.flows, np.int64), until_s)


def _connections(snapshot: Snapshot) -> tuple[Floats, Floats, Ints]:
    """Bytes sent and in all of each connection, and the connection of each flow: itself where nobody counted."""
    table = snapshot.connections
    if table is not None:
        return table.sent_bytes, table.size_bytes, table.of_flow
    size_bytes = snapshot.sent_bytes + snapshot.remaining_bytes
    return snapshot.sent_bytes, size_bytes, np.arange(snapshot.flows, dtype=np.int64)
