"""Larger buffers for the packet sockets of a running switch daemon.

Userspace Open vSwitch sends through one socket for all ports of all switches. What waits in any egress queue counts
against that socket's send buffer, some 200 kB by default. With a few busy ports the daemon drops packets that their
queues still had room for, and none of them counts these. The kernel's default could be raised for the whole machine
only; so the daemon's sockets are borrowed for a moment instead (pidfd_getfd, Linux 5.6).
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
from pathlib import Path

from echelonflow.errors import RunError

SEND_BYTES = 256 << 20
RECEIVE_BYTES = 4 << 20
"""Enough for what arrives while the daemon waits for a processor; nothing is set aside before it is used."""
_SYS_PIDFD_GETFD = 438
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33


def packet_inodes(proc: Path = Path("/proc")) -> set[str]:
    """Inode numbers of the packet sockets in this network namespace."""
    lines = (proc / "net" / "packet").read_text().splitlines()[1:]
    return {line.split()[-1] for line in lines}


def packet_descriptors(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """File descriptors of process `pid` that are packet sockets of this network namespace."""
    inodes = packet_inodes(proc)
    found = []
    for entry in (proc / str(pid) / "fd").iterdir():
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", str(entry.readlink()))
        except FileNotFoundError:  # closed since the folder was listed
            continue
        if match and match[1] in inodes:
            found.append(int(entry.name))
    return sorted(found)


def enlarge(pid: int) -> int:
    """Enlarge the buffers of all packet sockets of process `pid`; returns how many (RunError where refused)."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        descriptors = packet_descriptors(pid)
        for descriptor in descriptors:
            own = libc.syscall(_SYS_PIDFD_GETFD, process, descriptor, 0)
            if own < 0:
                reason = os.strerror(ctypes.get_errno())
                raise RunError(f"cannot set the buffers of Open vSwitch (process {pid}): {reason}; Linux 5.6 or newer?")
            with socket.socket(fileno=own) as borrowed:
                borrowed.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SEND_BYTES)
                borrowed.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BYTES)
        return len(descriptors)
    finally:
        os.close(process)
