"""Coflow scheduling without knowing sizes, as Aalo does it: who has sent little goes first.

Aalo (SIGCOMM '15, section 4): D-CLAS, discretised Coflow-aware least-attained service. Coflows wait in K `queues` by
the bytes that they have sent so far. The first holds those below `first_bytes`, each next one reaches `factor` times
further, the last has no end. Queues share every link in proportion to their weights, K for the first down to 1 for the
last, among those that have a flow there, so no queue starves. Within a queue Coflows are served first in, first out,
the flows of one sharing fairly what they can use. What is left goes out in the same order.

The defaults are Aalo's: K = 10, Q_1 up to 10 MB, E = 10. Time alone changes the answer: when a Coflow crosses into the
next queue. Its Coflows are the collectives; an EchelonFlow is nothing that it could know of.

Its answer holds until the next Coflow crosses a threshold at the rates just given. Choose `first_bytes` in proportion
where an experiment's sizes are scaled down: or all Coflows stay in the first queue, and Aalo is FIFO. Strict classes
cannot share, so rates express it.

**Knows** no sizes, and is shown none. **Cost.** O(nh log nh + KL).
"""

from __future__ import annotations

import math

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import QUANTUM_S, RowSets, dense_rank, max_min_in_order, quantised, stages_of
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "Coflows"
ENFORCER = "rate"
KNOWS_SIZES = False
WORK_CONSERVING = True
STARVATION_FREE = True

_A_BYTE = 1.0
"""A Coflow that lacks less to a threshold has crossed it: time is not exact enough for less."""


def validate(queues: int = 10, first_bytes: float = 10e6, factor: float = 10.0) -> None:
    """Raise InputError for queues that cannot be."""
    if not 1 <= queues <= 64:
        raise InputError(f"queues is {queues}; there can be 1 to 64")
    if not (math.isfinite(first_bytes) and first_bytes > _A_BYTE):
        raise InputError(f"first_bytes is {first_bytes}; the first queue must hold more than a byte")
    if not (math.isfinite(factor) and factor > 1):
        raise InputError(f"factor is {factor}; each queue must reach further than the one before, so more than 1")


def allocate(snapshot: Snapshot, *, queues: int = 10, first_bytes: float = 10e6, factor: float = 10.0) -> Allocation:
    """Queues by bytes sent share links by weight; first in, first out within a queue.

    Example: the long flow has sent 20 MB and is in the second of ten queues, the short one is in the first. Their
    queues share the link by 9 to 10. The answer holds until the short flow has sent 10 MB and is in the second, too.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> answer = allocate(example.snapshot)
        >>> example.show(answer)
        long: 4.7 MB/s, place 1
        short: 5.3 MB/s, place 0
        >>> round(answer.valid_until_s, 3)
        3.9
    """
    limit_bytes = _limits_bytes(queues, first_bytes, factor)
    coflows = snapshot.coflows
    queue = np.searchsorted(limit_bytes - _A_BYTE, coflows.sent_bytes, side="right").astype(np.int64)
    keys = [queue, quantised(coflows.arrival_s), coflows.id]
    rank = dense_rank([key[snapshot.coflow] for key in keys])
    rates = _shares(snapshot, queue[snapshot.coflow], rank, queues)
    until_s = _next_crossing_s(snapshot, rates, np.append(limit_bytes, math.inf)[queue])
    return Allocation(rates, rank, until_s)


def form(*, queues: int = 10, first_bytes: float = 10e6, factor: float = 10.0) -> Form:
    """The same as data."""
    keys = (Key("queue", "coflow"), Key("release_s", "coflow"), Key("id", "coflow"))
    return Form(keys, "queues", limits_bytes=tuple(_limits_bytes(queues, first_bytes, factor).tolist()))


def _limits_bytes(queues: int, first_bytes: float, factor: float) -> Floats:
    limits: Floats = first_bytes * np.power(float(factor), np.arange(queues - 1, dtype=np.float64))
    return limits


def _shares(snapshot: Snapshot, queue: Ints, rank: Ints, queues: int) -> Floats:
    """Rates when each queue's Coflows are served in order out of its share of each link, then out of what is left."""
    rates, alike = np.zeros(snapshot.flows), np.ones(snapshot.flows)
    busy = np.unique(queue)
    hop_flow = snapshot.hop_flow()
    on_link = np.zeros((len(busy), snapshot.links), bool)
    on_link[np.searchsorted(busy, queue)[hop_flow], snapshot.path_link] = True
    weight = (queues - busy)[:, np.newaxis] * on_link
    share = weight / np.maximum(weight.sum(axis=0), 1)
    stages = stages_of(rank)
    cuts = np.searchsorted(queue[stages.rows[stages.start[:-1]]], [*busy, queues])
    for place in range(len(busy)):
        own = RowSets(stages.start[cuts[place] : cuts[place + 1] + 1], stages.rows)
        max_min_in_order(snapshot, own, alike, rates, share[place] * snapshot.capacity_Bps)
    load = np.bincount(snapshot.path_link, weights=rates[hop_flow], minlength=snapshot.links)
    max_min_in_order(snapshot, stages, alike, rates, np.maximum(snapshot.capacity_Bps - load, 0.0))
    return rates


def _next_crossing_s(snapshot: Snapshot, rates: Floats, limit_bytes: Floats) -> float:
    """When the first Coflow will have sent what its queue holds, at these rates."""
    coflows = snapshot.coflows
    rate_Bps = np.bincount(snapshot.coflow, weights=rates, minlength=len(coflows.id))
    sending = rate_Bps > 0
    if not sending.any():
        return math.inf
    left_s = (limit_bytes - coflows.sent_bytes)[sending] / rate_Bps[sending]
    return snapshot.now_s + max(float(left_s.min()), QUANTUM_S)
