"""Opens all connections of one host before the run: one per transfer, named by its ports."""

from __future__ import annotations

import errno
import resource
import select
import socket
import time
from collections.abc import Callable, Mapping

from echelonflow.errors import RunError
from echelonflow.wire.classes import CONTROL_CLASS, dscp_of_class
from echelonflow.wire.messages import FlowDeclaration

FlowName = tuple[str, str]
"""(job, flow)."""

RETRY_S = 0.02
ROOM = 4
"""A receive buffer is so many times what gathers in it: a sender has up to twice that on the way."""
_SO_RCVBUFFORCE = 33


class FlowLostError(RunError):
    """The connection of `flow` of `job` has ended before its time."""

    def __init__(self, job: str, flow: str, reason: str) -> None:
        super().__init__(reason)
        self.job, self.flow = job, flow


def allow_one_for_every_flow() -> None:
    """Let this process have as many descriptors as the system allows it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def listen(address: str, port: int, gather_bytes: int = 0) -> socket.socket:
    """A listening socket on `port` of this host's own address (RunError if that cannot be had).

    Connections that it accepts can let `gather_bytes` wait to be read without ever keeping their sender waiting.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # What a receiver sends are acknowledgements. Unmarked they would starve in this host's own queue whenever the
    # host also sends data, long before a switch could mark them; accepted connections inherit the mark.
    listener.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp_of_class(CONTROL_CLASS) << 2)
    _make_room(listener, gather_bytes)
    try:
        listener.bind((address, port))
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        raise RunError(f"cannot listen on {address} port {port}: {error.strerror}") from None
    return listener


def _make_room(listener: socket.socket, gather_bytes: int) -> None:
    """Have a receive buffer `ROOM` times as large as what gathers, where the kernel's own has not room for it twice.

    The kernel lets its own grow only as fast as bytes are read, and a window is at most what gathers there. Whoever
    may not pass the machine's limit (an agent without root) has what that allows.
    """
    if 2 * gather_bytes <= listener.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF):
        return
    wanted_bytes = ROOM * gather_bytes
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, wanted_bytes)
    except PermissionError:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted_bytes)


def connect_all(
    outgoing: Mapping[FlowName, FlowDeclaration],
    addresses: Mapping[str, str],
    deadline_s: float,
    check: Callable[[], None],
) -> dict[FlowName, socket.socket]:
    """Connect every outgoing transfer from its own source port to its receiver.

    A receiver that does not listen yet is tried again until `deadline_s` (CLOCK_MONOTONIC), then RunError;
    `check` is called between tries and may raise.
    """
    return {name: _connect(flow, addresses, deadline_s, check) for name, flow in outgoing.items()}


def accept_all(
    listener: socket.socket,
    incoming: Mapping[FlowName, FlowDeclaration],
    addresses: Mapping[str, str],
    deadline_s: float,
    check: Callable[[], None],
) -> dict[FlowName, socket.socket]:
    """Accept every incoming transfer, recognised by the address and port that it comes from.

    RunError when one is missing at `deadline_s` (CLOCK_MONOTONIC), or for a connection that nobody
    declared; `check` is called at least every 50 ms and may raise.
    """
    missing = {(addresses[flow.src_host], flow.src_port): name for name, flow in incoming.items()}
    accepted: dict[FlowName, socket.socket] = {}
    while missing:
        check()
        if time.monotonic() > deadline_s:
            _, flow = next(iter(missing.values()))
            hosts = sorted({incoming[name].src_host for name in missing.values()})
            raise RunError(
                f"{len(missing)} incoming connections are missing, first of flow {flow!r}; see the logs of {', '.join(hosts)}"
            )
        if not select.select([listener], [], [], 0.05)[0]:
            continue
        connection, peer = listener.accept()
        name = missing.pop(peer, None)
        if name is None:
            connection.close()
            raise RunError(f"a connection came from {peer[0]} port {peer[1]}, which is no declared flow")
        accepted[name] = connection
    return accepted


def _connect(
    flow: FlowDeclaration, addresses: Mapping[str, str], deadline_s: float, check: Callable[[], None]
) -> socket.socket:
    while True:
        check()
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # Source ports are the same in every run; only the receiver's port differs.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.settimeout(max(deadline_s - time.monotonic(), RETRY_S))
        try:
            connection.bind((addresses[flow.src_host], flow.src_port))
            connection.connect((addresses[flow.dst_host], flow.dst_port))
        except OSError as error:
            connection.close()
            if error.errno != errno.ECONNREFUSED or time.monotonic() > deadline_s:
                raise RunError(
                    f"flow {flow.flow!r} cannot connect from {addresses[flow.src_host]} port {flow.src_port} to "
                    f"{flow.dst_host} ({addresses[flow.dst_host]} port {flow.dst_port}): {error.strerror or error}"
                ) from None
            time.sleep(RETRY_S)
        else:
            return connection
