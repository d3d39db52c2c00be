"""Where switches connect: by TLS if told to, from users who may, and within a time; what they say, the framework hears.

Neither framework's own server is used. It cannot tell who connects, waits for ever for who says nothing, and binds in a
thread where a failure would go unseen.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from controller.local_peer import is_loopback, local_uid
from controller.stranger_log import log
from echelonflow.errors import InputError

MOST_CONNECTIONS = 4096
MOST_UNKNOWN = 64
"""Connections that have not said who they are; beyond that, who has waited longest gives way."""
HANDSHAKE_LIMIT_S = 10.0
"""A switch must have said who it is by then."""
TLS_LIMIT_S = 5.0
ACCEPT_PAUSE_S = 0.001
"""Between two connections: who connects for ever leaves time to others."""
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
"""A switch whose machine has died is noticed within 25 s, so that its successor is not kept out for longer."""


class Threads(Protocol):
    """What is used of `controller.framework.Framework`."""

    def spawn(self, function: Callable[..., None], *args: Any) -> Any: ...
    def spawn_after(self, delay_s: float, function: Callable[..., None]) -> Any: ...
    def sleep(self, delay_s: float) -> None: ...
    def time_limit(self, limit_s: float) -> Any: ...


class Talk(Protocol):
    """One connection, as a framework speaks OpenFlow on it."""

    def run(self) -> None:
        """Speak until the connection ends."""

    @property
    def known(self) -> bool:
        """Whether the switch has said who it is."""


@dataclass(eq=False)
class OpenFlowServer:
    """Accepts switches and hands each to `talk`, which makes a `Talk` of its connection and address.

    On loopback only programs of the users `uids` are heard. With `tls` a switch must show a certificate.
    """

    threads: Threads
    talk: Callable[[Any, Any], Talk]
    uids: frozenset[int]
    tls: ssl.SSLContext | None = None
    _open: dict[Any, Talk | None] = field(default_factory=dict)
    """Connections in the order in which they came; None while TLS is agreed on."""

    def serve(self, listening: Any) -> None:
        """Accept switches for ever."""
        while True:
            try:
                connection, address = listening.accept()
            except OSError as error:
                log.error("a switch cannot be accepted: %s", error.strerror)
                self.threads.sleep(HANDSHAKE_LIMIT_S / 100)
                continue
            refusal = self._refusal(connection)
            if refusal is not None:
                log.warning("a switch at %s:%d is refused: %s", *address[:2], refusal)
                connection.close()
            else:
                self._make_room()
                self._open[connection] = None
                self.threads.spawn(self._serve_one, connection, address)
            self.threads.sleep(ACCEPT_PAUSE_S)

    def _refusal(self, connection: Any) -> str | None:
        if len(self._open) >= MOST_CONNECTIONS:
            return f"{MOST_CONNECTIONS} are connected, as many as there may be"
        try:
            uid = local_uid(connection)
            own_machine = is_loopback(connection)
        except OSError as error:
            return f"it has gone: {error}"
        if uid is None:  # of another machine, or of another network namespace of this one
            return "nobody knows whose it is" if own_machine else None
        return None if uid in self.uids else f"it is user {uid}'s; the controller was started without --allow-uid {uid}"

    def _make_room(self) -> None:
        unknown = [connection for connection, talk in self._open.items() if talk is None or not talk.known]
        if len(unknown) >= MOST_UNKNOWN:
            log.warning("%d switches have not said who they are; the first of them is closed", len(unknown))
            _shut(unknown[0])

    def _check_known(self, connection: Any) -> None:
        talk = self._open.get(connection)
        if talk is not None and not talk.known:
            _shut(connection)

    def _serve_one(self, connection: Any, address: Any) -> None:
        secured = None
        try:
            secured = self._secured(connection)
            talk = self._open[connection] = self.talk(secured, address)
            timer = self.threads.spawn_after(HANDSHAKE_LIMIT_S, lambda: self._check_known(connection))
            try:
                talk.run()
            finally:
                timer.cancel()
        except OSError as error:  # TimeoutError and SSLError are such
            log.warning("a switch at %s:%d is lost: %s", *address[:2], error)
        except Exception as error:  # noqa: BLE001 the frameworks' parsers raise anything for what is no OpenFlow
            log.warning("a switch at %s:%d does not speak OpenFlow: %r", *address[:2], error)
        finally:
            del self._open[connection]
            (secured or connection).close()

    def _secured(self, connection: Any) -> Any:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        if self.tls is None:
            return connection
        with self.threads.time_limit(TLS_LIMIT_S):
            return Secured(self.tls.wrap_socket(connection, server_side=True))


class Secured:
    """A TLS connection that ends where its peer breaks the protocol: the frameworks would try for ever to go on."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def recv(self, size: int) -> bytes:
        try:
            received: bytes = self._connection.recv(size)
        except TimeoutError:
            raise
        except ssl.SSLError as error:
            if "timed out" in str(error):
                raise
            return b""
        return received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def tls_context(key: Path, certificate: Path, authority: Path) -> ssl.SSLContext:
    """How switches are spoken to by TLS: they must show a certificate that `authority` has signed (InputError)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    for path in (key, certificate, authority):
        if not path.is_file():
            raise InputError(f"--openflow-tls {path}: there is no such file")
    try:
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(f"--openflow-tls {key} {certificate} {authority}: cannot be used: {reason}") from None
    return context


def _shut(connection: Any) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
