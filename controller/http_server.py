"""HTTP on green threads: heads and bodies within a time, so many connections and no more; what is asked, others answer.

A client that drips its request costs nobody else anything. Where connections are many, the one that has waited longest
without having said what it wants gives way. Knows eventlet, as `controller.framework` does.
"""

from __future__ import annotations

import contextlib
import http
import importlib
from collections.abc import Callable
from typing import Any

from controller.stranger_log import log
from echelonflow.wire.rest import Refusal, encoded

HEAD_LIMIT_S = 5.0
"""The request's line and headers must have come by then."""
IDLE_LIMIT_S = 5.0
"""A client that neither sends nor reads for so long is cut off."""
ANSWER_LIMIT_S = 60.0
"""A client that has not read all of its answer by then is cut off."""
LINGER_S, LINGER_BYTES = 1.0, 1 << 20
"""Of a body that is not wanted, so much is read and dropped, so that the client gets to see why."""
MOST_WAITING = 128
"""Connections that have not said what they want."""
MOST_ANSWERED = 128
"""Connections that are being answered."""
LONGEST_LINE = 8192
ACCEPT_AGAIN_S = 0.1
HEARD = "controller.heard"
"""Key of the environment: to be called when all of a request has been read."""


def serve(listening: Any, application: Callable[..., Any]) -> None:
    """Serve a WSGI application on a listening socket for ever, one request per connection."""
    wsgi = importlib.import_module("eventlet.wsgi")
    crowd = _Crowd(listening)
    wsgi.server(
        crowd,
        application,
        log=log,
        log_output=False,
        max_size=MOST_WAITING + MOST_ANSWERED,
        keepalive=False,
        socket_timeout=IDLE_LIMIT_S,
        url_length_limit=LONGEST_LINE,
        protocol=_protocol(wsgi, crowd),
        debug=False,
    )


class _Crowd:
    """A listening socket, and the connections from it whose requests have not been read, the oldest first."""

    def __init__(self, listening: Any) -> None:
        self._listening = listening
        self._waiting: dict[Any, None] = {}
        self.family = listening.family

    def accept(self) -> tuple[Any, Any]:
        """The next connection; where too many wait, the oldest of them gives way."""
        sleep = importlib.import_module("eventlet").sleep
        while True:
            try:
                connection, address = self._listening.accept()
            except OSError as error:  # such as for want of a descriptor: whoever waits is served later
                log.error("a request cannot be accepted: %s", error.strerror)
                sleep(ACCEPT_AGAIN_S)
                continue
            if len(self._waiting) >= MOST_WAITING:
                oldest = next(iter(self._waiting))
                self.heard(oldest)
                _shut(oldest)
            self._waiting[connection] = None
            return connection, address

    def heard(self, connection: Any) -> None:
        """The request of a connection has been read, or it is gone."""
        self._waiting.pop(connection, None)

    def getsockname(self) -> Any:
        return self._listening.getsockname()

    def close(self) -> None:
        self._listening.close()


def _protocol(wsgi: Any, crowd: _Crowd) -> type:
    """How one connection is served, as eventlet wants it: a subclass of its own protocol."""
    eventlet = importlib.import_module("eventlet")

    class Protocol(wsgi.HttpProtocol):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            self._timer = eventlet.spawn_after(HEAD_LIMIT_S, self._give_up)

        def _give_up(self) -> None:
            late = _head(408, f"the request did not come within {HEAD_LIMIT_S:g} s")
            with contextlib.suppress(OSError):  # TimeoutError is one
                self.connection.sendall(late)
            _shut(self.connection)

        def handle_one_response(self) -> None:
            self._timer.cancel()
            self._timer = eventlet.spawn_after(ANSWER_LIMIT_S, _shut, self.connection)
            super().handle_one_response()

        def get_environ(self) -> dict[str, Any]:
            environ: dict[str, Any] = super().get_environ()
            environ[HEARD] = lambda: crowd.heard(self.connection)
            return environ

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """A request that is not even HTTP of a version that we speak; never an error of ours."""
            self.wfile.write(_head(400 if code >= 500 else code, message or http.HTTPStatus(code).phrase))
            self.close_connection = True

        def finish(self) -> None:
            crowd.heard(self.connection)
            self._timer.cancel()
            with contextlib.suppress(OSError):
                self.wfile.flush()
                self._linger()
            super().finish()

        def _linger(self) -> None:
            """Read what is left of a body: a connection closed on unread data takes the answer with it."""
            environ = getattr(self, "environ", None)
            if environ is None:
                return
            body = environ["eventlet.input"]
            if not body.chunked_input and body.position >= (body.content_length or 0):
                return
            self.connection.shutdown(1)
            with eventlet.Timeout(LINGER_S, TimeoutError):
                left = LINGER_BYTES
                while left > 0 and (data := self.connection.recv(1 << 16)):
                    left -= len(data)

    return Protocol


def _head(status: int, why: str) -> bytes:
    body = encoded(Refusal(why))
    lines = (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def _shut(connection: Any) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(2)
