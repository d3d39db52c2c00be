"""What acknowledgements take of the links by which they go back: they come before data there, in the class above."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.network import Network

ROUNDS = 2
"""What goes back depends on the rates that it leaves, by a few hundredths of them: so often is as good as for ever."""


@dataclass(frozen=True, eq=False)
class WaysBack:
    """The links by which acknowledgements of some flows go back: entry i says that those of row `flow[i]` use `link[i]`."""

    share: float
    flow: Ints
    link: Ints

    def left_Bps(self, rates_Bps: Floats, capacity_Bps: Floats) -> Floats:
        """What is left of links that carry `capacity_Bps` while the flows go at `rates_Bps`."""
        taken_Bps = np.bincount(self.link, weights=rates_Bps[self.flow], minlength=len(capacity_Bps))
        left: Floats = np.maximum(capacity_Bps - self.share * taken_Bps, 0.0)
        return left


class Acknowledgements:
    """`share` bytes go back for each byte of data; `ends` gives source and destination hosts of flows by their handles."""

    def __init__(self, share: float, network: Network, ends: Callable[[Ints], Sequence[tuple[str, str]]]) -> None:
        self._share = share
        self._network = network
        self._ends = ends
        self._way_back: dict[tuple[str, str], Sequence[int]] = {}
        self._ways = WaysBack(share, np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._ways_of: Ints = np.zeros(0, np.int64)

    def ways_back(self, handle: Ints) -> WaysBack:
        """Those of the flows called `handle`, which are often those that were asked for last."""
        if not np.array_equal(handle, self._ways_of):
            paths = [self._links_back(ends) for ends in self._ends(handle)]
            flow = np.repeat(np.arange(len(paths), dtype=np.int64), [len(path) for path in paths])
            self._ways = WaysBack(self._share, flow, np.array([link for path in paths for link in path], np.int64))
            self._ways_of = handle
        return self._ways

    def _links_back(self, ends: tuple[str, str]) -> Sequence[int]:
        if ends not in self._way_back:
            src, dst = ends
            self._way_back[ends] = self._network.path(dst, src)
        return self._way_back[ends]
