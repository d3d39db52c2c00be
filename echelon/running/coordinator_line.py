"""The runner's line to the coordinator: a blocking client with a limit on every wait."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from echelonflow.errors import RunError
from echelonflow.wire.messages import Event, Fault, Hello, Message, decode, encode


class CoordinatorLine:
    """A connection to the coordinator's Unix socket, as its runner.

    Waits until the socket is there; `check` is called meanwhile and may raise. RunError after `timeout_s`.
    """

    def __init__(self, path: Path, timeout_s: float, check: Callable[[], None]) -> None:
        self._socket = _connect(path, timeout_s, check)
        self._buffer = b""
        self.send(Hello("runner", ""))

    def send(self, message: Message) -> None:
        """Send one message (RunError if the coordinator is gone)."""
        try:
            self._socket.sendall(encode(message))
        except OSError as error:
            raise RunError(f"the controller closed its control socket: {error.strerror}") from None

    def wait_for(self, what: str, timeout_s: float, check: Callable[[], None]) -> Event:
        """The next Event called `what`; `check` is called every 50 ms and may raise.

        Raises RunError for a fault, a lost agent, a closed connection or a wait that runs out.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            message = self._next(0.05)
            if isinstance(message, Event) and message.what == what:
                return message
            if isinstance(message, Fault):
                raise RunError(f"the coordinator refused: {message.reason}")
            if isinstance(message, Event) and message.what == "lost":
                time.sleep(0.1)  # until it can be seen which process ended, and how
                check()
                raise RunError(f"the controller lost {message.detail}; see logs/agent-{message.detail}.log")
            if isinstance(message, Event) and message.what == "fault":
                raise RunError(f"coordinator: {message.detail}; see logs/controller.log")
            check()
            if time.monotonic() > deadline:
                raise RunError(f"waited {timeout_s:.0f} s in vain for {what!r} from the coordinator")

    def close(self) -> None:
        self._socket.close()

    def _next(self, timeout_s: float) -> Message | None:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                return None
            except OSError as error:
                raise RunError(f"the controller's control socket failed: {error.strerror}") from None
            if not data:
                raise RunError("the controller closed its control socket")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return decode(line)


def _connect(path: Path, timeout_s: float, check: Callable[[], None]) -> socket.socket:
    deadline = time.monotonic() + timeout_s
    while True:
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            # A path through the open folder stays short, however deep the run folder lies.
            found.connect(f"/proc/self/fd/{folder}/{path.name}")
        except OSError:
            found.close()
            check()
            if time.monotonic() > deadline:
                raise RunError(
                    f"the controller did not open {path.name} within {timeout_s:.0f} s; see logs/controller.log"
                ) from None
            time.sleep(0.02)
        else:
            return found
        finally:
            os.close(folder)
