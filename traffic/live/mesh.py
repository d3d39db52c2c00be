"""Connects all ranks of a job with each other, once, when its process group is made."""

from __future__ import annotations

import os
import socket
import struct
import time
from datetime import timedelta
from typing import Any

from echelonflow.errors import RunError

ADDRESS_VARIABLE = "ECHELON_ADDRESS"
"""The IPv4 address of this process's host on the network that is to be used."""
_HELLO = struct.Struct("!4sI")
_MAGIC = b"echl"


def own_address() -> str:
    """The address that others reach this process by: what ECHELON_ADDRESS says, or the one that leads to MASTER_ADDR."""
    said = os.environ.get(ADDRESS_VARIABLE)
    if said:
        return said
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((master, 1))  # sends nothing: it asks which way would be taken
        except OSError as error:
            raise RunError(
                f"MASTER_ADDR is {master!r}, which cannot be reached ({error}); or say by {ADDRESS_VARIABLE} which address this host has"
            ) from None
        address: str = probe.getsockname()[0]
        return address


def connect_all(store: Any, rank: int, size: int, timeout: timedelta) -> dict[int, socket.socket]:
    """A connection to every other rank, found through torch's `store`. RunError where one does not come within `timeout`."""
    deadline_s = time.monotonic() + timeout.total_seconds()
    address = own_address()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        try:
            listener.bind((address, 0))
        except OSError as error:
            raise RunError(
                f"rank {rank} cannot listen on {address}: {error.strerror}; see {ADDRESS_VARIABLE}"
            ) from None
        listener.listen(size)
        store.set(f"echelon/{rank}", f"{address}:{listener.getsockname()[1]}")
        found = {other: _connect(store, rank, other, deadline_s) for other in range(rank)}
        while len(found) < size - 1:
            listener.settimeout(max(deadline_s - time.monotonic(), 0.001))
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                missing = sorted(set(range(size)) - set(found) - {rank})
                raise RunError(
                    f"no connection came from ranks {missing} within {timeout.total_seconds():g} s"
                ) from None
            other = _rank_of(connection, deadline_s)
            if other is None or other in found or not rank < other < size:
                connection.close()
                continue
            found[other] = connection
    return found


def _connect(store: Any, rank: int, other: int, deadline_s: float) -> socket.socket:
    left = timedelta(seconds=max(deadline_s - time.monotonic(), 0.001))
    try:
        store.wait([f"echelon/{other}"], left)
        address, _, port = store.get(f"echelon/{other}").decode().rpartition(":")
        connection = socket.create_connection((address, int(port)), timeout=left.total_seconds())
        connection.sendall(_HELLO.pack(_MAGIC, rank))
    except Exception as error:  # noqa: BLE001 torch's stores raise what they like
        raise RunError(f"rank {rank} cannot reach rank {other}: {error}") from None
    return connection


def _rank_of(connection: socket.socket, deadline_s: float) -> int | None:
    """Who has connected; None for somebody else."""
    connection.settimeout(max(deadline_s - time.monotonic(), 0.001))
    said = b""
    try:
        while len(said) < _HELLO.size:
            more = connection.recv(_HELLO.size - len(said))
            if not more:
                return None
            said += more
    except OSError:
        return None
    magic, rank = _HELLO.unpack(said)
    return rank if magic == _MAGIC else None
