"""What has come over links and has no place there: of exchanges that have not begun here, or that another thread carries out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from traffic.live.exchange import Key
from traffic.live.streams import Inlet

MOST_EARLY_BYTES = 1 << 27
"""Of one rank. Where more has come and nobody here waits for anything of that rank, no more is read from it."""


class MismatchError(Exception):
    """A rank sends what is not expected here; says what, as what that rank does."""


class Come(NamedTuple):
    """What has come of a stream of `total_bytes`."""

    total_bytes: int
    data: bytearray


class Taker(NamedTuple):
    """Another thread than the links' carries an exchange out: it is given what comes, and says what it still waits for."""

    inlets: Mapping[int, Inlet]
    give: Callable[[int, int, bytes], None]
    """Rank, bytes of its stream in all, and the next ones. Called in the links' thread."""


class _Numbers:
    """Of a lane, which exchanges have begun. They begin nearly in order."""

    def __init__(self) -> None:
        self._up_to = 0
        self._beyond: set[int] = set()

    def begin(self, number: int) -> None:
        self._beyond.add(number)
        while self._up_to + 1 in self._beyond:
            self._up_to += 1
            self._beyond.remove(self._up_to)

    def __contains__(self, number: int) -> bool:
        return number <= self._up_to or number in self._beyond


class Early:
    """Used by any thread. `on_begun` is told when an exchange begins that may wait for what is not read at the moment."""

    def __init__(self) -> None:
        self.on_begun: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._waiting: dict[tuple[int, Key], Come] = {}
        self._bytes: Counter[int] = Counter()
        self._takers: dict[Key, Taker] = {}
        self._begun: dict[tuple[int, int], _Numbers] = {}

    def begin(self, key: Key, ranks: Collection[int], taker: Taker | None = None) -> dict[int, Come]:
        """An exchange begins here, in which `ranks` send something; returns what has come of it, by rank.

        With a `taker`, what comes of it from now on is given to it until it is `over`. MismatchError where a rank has sent that should not.
        """
        with self._lock:
            self._begun.setdefault((key.group, key.lane), _Numbers()).begin(key.number)
            if taker is not None:
                self._takers[key] = taker
            found = {}
            if self._waiting:
                for rank in [rank for rank, waiting in self._waiting if waiting == key]:
                    found[rank] = self._waiting.pop((rank, key))
                    self._bytes[rank] -= len(found[rank].data)
        for rank, come in found.items():
            if rank not in ranks:
                raise MismatchError(unexpected(rank, come.total_bytes, 0))
        self.on_begun()
        return found

    def over(self, key: Key) -> None:
        """An exchange has ended that another thread carried out."""
        with self._lock:
            self._takers.pop(key, None)

    def add(self, rank: int, key: Key, total_bytes: int, data: bytes) -> bool:
        """More of a stream has come. Returns whether it is the first that waits (MismatchError where nothing is expected any more)."""
        with self._lock:
            taker = self._takers.get(key)
            if taker is None:
                numbers = self._begun.get((key.group, key.lane))
                if numbers is not None and key.number in numbers:
                    raise MismatchError(unexpected(rank, total_bytes, 0))
                come = self._waiting.get((rank, key))
                self._bytes[rank] += len(data)
                if come is None:
                    self._waiting[rank, key] = Come(total_bytes, bytearray(data))
                    return True
                come.data.extend(data)
                return False
        if rank not in taker.inlets:
            raise MismatchError(unexpected(rank, total_bytes, 0))
        taker.give(rank, total_bytes, data)
        return False

    def first_of(self, wanted: Iterable[tuple[int, Key]]) -> tuple[int, Key] | None:
        """Of these streams the one that has begun to come before the others; None where none has."""
        wanted = set(wanted)
        with self._lock:
            return next((each for each in self._waiting if each in wanted), None)

    def is_much(self, rank: int) -> bool:
        """Whether half as much of a rank waits as may."""
        return self._bytes[rank] > MOST_EARLY_BYTES // 2

    def is_enough(self, rank: int) -> bool:
        """Whether so much of a rank waits that no more should be read, as nothing that another thread carries out waits for it."""
        if self._bytes[rank] <= MOST_EARLY_BYTES:
            return False
        with self._lock:
            takers = list(self._takers.values())
        return all(rank not in taker.inlets or taker.inlets[rank].is_full for taker in takers)


def unexpected(rank: int, sent_bytes: int, expected_bytes: int) -> str:
    """What is wrong where a rank sends another number of bytes than are expected."""
    return (
        f"rank {rank} sends {sent_bytes:,} bytes of an operation of which {expected_bytes:,} are expected from it; do all ranks "
        "call the same operations with equal sizes and types?"
    )
