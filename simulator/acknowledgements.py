"""What acknowledgements take of the links by which they go back: they come before data there, in the class above."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.network import Network

ROUNDS = 2
"""What goes back depends on the rates that it leaves, by a few hundredths of them: so often is as good as for ever."""


class Acknowledgements:
    """`share` bytes go back for each byte of data; `ends` gives source and destination hosts of flows by their handles."""

    def __init__(self, share: float, network: Network, ends: Callable[[Ints], Sequence[tuple[str, str]]]) -> None:
        self._share = share
        self._network = network
        self._ends = ends
        self._way_back: dict[tuple[str, str], list[int]] = {}

    def left_Bps(self, handle: Ints, rates_Bps: Floats, capacity_Bps: Floats) -> Floats:
        """What is left of links that carry `capacity_Bps` while flows called `handle` go at `rates_Bps`."""
        taken_Bps = np.zeros(len(capacity_Bps))
        moving = np.flatnonzero(rates_Bps > 0)
        for ends, rate_Bps in zip(self._ends(handle[moving]), rates_Bps[moving].tolist(), strict=True):
            taken_Bps[self._links_back(ends)] += rate_Bps
        return np.maximum(capacity_Bps - self._share * taken_Bps, 0.0)

    def _links_back(self, ends: tuple[str, str]) -> list[int]:
        if ends not in self._way_back:
            src, dst = ends
            self._way_back[ends] = list(self._network.path(dst, src))
        return self._way_back[ends]
