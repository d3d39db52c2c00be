"""Serves the live view on loopback: the standard library's HTTP server, with bounds; what is answered, others know.

Every connection has a thread. Where connections are many, the one that has been silent for longest gives way, so that whoever
opens them without a token keeps nobody out.
"""

from __future__ import annotations

import contextlib
import http.server
import socket
import socketserver
import threading
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from echelon.live.answers import Answer, Answers, refusal
from echelon.live.gate import Gate, Refused

ADDRESS = "127.0.0.1"
MOST_CONNECTIONS = 32
SILENCE_LIMIT_S = 10.0
"""A connection that neither sends nor reads for so long is closed; a page asks once a second."""
MOST_BODY_BYTES = 8192
ORDERS = "policy"
_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
)
"""Of every answer: nothing comes from elsewhere, nothing is kept, and the address with its token is told to nobody."""


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves on a socket that listens already, until `shutdown`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket, gate: Gate, answers: Answers) -> None:
        super().__init__(listening.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.gate = gate
        self.answers = answers
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, None] = {}
        """The one that has been silent for longest first."""

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection; where there are too many, the first of them gives way."""
        connection, address = self.socket.accept()
        with self._lock:
            if len(self._connections) >= MOST_CONNECTIONS:
                silent = next(iter(self._connections))
                del self._connections[silent]
                _shut(silent)
            self._connections[connection] = None
        return connection, address

    def heard(self, connection: socket.socket) -> None:
        """A request of a connection was let in."""
        with self._lock:
            if connection in self._connections:
                del self._connections[connection]
                self._connections[connection] = None

    def shutdown_request(self, request: Any) -> None:
        """A connection is over."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone, or has been sent away, is no event."""


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection; a browser asks on it again and again."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = SILENCE_LIMIT_S

    def do_GET(self) -> None:
        name = self._entered()
        if name == ORDERS:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "an order for a policy is a PUT", {"Allow": "PUT"})
        elif name is not None:
            self._answer(self.server.answers.get(name))

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        name = self._entered()
        if name is None:
            return
        refused = self.server.gate.order_refused(self._shown())
        if name != ORDERS:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "this can only be read", {"Allow": "GET, HEAD"})
        elif refused is not None:
            self._refuse(refused.status, refused.why)
        else:
            body = self._body()
            if body is not None:
                self._answer(self.server.answers.put_policy(body))

    def _entered(self) -> str | None:
        """What is asked for; None where the request was refused, and told so."""
        name = self.server.gate.entered(self.path, self._shown())
        if isinstance(name, Refused):
            self._refuse(name.status, name.why)
            return None
        self.server.heard(self.connection)
        return name

    def _shown(self) -> dict[str, str]:
        """The headers of the request, whose names are written in one way."""
        return {name.title(): value for name, value in self.headers.items()}

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "say Content-Length")
            return None
        if len(length) > 6 or int(length) > MOST_BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BODY_BYTES} bytes are taken")
            return None
        body = self.rfile.read(int(length))
        return body if len(body) == int(length) else None

    def _refuse(self, status: HTTPStatus, why: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """Answer and close: what else the connection brings is not read."""
        self.close_connection = True
        self._answer(refusal(status, why), {**headers, "Connection": "close"})

    def _answer(self, answer: Answer, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.send_response_only(answer.status)
        length = str(len(answer.body))
        for name, value in {
            "Content-Type": answer.content_type,
            "Content-Length": length,
            **_HEADERS,
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is hardly HTTP, or a method that there is not."""
        self.command = getattr(self, "command", None) or "GET"
        self.request_version = self.protocol_version  # of what is older the library would answer without a status
        with contextlib.suppress(OSError):
            self._refuse(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the name is the standard library's
        """Nothing is logged: addresses have the token in them."""


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
