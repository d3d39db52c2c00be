"""Paths of many flows in compressed rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Ints


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
        table = np.full((len(length), int(length.max(initial=0))), -1, np.int64)
        table[
            np.repeat(np.arange(len(length)), length), np.arange(len(self.link)) - np.repeat(self.start[:-1], length)
        ] = self.link
        _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return self.of(first), which.reshape(-1)
