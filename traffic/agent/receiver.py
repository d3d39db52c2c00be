"""The receiving end of a flow: counts the bytes of one TCP connection and notes where iterations end.

Iteration k of a flow is the bytes [k * size, (k + 1) * size) of the stream; nothing marks the boundary,
and one read may cross it.
"""

from __future__ import annotations

import contextlib
import mmap
import socket
from collections.abc import Callable
from dataclasses import dataclass

from echelonflow.errors import RunError
from echelonflow.wire.messages import FlowDeclaration
from traffic.agent.connections import FlowLostError

READ_BYTES = 1 << 20
LEAST_WAKE_BYTES = 1 << 16
"""How many bytes are let gather before the agent is woken, at least: keeps it off the processor during a flow."""

_NOWHERE = mmap.mmap(-1, READ_BYTES)
"""With MSG_TRUNC the kernel throws the bytes away: this is never written to, and costs no memory."""


def wake_bytes(send_buffer_bytes: int) -> int:
    """How many bytes gather in mid-flow, where flows have this SO_SNDBUF: it is a time of the fastest link.

    So agents of fast links are not woken more often than those of slow ones. A flow's first and last bytes wake at once.
    """
    return max(LEAST_WAKE_BYTES, send_buffer_bytes)


@dataclass(frozen=True, slots=True)
class ReceivedFlow:
    """One iteration of a flow as its receiver saw it; times are those of the caller's clock."""

    iteration: int
    first_s: float
    finish_s: float
    received_bytes: int


class StreamCounter:
    """Cuts a stream of bytes, known only by their number, into iterations of `size_bytes`."""

    def __init__(self, size_bytes: int, iterations: int, wake_bytes: int = LEAST_WAKE_BYTES) -> None:
        self._size_bytes = size_bytes
        self._wake_bytes = wake_bytes
        self._iterations = iterations
        self._iteration = 0
        self._bytes = 0
        self._first_s = 0.0

    @property
    def done(self) -> bool:
        """Whether all iterations have arrived."""
        return self._iteration == self._iterations

    @property
    def iteration(self) -> int:
        """Of which iteration the next byte is."""
        return self._iteration

    @property
    def left_bytes(self) -> int:
        """How many bytes of that iteration are still to come."""
        return self._size_bytes - self._bytes

    @property
    def wanted_bytes(self) -> int:
        """How many bytes are worth being woken for: one to begin with, then `wake_bytes` or what is left."""
        return min(self._wake_bytes, self._size_bytes - self._bytes) if self._bytes else 1

    def add(self, count: int, now_s: float) -> list[ReceivedFlow]:
        """Note `count` more bytes, read at `now_s`; returns the iterations that they complete.

        Raises RunError if there are more bytes than all iterations have.
        """
        finished = []
        while count:
            if self.done:
                raise RunError(f"{count} bytes more have arrived than all {self._iterations} iterations have")
            if not self._bytes:
                self._first_s = now_s
            taken = min(count, self._size_bytes - self._bytes)
            self._bytes += taken
            count -= taken
            if self._bytes == self._size_bytes:
                finished.append(ReceivedFlow(self._iteration, self._first_s, now_s, self._bytes))
                self._iteration += 1
                self._bytes = 0
        return finished


class IncomingFlow:
    """One incoming transfer of a job on its connection.

    The agent is woken by its first byte, by every `wake_bytes` more, and by the last.
    `on_finished(flow, received)` is called for every iteration whose last byte has been read.
    """

    def __init__(
        self,
        job: str,
        declaration: FlowDeclaration,
        connection: socket.socket,
        *,
        iterations: int,
        wake_bytes: int = LEAST_WAKE_BYTES,
        clock: Callable[[], float],
        on_finished: Callable[[IncomingFlow, ReceivedFlow], None],
    ) -> None:
        self.job = job
        self.declaration = declaration
        self._counter = StreamCounter(declaration.size_bytes, iterations, wake_bytes)
        self._connection = connection
        self._clock = clock
        self._on_finished = on_finished
        self._low_bytes = 1
        connection.setblocking(False)

    def fileno(self) -> int:
        return self._connection.fileno()

    def read(self) -> bool:
        """Count what has arrived; returns False once the sender has closed, having sent all.

        Raises RunError if the connection ends before its time.
        """
        count = self._receive(_NOWHERE, socket.MSG_TRUNC)
        if not count:
            return count is None
        finished = self._counter.add(count, self._clock())
        self._wake_at(self._counter.wanted_bytes)
        for received in finished:
            self._on_finished(self, received)
        return True

    def _receive(self, room: mmap.mmap | memoryview, flags: int = 0) -> int | None:
        """How many bytes have been read into `room`: None where none are there yet, 0 once the sender has closed, having sent all.

        Raises RunError if the connection ends before its time.
        """
        try:
            count = self._connection.recv_into(room, len(room), flags)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            if self._counter.done:
                return 0
            raise self._lost(error.strerror) from None
        if not count and not self._counter.done:
            raise self._lost("closed by the sender")
        return count

    def _wake_at(self, wanted_bytes: int) -> None:
        """Be woken when so many bytes are there."""
        if wanted_bytes != self._low_bytes:
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted_bytes)
            self._low_bytes = wanted_bytes

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._connection.close()

    def _lost(self, why: str | None) -> RunError:
        return FlowLostError(
            self.job,
            self.declaration.flow,
            f"flow {self.declaration.flow!r} of job {self.job!r} from {self.declaration.src_host}: "
            f"connection lost ({why}); see that host's log",
        )
