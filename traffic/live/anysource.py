"""A message that is received from whichever rank of a group sends one first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from traffic.live.direct import Direct
from traffic.live.exchange import Exchange, Key
from traffic.live.running import OnDone


@dataclass(frozen=True, eq=False)
class AnySource:
    """`lanes` has by rank the lane of its messages; `number` is how many of a lane were asked for, and `take` asks for one more.

    `on_taken(rank, key, exchange)` is told whose message it is, before that is received into `buffer` (one dimension, flat).
    """

    group: int
    lanes: Mapping[int, int]
    number: Callable[[int], int]
    take: Callable[[int], int]
    buffer: torch.Tensor
    on_taken: Callable[[int, Key, Exchange], None]
    on_done: OnDone

    def streams(self) -> Iterator[tuple[int, Key]]:
        """By rank the next message that nobody has asked for."""
        for rank, lane in self.lanes.items():
            yield rank, Key(self.group, lane, self.number(lane) + 1)

    def taken_from(self, rank: int, key: Key) -> tuple[Key, Exchange]:
        """It is this rank's."""
        exchange = Direct({}, {rank: self.buffer})
        taken = Key(key.group, key.lane, self.take(key.lane))
        self.on_taken(rank, taken, exchange)
        return taken, exchange
