"""Measuring ends of a TCP connection, run on emulated hosts as scripts; standard library only.

Both print one JSON object. Times of the window are CLOCK_MONOTONIC, the same on all hosts of a machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import statistics
import struct
import sys
import time

PINGS = 20
CONNECT_LIMIT_S = 5.0
CHUNK_BYTES = 65_536
_TCPI_RTT_OFFSET = 68  # struct tcp_info of linux/tcp.h: tcpi_rtt, microseconds


def receive(port: int, begin_s: float, end_s: float) -> dict[str, float]:
    """Accept one sender, echo its pings, then count payload between the first and last arrival in the window."""
    with socket.create_server(("", port)) as server:
        server.settimeout(CONNECT_LIMIT_S)
        connection, _ = server.accept()
    with connection:
        connection.settimeout(end_s - begin_s + CONNECT_LIMIT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(PINGS):
            connection.sendall(connection.recv(1))
        buffer = bytearray(CHUNK_BYTES)
        first_s = last_s = 0.0
        counted = 0
        # The sender may see the end of the window first, and hang up.
        with contextlib.suppress(ConnectionResetError):
            while True:
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
    with _connect(address, port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pings = []
        for _ in range(PINGS):
            sent_s = time.monotonic()
            connection.sendall(b"\0")
            connection.recv(1)
            pings.append(time.monotonic() - sent_s)
        data = memoryview(bytes(CHUNK_BYTES))
        connection.settimeout(CONNECT_LIMIT_S)
        loaded_s = 0.0
        # The receiver may see the end of the window first, and hang up.
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end_s:
                connection.send(data)
                loaded_s = _rtt_s(connection)
        # Away with what is still queued: the receiver has all it needs.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return {"rtt_s": statistics.median(pings), "rtt_loaded_s": loaded_s}


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
