"""Whose program is at the other end of a TCP connection within this machine; /proc says so."""

from __future__ import annotations

import ipaddress
import socket
import sys
from pathlib import Path
from typing import Any

_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}


def local_uid(connection: Any) -> int | None:
    """The user whose socket is the other end of `connection`; None where it is not in this network namespace.

    Raises OSError where the connection has ended.
    """
    peer, here = connection.getpeername()[:2], connection.getsockname()[:2]
    wanted = f"{_shown(*peer)} {_shown(*here)}"
    with _TABLES[connection.family].open(encoding="ascii") as table:
        for line in table:
            if wanted in line:
                return int(line.split()[7])
    return None


def is_loopback(connection: Any) -> bool:
    """Whether the other end has an address that no other machine can have."""
    return ipaddress.ip_address(connection.getpeername()[0]).is_loopback


def _shown(address: str, port: int) -> str:
    """An address and a port as the kernel shows them: 32 bits at a time, in the machine's order."""
    packed = ipaddress.ip_address(address).packed
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"
