"""The client's end of a connection to the coordinator: messages out, messages in, one JSON object a line.

Nothing blocks but `send`, `wait` and `expect`, so that a line fits into any event loop as well as into a script.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque
from typing import TypeVar

from echelonflow.errors import EchelonError, RunError
from echelonflow.wire.messages import Fault, Message, decode, encode

_READ_BYTES = 1 << 18
SEND_LIMIT_S = 30.0
"""A coordinator that takes nothing for so long is gone."""

Kind = TypeVar("Kind")


class CoordinatorGoneError(RunError):
    """The connection to the coordinator has ended, from its side."""


class LineBuffer:
    """Puts lines together from what arrives in pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def __len__(self) -> int:
        """Bytes of the line that is not complete."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their ends."""
        self._rest += data
        if b"\n" not in data:
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return lines


class Line:
    """Messages over a connected stream socket, which is non-blocking from now on.

    Every method that touches the socket raises RunError when the coordinator is gone, and InputError for a line that
    is no message.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._unsent = bytearray()
        self._buffer = LineBuffer()
        self._arrived: deque[Message] = deque()

    def fileno(self) -> int:
        """The socket's descriptor, for an event loop."""
        return self._connection.fileno()

    def put(self, message: Message) -> None:
        """Keep a message until `flush`; they leave in order."""
        self._unsent += encode(message)

    @property
    def wants_write(self) -> bool:
        """Whether messages wait for `flush`."""
        return bool(self._unsent)

    def flush(self) -> None:
        """Send what the socket takes; `wants_write` tells whether something is left."""
        while self._unsent:
            try:
                sent = self._connection.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if reason := self._last_words():
                    raise RunError(f"the coordinator refused a message: {reason}") from None
                raise CoordinatorGoneError(f"the coordinator closed the connection: {error.strerror}") from None
            del self._unsent[:sent]

    def send(self, *messages: Message) -> None:
        """Send messages, and wait until the socket has taken all of them."""
        for message in messages:
            self.put(message)
        self.flush()
        while self._unsent:
            if not self._ready(select.POLLOUT, SEND_LIMIT_S):
                raise RunError(f"the coordinator took nothing for {SEND_LIMIT_S:g} s")
            self.flush()

    def read(self) -> list[Message]:
        """The messages that have arrived by now, maybe none."""
        self._receive()
        found = list(self._arrived)
        self._arrived.clear()
        return found

    def wait(self, limit_s: float) -> Message | None:
        """The next message; None if none arrives within `limit_s`."""
        deadline_s = time.monotonic() + limit_s
        while not self._arrived:
            if not self._ready(select.POLLIN, deadline_s - time.monotonic()):
                return None
            self._receive()
        return self._arrived.popleft()

    def expect(self, kind: type[Kind], limit_s: float) -> Kind:
        """The next message, which has to be a `kind` (RunError for another, and where none comes)."""
        message = self.wait(limit_s)
        if isinstance(message, Fault):
            raise RunError(f"the coordinator refused a message: {message.reason}")
        if not isinstance(message, kind):
            said = f"said nothing for {limit_s:g} s" if message is None else f"sent {message!r}"
            raise RunError(f"the coordinator {said}; {kind.__name__} was expected")
        return message

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _ready(self, what: int, limit_s: float) -> bool:
        waiting = select.poll()
        waiting.register(self._connection, what)
        return bool(waiting.poll(max(limit_s, 0.0) * 1e3))

    def _last_words(self) -> str:
        """Why the coordinator has closed the connection, if it has said so."""
        with contextlib.suppress(EchelonError):
            while True:
                self._receive()
                for message in self._arrived:
                    if isinstance(message, Fault):
                        return message.reason
                if not self._ready(select.POLLIN, 0.0):
                    break
        return ""

    def _receive(self) -> None:
        try:
            data = self._connection.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise CoordinatorGoneError(f"the connection to the coordinator failed: {error.strerror}") from None
        if not data:
            raise CoordinatorGoneError("the coordinator closed the connection")
        self._arrived += map(decode, self._buffer.feed(data))
