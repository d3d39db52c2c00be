"""Exchanges in which each rank sends to others what they are to have, at once: messages, all-to-all, gather and scatter."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from traffic.live.exchange import Exchange, Outgoing, cut
from traffic.live.memory import as_bytes


class Direct(Exchange):
    """Flat tensors of one dimension for other ranks, and such that are filled by them. In the order of `sent`."""

    def __init__(self, sent: Mapping[int, torch.Tensor], received: Mapping[int, torch.Tensor]) -> None:
        self._sent = {rank: as_bytes(tensor) for rank, tensor in sent.items() if tensor.numel()}
        self.sent_bytes = {rank: len(view) for rank, view in self._sent.items()}
        self.expected = {rank: cut(as_bytes(tensor)) for rank, tensor in received.items() if tensor.numel()}

    def begin(self) -> Outgoing:
        return [(rank, view) for rank, view in self._sent.items()]

    def filled(self, rank: int, place: int) -> Outgoing:
        return []
