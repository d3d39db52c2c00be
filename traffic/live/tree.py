"""Collectives along a binomial tree: few steps, for what is small, and for what one rank has and all are to have.

Place v (counted from the root) is a child of v less its lowest set bit. What goes up is reduced in the order of the children, not in
that of their arrival, so the result does not depend on timing. What is passed on has come whole, as `traffic.workloads.collectives` has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from traffic.live.exchange import Exchange, Outgoing
from traffic.live.memory import as_bytes
from traffic.live.reduction import Reduction


class Tree(Exchange):
    """`buffer` (one dimension, flat) of all `ranks`: up to place `root` with a `reduction`, and from it with `down`.

    `me` is this rank's place among `ranks`. Where nothing goes down, only the root's buffer holds the result; the others' are
    overwritten by what their branch adds up to.
    """

    def __init__(
        self,
        buffer: torch.Tensor,
        ranks: Sequence[int],
        me: int,
        *,
        root: int = 0,
        reduction: Reduction | None = None,
        down: bool = True,
    ) -> None:
        n = len(ranks)
        place = (me - root) % n
        lowest = place & -place if place else 1 << n.bit_length()
        below = [place + (1 << k) for k in range(n.bit_length()) if (1 << k) < lowest and place + (1 << k) < n]
        self._n, self._is_root, self._down = n, place == 0, down
        self._children = [ranks[(child + root) % n] for child in below]
        self._parent = ranks[((place & (place - 1)) + root) % n] if place else -1
        self._buffer, self._reduction = buffer, reduction
        self._pieces = [as_bytes(buffer)] if buffer.numel() else []
        size_bytes = len(as_bytes(buffer))
        self._theirs = {child: torch.empty_like(buffer) for child in self._children} if reduction is not None else {}
        self._missing = len(self._children) if reduction is not None else 0
        self.expected, self.sent_bytes = {}, {}
        up = tuple(self._theirs)
        from_above = (self._parent,) if place and down else up
        self.follows = {self._parent: up} if up and place else {}
        self.follows |= dict.fromkeys(self._children, from_above) if down and from_above else {}
        if not size_bytes:
            return
        if reduction is not None:
            self.expected |= {child: [as_bytes(theirs)] for child, theirs in self._theirs.items()}
            if place:
                self.sent_bytes[self._parent] = size_bytes
        if down:
            if place:
                self.expected[self._parent] = list(self._pieces)
            self.sent_bytes |= dict.fromkeys(self._children, size_bytes)

    def begin(self) -> Outgoing:
        return [] if self._missing else self._up()

    def filled(self, rank: int, place: int) -> Outgoing:
        if rank == self._parent:
            return [(child, self._pieces[place]) for child in self._children]
        self._missing -= 1
        if self._missing:
            return []
        assert self._reduction is not None  # children send up for nothing else
        for child in self._children:
            self._reduction.combine(self._buffer, self._theirs[child])
        return self._up()

    def _up(self) -> Outgoing:
        """All of this branch is in the buffer: to the parent, or from the root down again."""
        if not self._is_root:
            return [(self._parent, piece) for piece in self._pieces] if self._reduction is not None else []
        if self._reduction is not None:
            self._reduction.finish(self._buffer, self._n)
        return [(child, piece) for piece in self._pieces for child in self._children] if self._down else []
