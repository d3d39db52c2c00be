"""One collective as one rank takes part in it: streams of bytes to and from other ranks, and what one has to do with the other.

An exchange knows no socket. It says what it can send from the start, and what more it can send when a piece of what it
expects has come. Each other rank is a stream in either direction; its pieces go in order. So any algorithm is a few lines, and
how bytes travel is somebody else's affair (`traffic.live.engine`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

LEAST_PIECE_BYTES, MOST_PIECE_BYTES = 1 << 13, 1 << 19
PIECES = 8
"""What is passed on goes in so many pieces, of these sizes: the next rank is busy with one while the following one comes.

Where a scheduler has flows of a ring wait at some hosts and not at others, whole parts would leave links idle.
"""

MOST_TAG = 1 << 31
"""Tags of messages are below it."""

Piece = memoryview
Outgoing = Iterable[tuple[int, Piece]]
"""(rank, bytes), in order."""


class Key(NamedTuple):
    """What both ends of a stream call an exchange: the group, which operation, and which of its kind.

    `lane` is 0 for collectives. For a message it tells sender, receiver and tag apart, which are numbered each by themselves.
    """

    group: int
    lane: int
    number: int

    @property
    def tag(self) -> int:
        """Of a message."""
        return (self.lane - 1) % MOST_TAG


class Exchange:
    """What one rank sends and receives in one operation; ranks are global ones.

    `expected[r]` are the pieces that come from rank r, in order; each is memory to be filled. `sent_bytes[r]` is how much goes to
    rank r in all. Neither names a rank with which nothing is exchanged. `follows[r]` are the ranks from which something must have come
    before anything goes to rank r; who is not named there is sent to at once.
    """

    expected: dict[int, list[Piece]]
    sent_bytes: dict[int, int]
    follows: Mapping[int, tuple[int, ...]] = MappingProxyType({})

    def begin(self) -> Outgoing:
        """What can be sent before anything has come."""
        raise NotImplementedError

    def filled(self, rank: int, place: int) -> Outgoing:
        """Piece `place` of what rank `rank` sends has come; returns what can be sent since."""
        raise NotImplementedError


def lane_of(src: int, dst: int, ranks: int, tag: int) -> int:
    """The lane of messages from place `src` to place `dst` of a group of so many ranks."""
    return 1 + (src * ranks + dst) * MOST_TAG + tag


def ends_of(lane: int, ranks: int) -> tuple[int, int]:
    """From which place to which a lane's messages go, in a group of so many ranks."""
    return divmod((lane - 1) // MOST_TAG, ranks)


def piece_bytes_of(size_bytes: int) -> int:
    """In pieces of how many bytes a stretch of `size_bytes` is passed on."""
    return min(max(size_bytes // PIECES, LEAST_PIECE_BYTES), MOST_PIECE_BYTES)


def cut(view: memoryview, piece_bytes: int = MOST_PIECE_BYTES) -> list[memoryview]:
    """A stretch of memory in pieces of `piece_bytes`, the last one what is left; none for no bytes."""
    return [view[start : start + piece_bytes] for start in range(0, len(view), piece_bytes)]
