"""What passes a link at once after an idle spell: token buckets, as queues on the testbed have them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from echelonflow.model.arrays import Floats
from echelonflow.scheduling.snapshot import Snapshot

_FULL = 1 - 1e-9
"""Share of its capacity from which a link counts as full (rounding)."""


class Bursts:
    """One bucket per link, n in all: it fills by what the link leaves unused, up to `full_bytes` of these capacities.

    Flows that a full link holds back take what is in the buckets of their path, all at once, in proportion to their
    rates. Flows that are slower of their own accord take nothing: their senders pace them.
    """

    def __init__(self, full_bytes: Callable[[Floats], Floats]) -> None:
        self._bytes_for = full_bytes
        self._now_s = 0.0
        self._level_bytes: Floats | None = None
        self._load_Bps: Floats = np.zeros(0)

    def idle(self, now_s: float) -> None:
        """From `now_s` on no flow is in flight."""
        if self._level_bytes is not None:
            self._fill(now_s)
            self._load_Bps[:] = 0.0

    def passed(self, snapshot: Snapshot, rates_Bps: Floats) -> Floats:
        """Bytes of each of the snapshot's flows that pass at once when it goes at `rates_Bps` from now on."""
        hop_flow, link = snapshot.hop_flow(), snapshot.path_link
        capacity_Bps = snapshot.capacity_Bps
        if self._level_bytes is None:
            self._capacity_Bps = capacity_Bps
            self._full_bytes = self._bytes_for(capacity_Bps)
            self._level_bytes = self._full_bytes
            self._load_Bps = np.zeros(len(capacity_Bps))
        self._fill(snapshot.now_s)
        load_Bps = np.bincount(link, weights=rates_Bps[hop_flow], minlength=len(capacity_Bps))
        self._load_Bps = load_Bps.astype(np.float64)
        rate_Bps = rates_Bps[hop_flow]
        share = np.divide(rate_Bps, load_Bps[link], out=np.zeros(len(link)), where=rate_Bps > 0)
        least = np.full(snapshot.flows, np.inf)
        np.minimum.at(least, hop_flow, share * self._level_bytes[link])
        held_back = np.zeros(snapshot.flows, bool)
        held_back[hop_flow[load_Bps[link] >= _FULL * capacity_Bps[link]]] = True
        passed: Floats = np.where(held_back, np.minimum(least, snapshot.remaining_bytes), 0.0)
        taken = np.bincount(link, weights=passed[hop_flow], minlength=len(capacity_Bps))
        self._level_bytes = np.maximum(self._level_bytes - taken, 0.0)
        return passed

    def _fill(self, now_s: float) -> None:
        assert self._level_bytes is not None
        unused_Bps = np.maximum(self._capacity_Bps - self._load_Bps, 0.0)
        self._level_bytes = np.minimum(self._level_bytes + unused_Bps * (now_s - self._now_s), self._full_bytes)
        self._now_s = now_s
