"""The shell around the coordinator: sockets, switches, policies and a run's logs; it decides nothing.

Everything that happens becomes an event, is recorded while a run is on, and is handed to the coordinator at once.
What arrives in one round of the event loop is decided on once, in the next round. Rules are queued for the
switches before the settings that go with them are queued for the agents, and both leave in that order.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import queue
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.asking import Guard, ask, unbounded
from controller.coordinator import Coordinator
from controller.framework import Framework, SwitchHandle
from controller.instructions import (
    AskPolicy,
    CloseLog,
    ClosePolicy,
    InstallRules,
    Instruction,
    LogDecision,
    OpenLog,
    Question,
    ResetSwitch,
    SendTo,
)
from controller.run_logs import RunLogs
from echelonflow.errors import EchelonError, RunError
from echelonflow.records import events
from echelonflow.scheduling import policies
from echelonflow.scheduling.policies import Policy
from echelonflow.wire import unix_socket
from echelonflow.wire.line import LineBuffer
from echelonflow.wire.messages import Begin, Message, decode, encode

LONGEST_LINE_BYTES = 64 << 20
"""A message beyond this is not one of ours (a group of 100,000 flows takes some 20 MB)."""
MOST_UNSENT = 10_000
"""A client that leaves so many messages unread is cut off."""

log = logging.getLogger("controller")


@dataclass(eq=False)
class Client:
    """A connection on the control socket, and what waits to be sent on it (None: close it)."""

    number: int
    socket: Any
    outgoing: Any


@dataclass
class Shell:
    """Carries what happens to the coordinator, and its instructions out.

    `load` makes policies, a user's in a process of its own, while everything else goes on. `guard` wraps each call of a
    policy in this process.
    """

    framework: Framework
    coordinator: Coordinator
    load: Callable[[str], Policy] = policies.load
    guard: Guard = unbounded
    _clients: dict[int, Client] = field(default_factory=dict)
    _switches: dict[str, SwitchHandle] = field(default_factory=dict)
    _barriers: dict[tuple[int, int], str] = field(default_factory=dict)
    """(datapath id, xid) of a barrier under way, to the switch that it confirms."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _logs: RunLogs | None = None
    _deciding: bool = False
    _alarm: Any = None

    # What a `SwitchListener` of the framework is told.

    def connected(self, switch: SwitchHandle) -> None:
        name = self.coordinator.fabric.switch_name(switch.datapath_id)
        log.info("switch %s (datapath id %d) connected", name, switch.datapath_id)
        if name is not None:
            self._switches[name] = switch
        self.handle(events.SwitchConnected(switch.datapath_id))

    def confirmed(self, datapath_id: int, xid: int) -> None:
        switch = self._barriers.pop((datapath_id, xid), None)
        if switch is not None:
            log.info("switch %s has its rules", switch)
            self.handle(events.SwitchReady(switch))

    def lost(self, switch: SwitchHandle) -> None:
        name = next((n for n, handle in self._switches.items() if handle.datapath is switch.datapath), None)
        if name is None:  # it has reconnected already
            return
        log.warning("switch %s disconnected", name)
        del self._switches[name]
        self.handle(events.SwitchLost(switch.datapath_id))

    def error(self, datapath_id: int, reason: str) -> None:
        name = self.coordinator.fabric.switch_name(datapath_id) or f"datapath {datapath_id}"
        log.error("switch %s: %s", name, reason)
        self.handle(events.SwitchRefused(name, reason))

    def seen(self, datapath_id: int, port: int, source_mac: str) -> None:
        self.handle(events.PacketShown(datapath_id, port, source_mac))

    # Clients

    def serve(self, listening: Any) -> None:
        """Accept clients for ever."""
        while True:
            connection, _ = listening.accept()
            client = Client(next(self._numbers), connection, self.framework.queue(MOST_UNSENT))
            self._clients[client.number] = client
            self.framework.spawn(self._write, client)
            self.framework.spawn(self._read, client)

    def _read(self, client: Client) -> None:
        buffer = LineBuffer()
        try:
            while (data := client.socket.recv(1 << 16)) and len(buffer) < LONGEST_LINE_BYTES:
                for line in buffer.feed(data):
                    self._receive(line, client)
        except OSError:  # the peer was killed: the same as the end of the connection
            pass
        finally:
            self._forget(client)

    def _receive(self, line: bytes, client: Client) -> None:
        loaded = None
        try:
            message = decode(line)
            if isinstance(message, Begin):
                loaded = self.load(message.policy)
            event: events.Event = events.ClientSaid(client.number, message)
        except EchelonError as error:
            event = events.LineRefused(client.number, str(error))
        self.handle(event, loaded)

    def _write(self, client: Client) -> None:
        with contextlib.suppress(OSError):
            while (line := client.outgoing.get()) is not None:
                client.socket.sendall(line)
        # The reader sees the end of the connection and cleans up.
        with contextlib.suppress(OSError):
            client.socket.shutdown(socket.SHUT_RDWR)

    def _forget(self, client: Client) -> None:
        if self._clients.pop(client.number, None) is None:
            return
        with contextlib.suppress(queue.Full):
            client.outgoing.put_nowait(None)
        client.socket.close()
        self.handle(events.ClientGone(client.number))

    # Events and instructions

    def handle(self, event: events.Event, loaded: Policy | None = None, *, follows: bool = False) -> None:
        """Have the coordinator handle an event. A fault of ours must end the run, not only a green thread.

        An event that `follows` from those before is not recorded: a replay finds it out again.
        """
        now_s = time.monotonic()
        try:
            if not follows:
                self._record(event, now_s)
            self.enact(self.coordinator.handle(event, now_s, loaded))
        except Exception as error:
            log.exception("the coordinator failed")
            self._fail(f"the controller failed: {type(error).__name__}: {error}")

    def order(self, event: events.Event, loaded: Policy | None = None) -> None:
        """The same for an order, which may be refused: raises what `Coordinator.handle` raises."""
        now_s = time.monotonic()
        self._record(event, now_s)
        self.enact(self.coordinator.handle(event, now_s, loaded))

    def _fail(self, reason: str) -> None:
        event, now_s = events.ControllerFailed(reason), time.monotonic()
        self._record(event, now_s)
        self.enact(self.coordinator.handle(event, now_s))

    def _record(self, event: events.Event, now_s: float) -> None:
        if self._logs is not None:
            with self._fail_without_logs():
                self._logs.event(event, now_s)

    def _decide(self) -> None:
        self._deciding = False
        self.handle(events.RoundOver())

    def _ask(self, question: Question) -> None:
        """Ask a policy; one in another process is waited for in a green thread of its own."""
        answer = ask(question, self.guard)
        if isinstance(answer, events.PolicyFailed):
            log.warning("%s", answer.reason)
        self.handle(answer, follows=not question.policy.isolated and isinstance(answer, events.PolicyAnswered))

    def enact(self, instructions: Sequence[Instruction]) -> None:
        """Carry out what the coordinator asks for, in order."""
        for instruction in instructions:
            if isinstance(instruction, SendTo):
                self._send(instruction.client, instruction.message)
            elif isinstance(instruction, AskPolicy):
                if instruction.question.policy.isolated:
                    self.framework.spawn(self._ask, instruction.question)
                else:
                    self._ask(instruction.question)
            elif isinstance(instruction, ClosePolicy):
                instruction.policy.close()
            elif isinstance(instruction, InstallRules):
                if switch := self._switches.get(instruction.switch):
                    switch.install(instruction.add, instruction.remove)
            elif isinstance(instruction, ResetSwitch):
                switch = self._switches[instruction.switch]
                give = switch.complete if instruction.keep else switch.reset
                self._barriers[switch.datapath_id, give(instruction.rules)] = instruction.switch
            else:
                self._write_log(instruction)
        self._schedule()

    def _schedule(self) -> None:
        """Have a decision made: in the next round if one is due, or when it will be."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        now_s, wake_s = time.monotonic(), self.coordinator.wake_s
        if self._deciding:
            return
        if self.coordinator.due(now_s):
            self._deciding = True
            self.framework.spawn(self._decide)
        elif wake_s < math.inf:
            self._alarm = self.framework.spawn_after(wake_s - now_s, self._schedule)

    def _send(self, number: int, message: Message) -> None:
        client = self._clients.get(number)
        if client is None:
            return
        try:
            client.outgoing.put_nowait(encode(message))
        except queue.Full:
            log.error("client %d does not read what it is sent; closing its connection", number)  # noqa: TRY400
            with contextlib.suppress(OSError):
                client.socket.shutdown(socket.SHUT_RDWR)

    def _write_log(self, instruction: OpenLog | LogDecision | CloseLog) -> None:
        with self._fail_without_logs():
            if isinstance(instruction, OpenLog):
                self._logs = self._open_logs(instruction)
            elif self._logs is not None and isinstance(instruction, LogDecision):
                self._logs.decision(instruction.record)
            elif self._logs is not None:
                self.close()

    def _open_logs(self, instruction: OpenLog) -> RunLogs:
        fabric = self.coordinator.fabric
        addresses = None if fabric.addresses is None else dict(fabric.addresses)
        opening = events.Opening(fabric.network, addresses, self.coordinator.questions_asked)
        return RunLogs(Path(instruction.path), opening, instruction.preamble)

    @contextlib.contextmanager
    def _fail_without_logs(self) -> Iterator[None]:
        """A run whose logs cannot be written fails, and says so once."""
        try:
            yield
        except OSError as error:
            self._logs = None
            log.error("logs of the run: %s", error)  # noqa: TRY400 the text says all
            self._fail(f"cannot write the run's logs: {error}")

    def close(self) -> None:
        """Close the logs of a run."""
        logs, self._logs = self._logs, None
        if logs is not None:
            logs.close()


@contextlib.contextmanager
def listening_socket(path: Path) -> Iterator[Any]:
    """A Unix socket that listens at `path`, however long that is, for this user alone; removed afterwards.

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
            listening.bind(address)
            path.chmod(0o600)  # before anybody can connect, and whatever the umask: who may connect may give orders
            listening.listen(128)
        except OSError as error:
            raise RunError(f"socket {path}: {error.strerror or error}; does another controller serve there?") from error
        stack.callback(path.unlink, missing_ok=True)
        yield listening


@contextlib.contextmanager
def listening_address(address: str, port: int) -> Iterator[Any]:
    """A TCP socket that listens at `address`:`port` (RunError where that cannot be)."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise RunError(f"cannot serve REST at {address}:{port}: {error.strerror or error}") from error
    with listening:
        yield listening
