"""A coordinator for tests: lets agents start together and gives every released flow a setting."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from echelonflow.wire import unix_socket
from echelonflow.wire.line import LineBuffer
from echelonflow.wire.messages import (
    Decide,
    Declare,
    Done,
    Hello,
    Message,
    Ready,
    Release,
    Setting,
    Start,
    decode,
    encode,
)
from tests.waiting import report

_LOOK_S = 0.1
"""How often a wait looks at the agents."""
AnswerRelease = Callable[[Release], Setting | None]


def unlimited(message: Release) -> Setting:
    return Setting(message.job, message.flow, message.iteration, 48, None)


class FakeCoordinator:
    """Listens on `path`; keeps every message with the name of its client."""

    def __init__(self, path: Path, agents: int, answer: AnswerRelease = unlimited) -> None:
        self.messages: list[tuple[str, Message]] = []
        self.ended = threading.Event()
        self.watched: list[subprocess.Popen[str]] = []
        """Agents whose failure ends every wait."""
        self.changed = threading.Condition()
        self._agents = agents
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with unix_socket.short_address(path) as address:
            self._listener.bind(address)
        self._listener.listen()
        self._names: dict[socket.socket, str] = {}
        self._buffers: dict[socket.socket, LineBuffer] = {}
        self._senders: dict[str, socket.socket] = {}
        self._lock = threading.Lock()
        self._wake, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def of(self, kind: type) -> list:
        return [message for _, message in self.messages if isinstance(message, kind)]

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            failed = [agent for agent in self.watched if agent.poll() not in (None, 0)]
            with self.changed:
                if self.changed.wait_for(condition, _LOOK_S):
                    return
            assert not failed, f"an agent failed{''.join(map(report, failed))}"
            assert time.monotonic() < deadline_s, "waited in vain"

    def tell(self, flow: str, setting: Setting) -> None:
        """Send a setting, in mid-flow, to whoever released `flow`."""
        self._senders[flow].sendall(encode(Decide((setting,))))

    def close(self) -> None:
        self._stop.close()
        self._thread.join(5.0)

    def _serve(self) -> None:
        while True:
            readable, _, _ = select.select([self._listener, self._wake, *self._buffers], [], [])
            if self._wake in readable:
                break
            for ready in readable:
                if ready is self._listener:
                    connection, _ = self._listener.accept()
                    self._buffers[connection] = LineBuffer()
                else:
                    self._read(ready)
        for connection in (*self._buffers, self._listener):
            connection.close()

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            del self._buffers[connection]
            connection.close()
            return
        for line in self._buffers[connection].feed(data):
            self._handle(connection, decode(line))

    def _handle(self, connection: socket.socket, message: Message) -> None:
        if isinstance(message, Hello):
            self._names[connection] = message.client
        with self.changed:
            self.messages.append((self._names[connection], message))
            if isinstance(message, Release):
                self._senders[message.flow] = connection
            self.changed.notify_all()
        if isinstance(message, Release):
            setting = self._answer(message)
            if setting is not None:
                connection.sendall(encode(Decide((setting,))))
        elif isinstance(message, Ready) and len(self.of(Ready)) == self._agents:
            start = encode(Start(time.monotonic() + 0.05))
            for agent in self._buffers:
                agent.sendall(start)


def start_agent(plan: Path, host: str, control: Path, records: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable, "-m", "traffic.agent", "--plan", str(plan), "--host", host,
            "--socket", str(control), "--records", str(records),
        ],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def end_agent(agent: subprocess.Popen[str]) -> None:
    if agent.poll() is None:
        agent.send_signal(signal.SIGKILL)
    agent.communicate()


__all__ = ["Declare", "Done", "FakeCoordinator", "end_agent", "start_agent", "unlimited"]
