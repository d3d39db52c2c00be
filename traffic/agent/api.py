"""The EchelonFlow API: how a training process tells the coordinator of its flows, and is told how to send.

The replay agent is its first client; any training framework can be another. Nothing here blocks: the
client sits on a connected, non-blocking stream socket and fits into any event loop.

    client = EchelonFlowClient(connect(Path("control.sock")), "trainer0", "h1", on_setting=apply)
    client.declare(Declare("bert", "pp-forward 0->1", "pp-forward", 1.0, (
        FlowDeclaration("x0", 0, "x0", "h1", "h2", 25_000_000, 0.0, 10000, 5001),
        FlowDeclaration("x1", 1, "x1", "h1", "h2", 25_000_000, 1.0, 10001, 5001),   # wanted 1 s after x0
    ), compute_s=12.0))
    client.flush()
    ...                                             # the data of x0 is there:
    client.release("bert", "x0", iteration=0, time_s=time.monotonic())
    client.flush()
    ...                                             # in the loop, when client.fileno() is readable:
    client.on_readable()                            # calls apply(Setting(..., dscp=48, rate_Bps=None))

`apply` sets the socket's DSCP and pacing rate; sending begins after the first Setting of a flow. Who declares
what comes `before` each flow may get that Setting before the release, and then need not wait. While it sends, the source reports `progress`; when the last byte has arrived, the receiver reports `finish`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from echelonflow.errors import RunError
from echelonflow.records.tokens_file import TOKEN_VARIABLE
from echelonflow.wire import unix_socket
from echelonflow.wire.line import Line
from echelonflow.wire.messages import (
    Decide,
    Declare,
    Done,
    Fault,
    Finish,
    FinishAgain,
    Hello,
    HoldBack,
    JobGraph,
    Message,
    Progress,
    Ready,
    Release,
    ReleaseAgain,
    Setting,
    Start,
    Weigh,
)


def connect(path: Path, timeout_s: float = 5.0) -> socket.socket:
    """A connection to the coordinator's Unix socket, however long its path.

    A socket that is not there yet is waited for; RunError after `timeout_s` seconds.
    """
    try:
        return unix_socket.connect(path, timeout_s)
    except OSError as error:
        raise RunError(f"the coordinator cannot be reached at {path}: {error.strerror or error}") from None


def _ignore(_: object) -> None:
    """What is done about a message in which the client has no interest."""


class EchelonFlowClient:
    """One process's line to the coordinator; `name` is the process's, `host` where its flows leave from.

    Messages are collected until `flush`, in order. `on_setting` is called with every Setting that arrives,
    `on_start` with the zero of the run (seconds, CLOCK_MONOTONIC). `on_hold_back` is called where a policy says when iterations may
    begin, from then on, `on_weigh` where classes share the host's egress by weights. `token` proves that it speaks for `host`, where the
    controller was given tokens; by default it is what the environment says (ECHELON_TOKEN). Every method that
    touches the socket raises RunError when the coordinator is gone or refused a message: it then closes the connection.
    """

    def __init__(
        self,
        connection: socket.socket,
        name: str,
        host: str,
        on_setting: Callable[[Setting], None] = _ignore,
        on_start: Callable[[float], None] = _ignore,
        token: str | None = None,
        on_hold_back: Callable[[HoldBack], None] = _ignore,
        on_weigh: Callable[[Weigh], None] = _ignore,
    ) -> None:
        self._line = Line(connection)
        self._on_setting = on_setting
        self._on_start = on_start
        self._on_hold_back = on_hold_back
        self._on_weigh = on_weigh
        shown = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
        self._line.put(Hello(name, host, token=shown))

    def declare(self, group: Declare) -> None:
        """Declare an EchelonFlow for all iterations to come; the flows' `offset_s` are its arrangement.

        All that a declaration holds reaches the policy, which sees the same in simulation: it is not taken apart here.
        """
        self._line.put(group)

    def tell_graph(self, graph: JobGraph) -> None:
        """Tell what all steps of a job wait for, so that a policy can look ahead; once, from one of its processes."""
        self._line.put(graph)

    def release(self, job: str, flow: str, iteration: int, time_s: float, by: int = 0) -> None:
        """The flow's data is ready since `time_s` (CLOCK_MONOTONIC); `by` is the number of the Setting it is sent by."""
        self._line.put(Release(job, flow, iteration, time_s, by))

    def progress(self, job: str, flow: str, iteration: int, sent_bytes: int) -> None:
        """`sent_bytes` of the flow have been acknowledged so far."""
        self._line.put(Progress(job, flow, iteration, sent_bytes))

    def finish(self, job: str, flow: str, iteration: int, time_s: float) -> None:
        """The flow's last byte arrived here at `time_s` (CLOCK_MONOTONIC)."""
        self._line.put(Finish(job, flow, iteration, time_s))

    def release_again(
        self, job: str, flow: str, iteration: int, time_s: float, sent_bytes: int, dscp: int | None
    ) -> None:
        """What `release` said, to a coordinator that may not know it; by `dscp` the flow is sent, None if it waits."""
        self._line.put(ReleaseAgain(job, flow, iteration, time_s, sent_bytes, dscp))

    def finish_again(self, job: str, flow: str, iteration: int, time_s: float) -> None:
        """What `finish` said, to a coordinator that may not know it."""
        self._line.put(FinishAgain(job, flow, iteration, time_s))

    def ready(self) -> None:
        """All connections are open; a Start is awaited."""
        self._line.put(Ready())

    def done(self) -> None:
        """There are no more flows from this process, and its records are written."""
        self._line.put(Done())

    def fileno(self) -> int:
        """The socket's descriptor, for an event loop."""
        return self._line.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether messages wait for `flush`."""
        return self._line.wants_write

    def flush(self) -> None:
        """Send what the socket takes; `wants_write` tells whether something is left."""
        self._line.flush()

    def on_readable(self) -> None:
        """Read what has arrived and call back for every message of it."""
        for message in self._line.read():
            self._deliver(message)

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def _deliver(self, message: Message) -> None:
        if isinstance(message, Decide):
            for setting in message.settings:
                self._on_setting(setting)
        elif isinstance(message, Start):
            self._on_start(message.zero_s)
        elif isinstance(message, HoldBack):
            self._on_hold_back(message)
        elif isinstance(message, Weigh):
            self._on_weigh(message)
        elif isinstance(message, Fault):
            raise RunError(f"the coordinator refused a message: {message.reason}")
        else:
            raise RunError(f"the coordinator sent a {type(message).__name__}, which is not for clients")
