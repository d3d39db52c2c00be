"""Arrays of one length that grow together, whose rows are handed out and taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from echelonflow.snapshot import Ints

FIRST_ROWS = 64


class Table:
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


class Paths:
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
