"""Ports that are free."""

from __future__ import annotations

import socket


def unused_port() -> int:
    """A TCP port of the loopback address that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
