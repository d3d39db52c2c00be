"""Unix sockets by path, however long the path is: their addresses end at 108 bytes, paths of run folders do not."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_RETRY_S = 0.02
_ACCEPT_LIMIT_S = 5.0
"""A listener whose queue stays full for so long does not answer."""


def _look_away() -> None:
    """What most do while they wait for a socket."""


@contextlib.contextmanager
def short_address(path: Path) -> Iterator[str]:
    """An address of `path` that is always short; good inside the block (OSError if the folder cannot be opened)."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def connect(path: Path, timeout_s: float = 0.0, check: Callable[[], None] = _look_away) -> socket.socket:
    """A connection to the socket at `path`, which is waited for if it is not there yet.

    Raises OSError after `timeout_s` in vain. `check` is called meanwhile, and may raise.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            return _connect_once(path)
        except OSError:
            check()
            if time.monotonic() >= deadline_s:
                raise
        time.sleep(_RETRY_S)


def answers(path: Path) -> bool:
    """Whether somebody listens at `path`; a file left by a process that was killed answers nobody.

    Raises OSError where it cannot be found out.
    """
    try:
        _connect_once(path).close()
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    return True


def _connect_once(path: Path) -> socket.socket:
    with short_address(path) as address:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_ACCEPT_LIMIT_S)
        try:
            connection.connect(address)
        except OSError:
            connection.close()
            raise
        connection.settimeout(None)
    return connection
