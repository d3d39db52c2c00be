"""The connection between two ranks that carries what nobody schedules: what has not been learned yet, and what is said once.

Bytes go in frames: what they are of, how many that has in all, how many follow, then the bytes. Those of an operation that has not been
called here yet wait in memory, so that ranks may call operations of different groups in different orders. The last frame is a farewell; it
says why, where its sender cannot go on.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from traffic.live.early import Come, Early, MismatchError, unexpected
from traffic.live.exchange import Key
from traffic.live.streams import Inlet

_FRAME = struct.Struct("!QQQQI")
_FAREWELL = Key(0, 0, 0)
"""What no operation is called: its sender ends."""
_PATIENCE = Key(0, 0, 1)
"""Nor this: its sender may not read for a while, so that nothing is acknowledged."""
_MOST_FAREWELL_BYTES = 1000
MOST_PER_WAKE_BYTES = 1 << 22
"""A bound on what one connection moves before the others have their turn."""
_ALIVE = ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 3))
"""A host that has vanished is noticed within four seconds, though nothing is sent."""
TCP_USER_TIMEOUT = 18
_UNANSWERED_MS = 4000
_DISCARDED = 1 << 16


class LostError(Exception):
    """A rank has gone without a farewell; says why."""


class _Waiting(NamedTuple):
    view: memoryview
    on_left: Callable[[], None] | None
    is_header: bool = False


class Link:
    """Our end of the connection to `rank`; not blocking, used by one thread. What has no place yet goes to `early`."""

    def __init__(
        self, connection: socket.socket, rank: int, early: Early, send_buffer_bytes: int | None = None
    ) -> None:
        self._connection, self._rank, self._early = connection, rank, early
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _ALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, _UNANSWERED_MS)
        if send_buffer_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self._queue: deque[_Waiting] = deque()
        self._is_within = False
        """Whether some of the first in the queue has left."""
        self._inlets: dict[Key, Inlet] = {}
        self._header = memoryview(bytearray(_FRAME.size))
        self._header_bytes = 0
        self._frame = _FAREWELL
        self._total_bytes = 0
        """Of the stream whose frame is being read."""
        self._left_bytes = 0
        """Of the frame that is being read."""
        self._farewell = bytearray()
        self._has_asked = False
        """For patience."""
        self._is_discarding = False
        self.said_farewell = False
        """Whether the other end has."""

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def wants_write(self) -> bool:
        return bool(self._queue)

    @property
    def is_awaited(self) -> bool:
        """Whether an operation that has begun here waits for it."""
        return bool(self._inlets)

    @property
    def is_acknowledged(self) -> bool:
        """Whether all that TCP was handed has arrived at the other host."""
        try:
            waiting = fcntl.ioctl(self._connection, termios.TIOCOUTQ, b"\0\0\0\0")
        except OSError:
            return True
        return not any(waiting)

    @property
    def why(self) -> str:
        """What the farewell gives for a reason; empty for a proper end."""
        return self._farewell.decode(errors="replace")

    def send(self, key: Key, view: memoryview, total_bytes: int, on_left: Callable[[], None]) -> None:
        """Send the next of `total_bytes` of an operation, after all that was to be sent before; `on_left` is called when TCP has taken them."""
        header = memoryview(_FRAME.pack(key.group, key.lane, key.number, total_bytes, len(view)))
        self._queue.append(_Waiting(header, None, is_header=True))
        self._queue.append(_Waiting(view, on_left))

    def ask_for_patience(self) -> None:
        """The other end is not to take it for our death that we do not read."""
        if not self._has_asked:
            self._has_asked = True
            self._queue.append(_Waiting(memoryview(_FRAME.pack(*_PATIENCE, 0, 0)), None, is_header=True))

    def say_farewell(self, why: str = "") -> None:
        """Nothing follows. With a reason, what has not left is dropped, but for the rest of a frame."""
        text = why.encode()[:_MOST_FAREWELL_BYTES]
        if why:
            self._is_discarding = True
            self._drop_waiting()
        self._queue.append(_Waiting(memoryview(_FRAME.pack(*_FAREWELL, 0, len(text)) + text), None, is_header=True))

    def _drop_waiting(self) -> None:
        kept = []
        if self._queue and (self._is_within or not self._queue[0].is_header):
            count = 2 if self._queue[0].is_header and len(self._queue) > 1 and not self._queue[1].is_header else 1
            # Copied, as whoever hears that its operation has failed may use its memory again.
            kept = [_Waiting(memoryview(bytes(self._queue[place].view)), None) for place in range(count)]
        self._queue.clear()
        self._queue.extend(kept)

    def expect(self, key: Key, inlet: Inlet, come: Come | None) -> None:
        """From now on bytes of an operation go to `inlet`, those first that have `come` already (MismatchError for another number)."""
        if come is not None:
            self._check(inlet, come.total_bytes)
            inlet.put(come.data)
        if not inlet.is_full:
            self._inlets[key] = inlet
            if self._left_bytes and self._frame == key:
                self._check(inlet, self._total_bytes)

    def _check(self, inlet: Inlet, total_bytes: int) -> None:
        if total_bytes != inlet.total_bytes:
            raise MismatchError(unexpected(self._rank, total_bytes, inlet.total_bytes))

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
            view, on_left, is_header = self._queue[0]
            if sent < len(view):
                if sent:
                    self._queue[0] = _Waiting(view[sent:], on_left, is_header)
                    self._is_within = True
                return
            sent -= len(view)
            self._queue.popleft()
            self._is_within = False
            if on_left is not None:
                on_left()

    def read(self) -> bool:
        """Take what has come. Returns whether something has begun to wait that no operation has asked for.

        LostError if the other end has gone without a farewell, MismatchError if it sends what is not expected.
        """
        budget, is_new = MOST_PER_WAKE_BYTES, False
        while budget > 0:
            try:
                count = self._discard() if self._is_discarding else self._read_header() or self._read_some()
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                raise LostError(error.strerror or str(error)) from None
            if not count:
                if self.said_farewell:
                    break
                raise LostError("connection closed")
            budget -= abs(count)
            is_new = is_new or count < 0
        return is_new

    def _discard(self) -> int:
        return len(self._connection.recv(_DISCARDED))

    def _read_header(self) -> int:
        """What of a frame's beginning comes with one read; 0 within a frame, or at the end."""
        if self._left_bytes:
            return 0
        count = self._connection.recv_into(self._header[self._header_bytes :])
        self._header_bytes += count
        if self._header_bytes == _FRAME.size:
            *key, self._total_bytes, self._left_bytes = _FRAME.unpack(self._header)
            self._frame, self._header_bytes = Key(*key), 0
            if self._frame == _FAREWELL:
                self.said_farewell = not self._left_bytes
            elif self._frame == _PATIENCE:
                self._connection.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, 0)
            else:
                inlet = self._inlets.get(self._frame)
                if inlet is not None:
                    self._check(inlet, self._total_bytes)
        return count

    def _read_some(self) -> int:
        """One read within a frame; returns how many bytes came, 0 at the end; negative where they are the first that wait."""
        if not self._left_bytes:
            return 0
        inlet = self._inlets.get(self._frame)
        if inlet is None:
            data = self._connection.recv(min(self._left_bytes, 1 << 20))
            count = len(data)
            if count:
                self._left_bytes -= count
                return -count if self._keep(data) else count
            return 0
        room = inlet.room
        count = self._connection.recv_into(room, min(len(room), self._left_bytes))
        self._left_bytes -= count
        inlet.took(count)
        if inlet.is_full:
            del self._inlets[self._frame]
        return count

    def _keep(self, data: bytes) -> bool:
        """Keep what has no place yet."""
        if self._frame != _FAREWELL:
            return self._early.add(self._rank, self._frame, self._total_bytes, data)
        self._farewell += data
        self.said_farewell = not self._left_bytes
        return False

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._connection.close()
