"""What a policy answers: a rate and a place in the order for every flow of a snapshot."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from echelonflow.errors import PolicyError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.snapshot import Snapshot

FEASIBILITY_TOLERANCE = 1e-6
"""Relative excess over a link's capacity that is put down to rounding."""


@dataclass(frozen=True, eq=False)
class Allocation:
    """One row per flow, in the snapshot's order.

    `rates_Bps` are payload bytes per second; `rank` is the place in the order (0 is served first, equal
    ranks share). `valid_until_s` is when time alone would change the answer.
    """

    rates_Bps: Floats
    rank: Ints
    valid_until_s: float = math.inf


def check(allocation: Allocation, snapshot: Snapshot, policy: str) -> None:
    """Raise PolicyError, naming policy and link, unless the network could carry the allocation."""
    for what, array in (("rates_Bps", allocation.rates_Bps), ("rank", allocation.rank)):
        if np.shape(array) != (snapshot.flows,):
            raise PolicyError(f"policy {policy}: {what} has shape {np.shape(array)}; {snapshot.flows} flows were given")
    rates = allocation.rates_Bps
    if not np.all(np.isfinite(rates)) or np.any(rates < 0):
        flow = int(snapshot.flow_id[np.flatnonzero(~(np.isfinite(rates) & (rates >= 0)))[0]])
        raise PolicyError(f"policy {policy}: the rate of flow {flow} is negative or not a number")
    if math.isnan(allocation.valid_until_s) or allocation.valid_until_s <= snapshot.now_s:
        raise PolicyError(
            f"policy {policy}: valid_until_s is {allocation.valid_until_s}, not after now ({snapshot.now_s})"
        )
    by_hop = np.repeat(rates, np.diff(snapshot.path_start))
    load = np.bincount(snapshot.path_link, weights=by_hop, minlength=snapshot.links)
    over = np.flatnonzero(load > snapshot.capacity_Bps * (1 + FEASIBILITY_TOLERANCE))
    if over.size:
        link = int(over[np.argmax(load[over] / snapshot.capacity_Bps[over])])
        raise PolicyError(
            f"policy {policy} allocates {load[link]:.6g} B/s on {snapshot.link_name(link)}, "
            f"which carries {snapshot.capacity_Bps[link]:.6g} B/s"
        )
