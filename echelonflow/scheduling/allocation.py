"""What a policy answers: a rate and a place in the order for every flow of a snapshot."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from echelonflow.errors import PolicyError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.snapshot import Snapshot

_LARGEST_RANK = 2.0**53
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
    rates, rank = (
        _numbers(what, array, snapshot.flows, policy)
        for what, array in (("rates_Bps", allocation.rates_Bps), ("rank", allocation.rank))
    )
    bad = np.flatnonzero(~(np.isfinite(rates) & (rates >= 0)))
    if bad.size:
        flow = int(snapshot.flow_id[bad[0]])
        raise PolicyError(f"policy {policy}: the rate of flow {flow} is negative or not a number")
    if rank.dtype != np.int64 and (bad := np.flatnonzero(~_counts(rank))).size:
        flow = int(snapshot.flow_id[bad[0]])
        raise PolicyError(f"policy {policy}: the rank of flow {flow} is {rank[bad[0]]}; ranks are whole numbers")
    _check_time(allocation.valid_until_s, snapshot.now_s, policy)
    by_hop = np.repeat(rates, np.diff(snapshot.path_start))
    load = np.bincount(snapshot.path_link, weights=by_hop, minlength=snapshot.links)
    over = np.flatnonzero(load > snapshot.capacity_Bps * (1 + FEASIBILITY_TOLERANCE))
    if over.size:
        link = int(over[np.argmax(load[over] / snapshot.capacity_Bps[over])])
        raise PolicyError(
            f"policy {policy} allocates {load[link]:.6g} B/s on {snapshot.link_name(link)}, "
            f"which carries {snapshot.capacity_Bps[link]:.6g} B/s"
        )


def _numbers(what: str, given: object, flows: int, policy: str) -> np.ndarray:
    """An array of numbers, one for each flow; PolicyError for anything else."""
    try:
        array = np.asarray(given)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise PolicyError(f"policy {policy}: {what} is no array of numbers")
    if array.shape != (flows,):
        raise PolicyError(f"policy {policy}: {what} has shape {array.shape}; {flows} flows were given")
    return array


def _counts(rank: np.ndarray) -> npt.NDArray[np.bool_]:
    """Where a rank is a whole number, and one that every integer type of ours holds."""
    exact = rank.astype(np.float64)
    counts: npt.NDArray[np.bool_] = (exact == np.floor(exact)) & (np.abs(exact) <= _LARGEST_RANK)
    return counts


def _check_time(valid_until_s: object, now_s: float, policy: str) -> None:
    """PolicyError unless the answer holds for some time."""
    if not isinstance(valid_until_s, (int, float, np.number)) or not valid_until_s > now_s:
        raise PolicyError(f"policy {policy}: valid_until_s is {valid_until_s}, not after now ({now_s})")
