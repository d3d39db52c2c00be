"""The connection between two ranks that carries what nobody schedules: what has not been learned yet, and what is said once.

Bytes go in frames: what they are of, how many, then the bytes. Those of an operation that has not been called here yet wait in
memory, so that ranks may call operations of different groups in different orders.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from traffic.live.exchange import Key
from traffic.live.streams import Inlet

_FRAME = struct.Struct("!QQQI")
_FAREWELL = Key(0, 0, 0)
"""What no operation is called: its sender ends, as it should."""
MOST_PER_WAKE_BYTES = 1 << 22
"""A bound on what one connection moves before the others have their turn."""
_ALIVE = ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 3))
"""A host that has vanished is noticed within four seconds, though nothing is sent."""
_TCP_USER_TIMEOUT = 18
_UNANSWERED_MS = 4000


class LostError(Exception):
    """A rank has gone without a farewell; says why."""


class _Waiting(NamedTuple):
    view: memoryview
    on_left: Callable[[], None] | None


class Link:
    """Our end of the connection to one rank; not blocking, used by one thread."""

    def __init__(self, connection: socket.socket, send_buffer_bytes: int | None = None) -> None:
        self._connection = connection
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _ALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, _UNANSWERED_MS)
        if send_buffer_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self._queue: deque[_Waiting] = deque()
        self._inlets: dict[Key, Inlet] = {}
        self._early: dict[Key, bytearray] = {}
        self._header = memoryview(bytearray(_FRAME.size))
        self._header_bytes = 0
        self._frame = _FAREWELL
        self._left_bytes = 0
        """Of the frame that is being read."""
        self.said_farewell = False
        """Whether the other end has."""

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def wants_write(self) -> bool:
        return bool(self._queue)

    def send(self, key: Key, view: memoryview, on_left: Callable[[], None]) -> None:
        """Send bytes of an operation after all that was to be sent before; `on_left` is called when TCP has taken them."""
        header = memoryview(_FRAME.pack(key.group, key.lane, key.number, len(view)))
        self._queue.append(_Waiting(header, None))
        self._queue.append(_Waiting(view, on_left))

    def say_farewell(self) -> None:
        """Nothing follows."""
        self._queue.append(_Waiting(memoryview(_FRAME.pack(*_FAREWELL, 0)), None))

    def expect(self, key: Key, inlet: Inlet) -> None:
        """From now on bytes of an operation go to `inlet`, those first that have come already."""
        early = self._early.pop(key, None)
        if early:
            view = memoryview(early)
            while view and (room := inlet.room):
                count = min(len(room), len(view))
                room[:count] = view[:count]
                view = view[count:]
                inlet.took(count)
            if view:
                raise LostError(_more_than_expected(len(view)))
        if not inlet.is_full:
            self._inlets[key] = inlet

    def write(self) -> None:
        """Hand TCP what it takes now (LostError if the other end has gone)."""
        budget = MOST_PER_WAKE_BYTES
        while self._queue and budget > 0:
            batch = [waiting.view for waiting, _ in zip(self._queue, range(16), strict=False)]
            try:
                sent = self._connection.sendmsg(batch)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise LostError(error.strerror or str(error)) from None
            budget -= sent
            self._drop(sent)

    def _drop(self, sent: int) -> None:
        """TCP has taken `sent` bytes of the queue."""
        while self._queue:
            view, on_left = self._queue[0]
            if sent < len(view):
                if sent:
                    self._queue[0] = _Waiting(view[sent:], on_left)
                return
            sent -= len(view)
            self._queue.popleft()
            if on_left is not None:
                on_left()

    def read(self) -> None:
        """Take what has come (LostError if the other end has gone without a farewell, or sends what it should not)."""
        budget = MOST_PER_WAKE_BYTES
        while budget > 0:
            try:
                count = self._read_some()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise LostError(error.strerror or str(error)) from None
            if not count:
                if self.said_farewell:
                    return
                raise LostError("connection closed")
            budget -= count

    def _read_some(self) -> int:
        """One read; returns how many bytes came, 0 at the end."""
        if not self._left_bytes:
            count = self._connection.recv_into(self._header[self._header_bytes :])
            self._header_bytes += count
            if self._header_bytes == _FRAME.size:
                *key, self._left_bytes = _FRAME.unpack(self._header)
                self._frame, self._header_bytes = Key(*key), 0
                self.said_farewell = self._frame == _FAREWELL
            return count
        inlet = self._inlets.get(self._frame)
        if inlet is None:
            early = self._connection.recv(min(self._left_bytes, 1 << 20))
            self._early.setdefault(self._frame, bytearray()).extend(early)
            self._left_bytes -= len(early)
            return len(early)
        room = inlet.room
        if not room:
            raise LostError(_more_than_expected(self._left_bytes))
        count = self._connection.recv_into(room, min(len(room), self._left_bytes))
        self._left_bytes -= count
        inlet.took(count)
        if inlet.is_full:
            del self._inlets[self._frame]
        return count

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._connection.close()


def _more_than_expected(count: int) -> str:
    return (
        f"it sent at least {count} bytes more of an operation than are received here; do all ranks call the same operations "
        "with equal sizes and types?"
    )
