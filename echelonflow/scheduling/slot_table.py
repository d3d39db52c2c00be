"""Arrays of one length that grow together, whose rows are handed out and taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from echelonflow.model.arrays import Ints

FIRST_ROWS = 64


class SlotTable:
    """Named columns; a row that was handed out ("slot") keeps its number until it is given back.

    `columns` maps names to types of elements. An array got by name is the column itself, until the table grows:
    ask for it again after `take`. What a slot held before is not wiped.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(FIRST_ROWS, dtype) for name, dtype in columns.items()
        }
        self._rows = FIRST_ROWS
        self._free = list(range(FIRST_ROWS - 1, -1, -1))

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        return self._columns[column]

    def __len__(self) -> int:
        """Slots that there are, in use or not."""
        return self._rows

    @property
    def full(self) -> bool:
        """Whether the next `take` makes the table grow."""
        return not self._free

    def take(self, **values: Any) -> int:
        """A slot that nobody uses, with `values` in the columns they name."""
        if not self._free:
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate((column, np.zeros_like(column)))
            self._free = list(range(2 * self._rows - 1, self._rows - 1, -1))
            self._rows *= 2
        slot = self._free.pop()
        for name, value in values.items():
            self._columns[name][slot] = value
        return slot

    def give_back(self, slots: Iterable[int]) -> None:
        """Slots that are of no more use."""
        self._free.extend(slots)


class PathNumbers:
    """Paths by number, each kept once however many flows take it."""

    def __init__(self) -> None:
        self._number: dict[tuple[int, ...], int] = {}
        self._links = np.full((FIRST_ROWS, 1), -1, np.int64)
        self._hops = np.zeros(FIRST_ROWS, np.int64)
        self._scratch = np.zeros(0, np.int64)

    def number(self, path: tuple[int, ...]) -> int:
        """The number of `path`, a new one if it was not known."""
        found = self._number.get(path)
        if found is not None:
            return found
        new = self._number[path] = len(self._number)
        rows, width = self._links.shape
        if new == rows or len(path) > width:
            wider = np.full((2 * rows if new == rows else rows, max(width, len(path))), -1, np.int64)
            wider[:rows, :width] = self._links
            self._links = wider
            self._hops = np.concatenate((self._hops, np.zeros(len(wider) - rows, np.int64)))
        self._links[new, : len(path)] = path
        self._hops[new] = len(path)
        return new

    def rows(self, numbers: Ints) -> tuple[Ints, Ints]:
        """These paths in compressed rows: where each starts, and all their links."""
        hops = self._hops[numbers]
        start = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(hops, out=start[1:])
        rows, width = len(numbers), self._links.shape[1]
        if len(self._scratch) < rows * width:
            self._scratch = np.empty(2 * rows * width, np.int64)
        links = self._scratch[: rows * width].reshape(rows, width)
        np.take(self._links, numbers, axis=0, out=links, mode="clip")
        # Places beyond a path's end hold -1.
        flat = links.reshape(-1)
        return start, flat.copy() if start[-1] == len(flat) else flat[flat >= 0]


class Pool:
    """Pieces of two long arrays, links and bytes, lent by length and taken back."""

    def __init__(self) -> None:
        self.links: Ints = np.zeros(FIRST_ROWS, np.int64)
        self.size_bytes: Ints = np.zeros(FIRST_ROWS, np.int64)
        self._end = 0
        self._free: dict[int, list[int]] = {}

    def take(self, links: Ints, size_bytes: Ints) -> int:
        """Where a piece with these begins."""
        length = _piece(len(links))
        free = self._free.get(length)
        if free:
            start = free.pop()
        else:
            start, self._end = self._end, self._end + length
            if self._end > len(self.links):
                more = np.zeros(max(self._end, 2 * len(self.links)) - len(self.links), np.int64)
                self.links, self.size_bytes = (np.concatenate((a, more)) for a in (self.links, self.size_bytes))
        self.links[start : start + len(links)] = links
        self.size_bytes[start : start + len(links)] = size_bytes
        return start

    def give_back(self, start: int, length: int) -> None:
        """The piece of `length` that begins at `start` is of no more use."""
        self._free.setdefault(_piece(length), []).append(start)

    def rows(self, starts: Ints, lengths: Ints) -> tuple[Ints, Ints, Ints]:
        """What is more than nothing in these pieces, in compressed rows: where each starts, links, bytes."""
        first = np.cumsum(lengths) - lengths
        places = np.repeat(starts - first, lengths) + np.arange(int(lengths.sum()))
        size_bytes = self.size_bytes[places]
        there = size_bytes > 0
        before = np.zeros(len(there) + 1, np.int64)
        np.cumsum(there, out=before[1:])
        start = before[np.append(first, len(there))]
        return start, self.links[places[there]], size_bytes[there]


def _piece(length: int) -> int:
    """Pieces come in powers of two, so that one given back fits the next."""
    return 1 << (length - 1).bit_length()
