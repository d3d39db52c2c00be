"""An operation that has not ended: what is missing of it, and who hears of its end."""

from __future__ import annotations

from collections.abc import Callable

from traffic.live.exchange import Exchange, Outgoing
from traffic.live.streams import Inlet

OnDone = Callable[[Exception | None], None]
"""Is told what went wrong; None for nothing."""
Send = Callable[[int, memoryview, Callable[[], None]], None]
"""Sends bytes to a rank, behind all that was sent to it in this operation. Then calls back, when TCP has taken them."""


class Running:
    """One exchange under way. It belongs to the thread that carries it out; `send` is that thread's way to other ranks."""

    def __init__(self, exchange: Exchange, send: Send, on_done: OnDone) -> None:
        self.exchange = exchange
        self.is_over = False
        self._send, self._on_done = send, on_done
        self._pieces_missing = sum(map(len, exchange.expected.values()))
        self._bytes_missing = sum(exchange.sent_bytes.values())
        """That TCP has not taken yet."""
        self.inlets = {rank: self._inlet(rank, pieces) for rank, pieces in exchange.expected.items()}
        """By the rank from which they are filled."""

    def begin(self) -> None:
        """Send what can be sent before anything has come."""
        self._pass_on(self.exchange.begin())

    def end(self, error: Exception | None) -> None:
        """It is over, once."""
        if not self.is_over:
            self.is_over = True
            self._on_done(error)

    def end_if_done(self) -> None:
        """It is over if nothing is missing."""
        if not self._pieces_missing and not self._bytes_missing:
            self.end(None)

    def _inlet(self, rank: int, pieces: list[memoryview]) -> Inlet:
        def filled(place: int) -> None:
            self._pieces_missing -= 1
            self._pass_on(self.exchange.filled(rank, place))
            self.end_if_done()

        return Inlet(pieces, filled)

    def _pass_on(self, outgoing: Outgoing) -> None:
        for rank, view in outgoing:

            def left(count: int = len(view)) -> None:
                self._bytes_missing -= count
                self.end_if_done()

            self._send(rank, view, left)
