"""Where bytes of an operation go when they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Inlet:
    """The pieces that one rank sends in one operation, filled in order. `on_filled(place)` is called for each that is whole."""

    def __init__(self, pieces: Sequence[memoryview], on_filled: Callable[[int], None]) -> None:
        self._pieces = pieces
        self._place = 0
        self._filled = 0
        self._on_filled = on_filled
        self.total_bytes = sum(map(len, pieces))

    @property
    def is_full(self) -> bool:
        """Whether all has come."""
        return self._place == len(self._pieces)

    @property
    def room(self) -> memoryview:
        """Where the next bytes go; of length 0 once all has come."""
        return memoryview(b"") if self.is_full else self._pieces[self._place][self._filled :]

    def took(self, count: int) -> None:
        """`count` bytes, no more than there was room for, have been put there."""
        self._filled += count
        if count and self._filled == len(self._pieces[self._place]):
            self._place, self._filled = self._place + 1, 0
            self._on_filled(self._place - 1)

    def put(self, data: bytes | bytearray) -> None:
        """Copy bytes to where they go; no more than are missing."""
        view = memoryview(data)
        while view:
            room = self.room
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            self.took(count)
