"""Measuring ends of some TCP connections, run on emulated hosts as scripts; standard library only.

One connection alone may not fill a link. On a busy machine its slow start ends at the first late acknowledgement, with
a window that is too small for the round trips to come. Several do. Both print one JSON object. Times of the window are
CLOCK_MONOTONIC, the same on all hosts of a machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import selectors
import socket
import statistics
import struct
import sys
import time
from collections.abc import Iterator

CONNECTIONS = 4
PINGS = 20
CONNECT_LIMIT_S = 5.0
CHUNK_BYTES = 65_536
_TCPI_RTT_OFFSET = 68  # struct tcp_info of linux/tcp.h: tcpi_rtt, microseconds


def receive(port: int, begin_s: float, end_s: float) -> dict[str, float]:
    """Accept one sender, echo its pings, then count payload between the first and last arrival in the window."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("", port)))
        server.settimeout(CONNECT_LIMIT_S)
        connections = [stack.enter_context(server.accept()[0]) for _ in range(CONNECTIONS)]
        first = connections[0]
        first.settimeout(CONNECT_LIMIT_S)
        first.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(PINGS):
            first.sendall(first.recv(1))
        buffer = bytearray(CHUNK_BYTES)
        first_s = last_s = 0.0
        counted = 0
        # The sender may see the end of the window first, and hang up.
        with contextlib.suppress(ConnectionResetError):
            for connection in _ready(connections, selectors.EVENT_READ, end_s):
                size = connection.recv_into(buffer)
                now_s = time.monotonic()
                if size == 0 or now_s >= end_s:
                    break
                if first_s:
                    counted += size
                    last_s = now_s
                elif now_s >= begin_s:
                    # Bytes of the first arrival came over the link before the clock was started.
                    first_s = last_s = now_s
    return {"received_bytes": counted, "span_s": last_s - first_s}


def send(address: str, port: int, end_s: float) -> dict[str, float]:
    """Measure the idle round trip with one-byte pings, then send until the window ends."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(_connect(address, port)) for _ in range(CONNECTIONS)]
        first = connections[0]
        first.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pings = []
        for _ in range(PINGS):
            sent_s = time.monotonic()
            first.sendall(b"\0")
            first.recv(1)
            pings.append(time.monotonic() - sent_s)
        data = memoryview(bytes(CHUNK_BYTES))
        loaded_s = 0.0
        # The receiver may see the end of the window first, and hang up.
        with contextlib.suppress(ConnectionError):
            for connection in _ready(connections, selectors.EVENT_WRITE, end_s):
                connection.send(data)
                loaded_s = _rtt_s(connection)
        # Away with what is still queued: the receiver has all it needs.
        for connection in connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return {"rtt_s": statistics.median(pings), "rtt_loaded_s": loaded_s}


def _ready(connections: list[socket.socket], event: int, end_s: float) -> Iterator[socket.socket]:
    """Connections as they become ready for `event`, until `end_s`; from now on none of them blocks."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.setblocking(False)
            selector.register(connection, event)
        while (left_s := end_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                assert isinstance(key.fileobj, socket.socket)
                yield key.fileobj


def _connect(address: str, port: int) -> socket.socket:
    deadline_s = time.monotonic() + CONNECT_LIMIT_S
    while True:
        connection = socket.socket()
        connection.settimeout(CONNECT_LIMIT_S)
        try:
            connection.connect((address, port))
        except OSError:
            connection.close()
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.01)
        else:
            return connection


def _rtt_s(connection: socket.socket) -> float:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCPI_RTT_OFFSET + 4)
    return int.from_bytes(info[_TCPI_RTT_OFFSET:], sys.byteorder) / 1e6


def main(argv: list[str] | None = None) -> int:
    """`probe.py receive --port P --begin B --end E` or `probe.py send --to IP --port P --end E`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("role", choices=["receive", "send"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--to", metavar="IP")
    parser.add_argument("--begin", type=float, default=0.0)
    parser.add_argument("--end", type=float, required=True)
    arguments = parser.parse_args(argv)
    if arguments.role == "receive":
        result = receive(arguments.port, arguments.begin, arguments.end)
    else:
        result = send(arguments.to, arguments.port, arguments.end)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
