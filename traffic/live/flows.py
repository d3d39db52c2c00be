"""Declared flows that carry tensors: what they have to send, and where it goes when it comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from echelonflow.errors import RunError
from echelonflow.records.observed import rank_from
from traffic.agent.connections import FlowLostError
from traffic.agent.receiver import IncomingFlow
from traffic.live.early import unexpected
from traffic.live.streams import Inlet

_EARLY = memoryview(bytearray(1 << 16))
"""Where what nobody has asked for yet is read to, before it is kept."""


class Pieces:
    """The payload of a flow: what its operations have ready, iteration by iteration."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[memoryview]] = {}
        self._ready_bytes: dict[int, int] = {}

    def add(self, iteration: int, view: memoryview) -> None:
        """More of what an iteration sends."""
        self._waiting.setdefault(iteration, deque()).append(view)
        self._ready_bytes[iteration] = self._ready_bytes.get(iteration, 0) + len(view)

    def ready_bytes(self, iteration: int) -> float:
        return self._ready_bytes.get(iteration, 0)

    def piece(self, iteration: int, most_bytes: int) -> memoryview:
        waiting = self._waiting.get(iteration)
        return waiting[0][:most_bytes] if waiting else memoryview(b"")

    def sent(self, iteration: int, count: int) -> None:
        waiting = self._waiting[iteration]
        view = waiting.popleft()
        if count < len(view):
            waiting.appendleft(view[count:])
        elif not waiting:
            del self._waiting[iteration]
        self._ready_bytes[iteration] -= count
        if not self._ready_bytes[iteration]:
            del self._ready_bytes[iteration]


class Arriving(IncomingFlow):
    """A flow whose bytes go into tensors. It is read as they come; what nobody has asked for yet waits here.

    That its connection ends too early is no error: its sender may have ended, having sent the rest another way.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._expected: dict[int, Inlet] = {}
        """By iteration."""
        self._early: dict[int, bytearray] = {}
        self.is_closed = False
        """Whether nothing more will come."""
        self.on_closed: Callable[[], None] = lambda: None

    def expect(self, iteration: int, inlet: Inlet) -> None:
        """What comes of an iteration goes there."""
        early = self._early.pop(iteration, None)
        if early is not None:
            self._check(inlet)
            inlet.put(early)
        if inlet.is_full:
            return
        self._expected[iteration] = inlet
        if iteration == self._counter.iteration and not self.is_closed:
            # Others may wait for what this piece makes us send: it is not to wait for as much as nobody asked for did.
            self._wake_at(min(self._counter.wanted_bytes, len(inlet.room)))

    def forget(self, iteration: int) -> None:
        """Nothing of an iteration comes this way."""
        self._expected.pop(iteration, None)

    def read(self) -> bool:
        while True:
            iteration = self._counter.iteration
            inlet = self._expected.get(iteration)
            # One that is not as large as this flow waits for what comes another way.
            fits = inlet is not None and self._fits(inlet)
            room = inlet.room if inlet is not None and fits else _EARLY[: self._counter.left_bytes]
            try:
                count = self._receive(room)
            except FlowLostError:
                count = 0
            if count is None:
                self._wake_at(min(self._counter.wanted_bytes, len(room)))
                return True
            if not count:
                self.is_closed = True
                self.on_closed()
                return False
            if inlet is not None and not fits:
                self._check(inlet)
            for received in self._counter.add(count, self._clock()):
                self._on_finished(self, received)
            if inlet is None:
                self._early.setdefault(iteration, bytearray()).extend(room[:count])
                continue
            inlet.took(count)
            if inlet.is_full:
                self._expected.pop(iteration, None)

    def _fits(self, inlet: Inlet) -> bool:
        return inlet.total_bytes == self.declaration.size_bytes

    def _check(self, inlet: Inlet) -> None:
        if not self._fits(inlet):
            raise RunError(unexpected(rank_from(self.declaration.flow), self.declaration.size_bytes, inlet.total_bytes))
