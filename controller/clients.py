"""Connections on the control socket: who is let in, what is heard of each, and what waits to be sent.

One bad message costs its sender the connection, after a `Fault` that says why. What one client does costs the others
nothing: each is read in turn and within its allowance, and who does not read what it is sent is cut off.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from controller import gate
from controller.framework import Framework
from controller.gate import Allowance, Gate
from controller.sockets import hung_up, peer_uid
from controller.stranger_log import log
from echelonflow.errors import InputError
from echelonflow.records.tokens_file import RUNNER
from echelonflow.wire.line import LineBuffer
from echelonflow.wire.messages import Fault, Hello, Message, encode

MOST_UNSENT = 10_000
"""Messages; a client that leaves so many unread is cut off."""
SEND_LIMIT_S = 30.0
"""A client that takes nothing of a message for so long is cut off."""
TAKE_OVER_LIMIT_S = 1.0
"""How long the successor of a client that has hung up may wait until all that it said was read."""
TAKE_OVER_LOOK_S = 0.01
ACCEPT_AGAIN_S = 0.1
"""Between attempts to accept where that fails, as without a free descriptor."""


@dataclass(eq=False)
class Client:
    """A connection on the control socket, and what waits to be sent on it (None: close it)."""

    number: int
    socket: Any
    outgoing: Any
    uid: int = 0
    name: str = ""
    host: str | None = None
    """The host that it speaks for, "" for a runner; None before it has said who it is."""
    unsent_bytes: int = 0
    ended: bool = False
    """It was told its last: nothing that it says counts any more."""
    green_threads: int = 0
    """Those that use the socket; the last one closes it."""

    @property
    def longest_line_bytes(self) -> int:
        return gate.LONGEST_HELLO_BYTES if self.host is None else gate.LONGEST_LINE_BYTES


class Hearer(Protocol):
    """What is told of clients."""

    def heard(self, client: Client, line: bytes) -> None:
        """A client has sent a line."""

    def refused(self, client: Client, reason: str) -> None:
        """A client has sent what cannot be a line; it is to be told why, and to go."""

    def gone(self, client: Client) -> None:
        """A client whose line was heard, or that was refused, is no longer there."""


@dataclass
class Clients:
    """All clients by number; `hearer` is told what they say, in the order in which it arrives."""

    framework: Framework
    gate: Gate
    hearer: Hearer
    clock: Callable[[], float] = time.monotonic
    by_number: dict[int, Client] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def serve(self, listening: Any) -> None:
        """Accept clients for ever."""
        while True:
            try:
                connection, _ = listening.accept()
            except OSError as error:
                log.error("a client cannot be accepted: %s", error.strerror)
                self.framework.sleep(ACCEPT_AGAIN_S)
                continue
            self._welcome(connection)

    def _welcome(self, connection: Any) -> None:
        try:
            uid = peer_uid(connection)
        except OSError:
            connection.close()
            return
        client = Client(next(self._numbers), connection, self.framework.queue(MOST_UNSENT), uid)
        refusal = self.gate.refusal(uid)
        if refusal is None and len(self.by_number) >= gate.MOST_CLIENTS:
            refusal = f"{gate.MOST_CLIENTS} clients are connected, as many as there may be"
        self._spawn(self._write, client)
        if refusal is not None:
            log.warning("client %d is turned away: %s", client.number, refusal)
            self.send(client, Fault(refusal))
            return
        unknown = [other for other in self.by_number.values() if other.host is None and not other.ended]
        if len(unknown) >= gate.MOST_UNKNOWN:
            self.hearer.refused(unknown[0], f"{gate.MOST_UNKNOWN} clients came after it and none said Hello before")
        self.by_number[client.number] = client
        self._spawn(self._read, client)
        self.framework.spawn_after(gate.HELLO_LIMIT_S, lambda: self._check_known(client))

    def _spawn(self, function: Callable[[Client], None], client: Client) -> None:
        client.green_threads += 1
        self.framework.spawn(function, client)

    def _check_known(self, client: Client) -> None:
        if client.host is None and not client.ended and client.number in self.by_number:
            self.hearer.refused(client, f"Hello was not said within {gate.HELLO_LIMIT_S:g} s")

    def admit(self, client: Client, message: Message) -> Hello:
        """The first message of a client, less its token, if it may be who it says (InputError otherwise)."""
        holder = None
        if isinstance(message, Hello):
            holder = self._holder(message.host)
            until_s = self.clock() + TAKE_OVER_LIMIT_S
            while holder is not None and hung_up(holder.socket) and self.clock() < until_s:
                # What it said at last is still to be read.
                self.framework.sleep(TAKE_OVER_LOOK_S)
                holder = self._holder(message.host)
        hello = self.gate.admit(message, client.uid, None if holder is None else holder.name)
        client.host, client.name = hello.host, hello.client
        return hello

    def _holder(self, host: str) -> Client | None:
        return next((c for c in self.by_number.values() if c.host == host and not c.ended), None)

    def _read(self, client: Client) -> None:
        buffer, allowance = LineBuffer(), Allowance()
        try:
            while not client.ended and (data := client.socket.recv(1 << 16)):
                lines = buffer.feed(data)
                for line in lines:
                    self._hear(client, line)
                if len(buffer) > client.longest_line_bytes:
                    self._refuse(client, f"a line is longer than {client.longest_line_bytes} bytes")
                # Lets others run, also where this one has always more to say.
                self.framework.sleep(allowance.pause_s(len(lines), len(data), self.clock()))
        except OSError:  # the peer was killed: the same as the end of the connection
            pass
        finally:
            self._forget(client)
            _leave(client)

    def _hear(self, client: Client, line: bytes) -> None:
        if client.ended:
            return
        if len(line) > client.longest_line_bytes:
            self._refuse(client, f"a line is longer than {client.longest_line_bytes} bytes")
        else:
            self.hearer.heard(client, line)

    def _refuse(self, client: Client, reason: str) -> None:
        if not client.ended:
            self.hearer.refused(client, reason)

    def _write(self, client: Client) -> None:
        with contextlib.suppress(OSError):  # TimeoutError is one
            while (line := client.outgoing.get()) is not None:
                with self.framework.time_limit(SEND_LIMIT_S):
                    client.socket.sendall(line)
                client.unsent_bytes -= len(line)
        _shut(client)  # the reader sees the end of the connection and cleans up
        _leave(client)

    def send(self, client: Client, message: Message) -> None:
        """Have a message sent. A `Fault` is the last one, but for the runner, whose orders may be refused."""
        if client.ended:
            return
        if not _put(client, encode(message)):
            log.error("client %d does not read what it is sent; closing its connection", client.number)
            client.ended = True
            _shut(client)
        elif isinstance(message, Fault) and client.host != RUNNER:
            self.end(client)

    def end(self, client: Client) -> None:
        """Close a connection as soon as what waits was sent; what the client says meanwhile does not count."""
        if client.ended:
            return
        client.ended = True
        try:
            client.outgoing.put_nowait(None)
        except queue.Full:
            _shut(client)

    def _forget(self, client: Client) -> None:
        if self.by_number.pop(client.number, None) is None:
            return
        self.end(client)
        self.hearer.gone(client)


def _put(client: Client, line: bytes) -> bool:
    """Have a line sent; False where the client has left too much unread."""
    client.unsent_bytes += len(line)
    if client.unsent_bytes > gate.MOST_UNSENT_BYTES:
        return False
    try:
        client.outgoing.put_nowait(line)
    except queue.Full:
        return False
    return True


def _shut(client: Client) -> None:
    with contextlib.suppress(OSError):
        client.socket.shutdown(socket.SHUT_RDWR)


def _leave(client: Client) -> None:
    client.green_threads -= 1
    if not client.green_threads:
        client.socket.close()


def check_order(client: Client, order: str) -> None:
    """Raise InputError for an order of one who is not the runner, before anything is loaded for it."""
    if client.host != RUNNER:
        raise InputError(f"{order} is for the runner to say, not for {client.name} on {client.host}")
