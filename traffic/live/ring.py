"""Collectives along a ring: every rank sends to the next one.

Reducing goes round once, after which place i holds part i; gathering goes round once more. With n ranks and a buffer of S
bytes, each sends 2(n-1)/n S in an all-reduce, and half of that in a reduce-scatter or an all-gather. Less is not possible.
These are the flows of `traffic.workloads.collectives` under `ring`.

Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from traffic.live.exchange import Exchange, Outgoing, Piece, cut, piece_bytes_of
from traffic.live.memory import as_bytes
from traffic.live.reduction import Reduction


class Ring(Exchange):
    """`buffer` (one dimension, flat) in `parts` (first and last element of each; one for each rank), around the ring `ranks`.

    With a `reduction`, all ranks' buffers are reduced: then place i's part i is of all of them. With `gather`, each rank has all
    parts in the end. Without either there would be nothing to do. `me` is this rank's place on the ring.
    """

    def __init__(
        self,
        buffer: torch.Tensor,
        parts: Sequence[tuple[int, int]],
        ranks: Sequence[int],
        me: int,
        *,
        reduction: Reduction | None,
        gather: bool,
    ) -> None:
        n = len(ranks)
        self._n = n
        self._next, previous = ranks[(me + 1) % n], ranks[(me - 1) % n]
        self._buffer, self._reduction = buffer, reduction
        self._element_bytes = buffer.element_size()
        self._memory = as_bytes(buffer)
        reducing = [(me - 2 - step) % n for step in range(n - 1)] if reduction is not None else []
        storing = [(me - 1 - step) % n for step in range(n - 1)] if gather else []
        first = (me - 1) % n if reduction is not None else me
        self._passed_on = len(reducing) + len(storing) - 1
        """So many of the parts that come are passed on: all but the last."""
        self._steps: list[tuple[int, int, bool, bool, bool]] = []
        """Of each piece that comes: its elements, whether it is to be reduced, whether that is the last time, and whether it goes on."""
        views: list[Piece] = []
        longest = max((stop - start for start, stop in parts), default=0)
        piece_elements = max(piece_bytes_of(longest * self._element_bytes) // self._element_bytes, 1)
        # A ring of one has nobody to send to, and its rank has all parts.
        self._first = cut(self._stretch(*parts[first]), piece_elements * self._element_bytes) if n > 1 else []
        self._scratch = torch.empty(min(longest, piece_elements) if reducing else 0, dtype=buffer.dtype)
        scratch = as_bytes(self._scratch)
        for turn, part in enumerate(reducing + storing):
            start, stop = parts[part]
            for begin in range(start, stop, piece_elements):
                end = min(begin + piece_elements, stop)
                is_reduced = turn < len(reducing)
                size_bytes = (end - begin) * self._element_bytes
                views.append(scratch[:size_bytes] if is_reduced else self._stretch(begin, end))
                is_whole = turn == len(reducing) - 1
                self._steps.append((begin, end, is_reduced, is_whole, turn < self._passed_on))
        self.expected = {previous: views} if views else {}
        sent = sum(map(len, self._first)) + sum(
            (end - begin) * self._element_bytes for begin, end, *_, on in self._steps if on
        )
        self.sent_bytes = {self._next: sent} if sent else {}

    def begin(self) -> Outgoing:
        return [(self._next, piece) for piece in self._first]

    def filled(self, rank: int, place: int) -> Outgoing:
        start, stop, is_reduced, is_whole, goes_on = self._steps[place]
        if is_reduced and self._reduction is not None:
            ours = self._buffer[start:stop]
            self._reduction.combine(ours, self._scratch[: stop - start])
            if is_whole:
                self._reduction.finish(ours, self._n)
        return [(self._next, self._stretch(start, stop))] if goes_on else []

    def _stretch(self, start: int, stop: int) -> memoryview:
        return self._memory[start * self._element_bytes : stop * self._element_bytes]
