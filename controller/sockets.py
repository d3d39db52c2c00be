"""Sockets that the controller listens on: their modes are set, not inherited, and it is known who connects."""

from __future__ import annotations

import contextlib
import os
import posix
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from echelonflow.errors import RunError
from echelonflow.wire import unix_socket

OWNER_ONLY = 0o600
EVERYBODY = 0o666
BACKLOG = 128
_ESTABLISHED = 1
"""State of a TCP connection, as TCP_INFO begins with (include/net/tcp_states.h of Linux)."""


@contextlib.contextmanager
def listening_socket(path: Path, mode: int = OWNER_ONLY) -> Iterator[Any]:
    """A Unix socket of `mode` that listens at `path`, however long that is; removed afterwards.

    Raises RunError where another controller listens there, or the path cannot be used.
    """
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            address = stack.enter_context(unix_socket.short_address(path))
        except OSError as error:
            raise RunError(f"socket {path}: {error.strerror}") from error
        try:
            if path.is_socket() and not unix_socket.answers(path):
                path.unlink()
            # Its mode from the moment it is there: a chmod of the path could be led to another file by a link.
            os.fchmod(listening.fileno(), mode)  # Linux takes the mode from here, whatever the folder's default is
            inherited = os.umask(0o777 & ~mode)
            try:
                listening.bind(address)
            finally:
                os.umask(inherited)
            listening.listen(BACKLOG)
        except OSError as error:
            raise RunError(f"socket {path}: {error.strerror or error}; does another controller serve there?") from error
        stack.callback(path.unlink, missing_ok=True)
        yield listening


@contextlib.contextmanager
def listening_address(address: str, port: int, what: str, remedy: str = "") -> Iterator[Any]:
    """A TCP socket that listens at `address`:`port`; RunError, from `what` to `remedy`, where that cannot be."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        words = f"{what} at {address}:{port}: {error.strerror or error}"
        raise RunError(f"{words}; end what listens there or {remedy}" if remedy else words) from error
    with listening:
        yield listening


def peer_uid(connection: Any) -> int:
    """The user who connected a Unix socket, as the kernel saw it then (OSError where the peer is gone)."""
    credentials = struct.Struct("3i")
    _, uid, _ = credentials.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))
    return int(uid)


def hung_up(connection: Any) -> bool:
    """Whether the other end of a Unix or TCP connection has closed it, though maybe not all that it said has been read.

    Without `select.poll` and `os.write`. The frameworks' event loop takes the one out of the standard library. It makes the
    other wait, and two green threads may not wait for one socket.
    """
    try:
        if connection.family == socket.AF_UNIX:
            posix.write(connection.fileno(), b"")  # nothing is written, and EPIPE raised where nobody would read it
            return False
        state: bytes = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except (OSError, ValueError):  # or it is closed at this end
        return True
    return state[0] != _ESTABLISHED
