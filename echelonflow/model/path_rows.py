"""Paths of many flows in compressed rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Ints

_ROOM = 2**62


@dataclass(frozen=True, eq=False)
class PathRows:
    """Row i takes the links `link[start[i]:start[i + 1]]`."""

    start: Ints
    link: Ints

    def of(self, rows: Ints) -> PathRows:
        """The paths of `rows`."""
        begin = self.start[rows]
        length = self.start[rows + 1] - begin
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(length)))
        return PathRows(start, self.link[np.repeat(begin - start[:-1], length) + np.arange(start[-1])])

    def distinct(self) -> tuple[PathRows, Ints]:
        """The different paths among the rows, and which of them each row is."""
        length = np.diff(self.start)
        links = int(self.link.max(initial=0)) + 2
        number: Ints = np.zeros(len(length), np.int64)
        known = 1
        for hop in range(int(length.max(initial=0))):  # by hop, not by row: one number each is sorted much faster
            there = length > hop
            link = np.zeros(len(length), np.int64)
            link[there] = self.link[self.start[:-1][there] + hop] + 1
            if known > _ROOM // links:
                _, number = np.unique(number, return_inverse=True)
                known = len(length)
            number = number * links + link
            known *= links
        _, first, which = np.unique(number, return_index=True, return_inverse=True)
        return self.of(first), which.reshape(-1)
