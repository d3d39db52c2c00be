"""The rules of CoflowSim 0.2, written anew as one policy, to tell what in its averages is rule and what is engine.

`order=fair`: a flow gets an equal share of its sender's port or of its receiver's, whichever is less. What others leave
of their shares nobody gets, so it is less than max-min fairness.

`order=sebf` or `fifo`: Coflows in order of the bottleneck that they had on arrival, or of arrival. Each gets MADD rates
out of what is left, unless some port that it needs is full. Then it is passed over, and its flows take equal shares of
what remains at the end. What is still free goes to single flows, Coflows with the earliest (drawn) deadline first; half
of their alone time is taken for the mean of what is drawn. Rates stay until a Coflow comes or ends.

Source: coflow/coflowsim, CoflowSimulator.updateRatesDynamicAlpha and FlowSimulator.fairShare. For big-switch only:
paths are one port out and one port in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.snapshot import Snapshot

ENFORCER = "rate"
FULL_SHARE = 1e-9
"""A port with less than this share of its rate free counts as full."""
SLACK = 1 - 1e-9
"""Sums of rates stay below capacity in spite of rounding."""
MEAN_DEADLINE = 1.5


@dataclass
class Held:
    """What stays in force until a Coflow comes or ends."""

    now_s: float = 0.0
    coflows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    flow_id: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Ascending."""
    rate_Bps: Floats = field(default_factory=lambda: np.zeros(0))
    """Of each of `flow_id`."""

    def of(self, flow_id: Ints) -> Floats | None:
        """The rates of these flows; None if one is new."""
        place = np.minimum(np.searchsorted(self.flow_id, flow_id), max(len(self.flow_id) - 1, 0))
        known = len(self.flow_id) > 0 and bool(np.all(self.flow_id[place] == flow_id))
        return self.rate_Bps[place] if known else None

    def counters(self) -> dict[str, int]:
        return {}


def memory(order: str = "sebf") -> Held | None:
    """Fair shares are worked out anew each time."""
    return None if order == "fair" else Held()


def allocate(
    snapshot: Snapshot, *, order: Literal["fair", "sebf", "fifo"] = "sebf", memory: Held | None = None
) -> Allocation:
    """Rates as CoflowSim would give them."""
    nothing = np.zeros(snapshot.flows, np.int64)
    if order == "fair":
        return Allocation(_equal_shares(snapshot, np.arange(snapshot.flows), snapshot.capacity_Bps), nothing)
    held = Held() if memory is None else memory
    coflows = np.sort(snapshot.coflows.id)
    same = np.array_equal(coflows, held.coflows) and snapshot.now_s >= held.now_s
    rates = held.of(snapshot.flow_id) if same else None
    if rates is None or not np.any(rates > 0):
        rates = _in_order(snapshot, order)
        ascending = np.argsort(snapshot.flow_id)
        held.coflows, held.flow_id, held.rate_Bps = coflows, snapshot.flow_id[ascending], rates[ascending]
    held.now_s = snapshot.now_s
    return Allocation(rates * SLACK, nothing)


def _in_order(snapshot: Snapshot, order: str) -> Floats:
    arrival_s, alone_s, ids = snapshot.coflows.arrival_s, snapshot.groups.alone_s, snapshot.coflows.id
    members = [np.flatnonzero(snapshot.coflow == row) for row in range(len(ids))]
    free: Floats = snapshot.capacity_Bps.copy()
    rates: Floats = np.zeros(snapshot.flows)
    passed_over: list[Ints] = []
    for row in np.lexsort((ids, alone_s if order == "sebf" else arrival_s)):
        flows = members[row]
        volume = _load(snapshot, flows, snapshot.remaining_bytes[flows])
        needed = volume > 0
        if np.any(free[needed] <= snapshot.capacity_Bps[needed] * FULL_SHARE):
            passed_over.append(flows)
            continue
        rates[flows] = snapshot.remaining_bytes[flows] / np.max(volume[needed] / free[needed])
        free = np.maximum(free - _load(snapshot, flows, rates[flows]), 0.0)
    if passed_over:
        flows = np.concatenate(passed_over)
        rates[flows] = _equal_shares(snapshot, flows, free)
        free = np.maximum(free - _load(snapshot, flows, rates[flows]), 0.0)
    for row in np.lexsort((ids, arrival_s + MEAN_DEADLINE * alone_s)):
        _fill_one_by_one(snapshot, members[row], rates, free)
    return rates


def _ends(snapshot: Snapshot, flows: Ints) -> tuple[Ints, Ints]:
    """The sender's and the receiver's link of each flow."""
    start = snapshot.path_start[flows]
    return snapshot.path_link[start], snapshot.path_link[start + 1]


def _load(snapshot: Snapshot, flows: Ints, amount: Floats) -> Floats:
    """What `flows` bring to each link if each brings its `amount`."""
    out, into = _ends(snapshot, flows)
    load: Floats = np.zeros(snapshot.links)
    np.add.at(load, out, amount)
    np.add.at(load, into, amount)
    return load


def _equal_shares(snapshot: Snapshot, flows: Ints, free: Floats) -> Floats:
    """The lesser of the equal shares at both ends; nothing for flows that have a full port."""
    out, into = _ends(snapshot, flows)
    least = snapshot.capacity_Bps * FULL_SHARE
    able = (free[out] > least[out]) & (free[into] > least[into])
    count = np.maximum(_load(snapshot, flows[able], np.ones(int(able.sum()))), 1.0)
    shares: Floats = np.where(able, np.minimum(free[out] / count[out], free[into] / count[into]), 0.0)
    return shares


def _fill_one_by_one(snapshot: Snapshot, flows: Ints, rates: Floats, free: Floats) -> None:
    """Give each flow in turn all that is free at both its ends; changes `rates` and `free`."""
    out, into = _ends(snapshot, flows)
    able = np.flatnonzero(np.minimum(free[out], free[into]) > 0)
    for flow, sender, receiver in zip(flows[able].tolist(), out[able].tolist(), into[able].tolist(), strict=True):
        more = min(free[sender], free[receiver])
        rates[flow] += more
        free[sender] -= more
        free[receiver] -= more
