"""What each class of each link has carried so far, read from the kernel by netlink: no program is started for it.

`EmulatedNetwork.class_counters` says the same and starts `tc` for every host, which takes some milliseconds each. This is
for reading once a second while a run goes on. The counters are those of `testbed.queues`: bytes count Ethernet headers.
"""

from __future__ import annotations

import ctypes
import functools
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from echelonflow.errors import RunError
from echelonflow.files import refusal
from echelonflow.wire.classes import CLASSES
from testbed import queues
from testbed.mininet_network import EmulatedNetwork

# include/uapi/linux/rtnetlink.h, netlink.h and sched.h
_RTM_NEWTCLASS, _RTM_GETTCLASS = 40, 42
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST, _DUMP = 0x001, 0x300
_TCA_STATS = 3
_CLONE_NEWNET = 0x40000000
_ALIGN = 4

_HEADER = struct.Struct("=LHHLL")
"""Length, type, flags, sequence number, port."""
_CLASS = struct.Struct("=BxxxiLLL")
"""Family, interface, handle, parent, info."""
_ATTRIBUTE = struct.Struct("=HH")
_BYTES = struct.Struct("=Q")
_TREE = 0x1_0000
"""The parent of what is asked for: qdisc 1: alone, not the queues below its classes."""
_MOST_BYTES = 1 << 16
_LIMIT_S = 1.0

Carried = tuple[tuple[int, ...], ...]
"""Bytes by link, in the order of the network's, and by class."""


@dataclass(frozen=True)
class _Place:
    """An interface as netlink knows it: a socket of its namespace, its number there, and the link that leaves by it."""

    socket: socket.socket
    interface: int
    link: int


class ClassMeter:
    """Reads counters of the classes of `network`, in a world of its own, until it is closed (a context manager)."""

    def __init__(self, network: EmulatedNetwork) -> None:
        self._links = len(network.network.links)
        self._sockets: list[socket.socket] = []
        self._places: list[_Place] = []
        members: dict[str | None, dict[str, int]] = {}
        for interface in network.interfaces().values():
            host = interface.node if interface.node in network.network.edge_switch else None
            members.setdefault(host, {})[interface.name] = interface.link.index
        for host, links in members.items():
            pid = None if host is None else network.namespace_pid(host)
            self._places += _in_namespace(pid, functools.partial(self._opened, links))

    def _opened(self, links: Mapping[str, int]) -> list[_Place]:
        """Interfaces of the namespace that the calling thread is in."""
        opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._sockets.append(opened)
        opened.settimeout(_LIMIT_S)
        return [_Place(opened, socket.if_nametoindex(name), link) for name, link in links.items()]

    def read(self) -> Carried:
        """Bytes by link and class since the network was built (RunError where the kernel does not answer)."""
        found: list[tuple[int, ...]] = [(0,) * CLASSES] * self._links
        for place in self._places:
            try:
                found[place.link] = _by_class(_dumped(place.socket, place.interface))
            except OSError as error:
                raise RunError(f"reading class counters: {refusal(error)}") from error
        return tuple(found)

    def __enter__(self) -> ClassMeter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for opened in self._sockets:
            opened.close()


def _in_namespace(pid: int | None, opened: Callable[[], list[_Place]]) -> list[_Place]:
    """What `opened` returns in the network namespace of process `pid`, or in this one (RunError where it cannot).

    A thread of its own goes there and ends: sockets stay in the namespace in which they were made.
    """
    if pid is None:
        return opened()
    found: list[_Place] = []
    failed: list[OSError] = []

    def go() -> None:
        try:
            with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
                _go_to(namespace.fileno())
            found.extend(opened())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=go, name="class meter")
    thread.start()
    thread.join()
    if failed:
        raise RunError(f"reading class counters: {refusal(failed[0])}")
    return found


def _go_to(namespace: int) -> None:
    """Take the calling thread to a network namespace, given by an open file; `os.setns` is of Python 3.12."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _dumped(asked: socket.socket, interface: int) -> Iterator[bytes]:
    """What the kernel answers of the classes of an interface, a piece at a time, to the last one."""
    asked.send(request(interface))
    more = True
    while more:
        piece = asked.recv(_MOST_BYTES)
        more = not _is_last(piece)
        yield piece


def request(interface: int) -> bytes:
    """The message that asks for all classes right below the tree of an interface."""
    length = _HEADER.size + _CLASS.size
    return _HEADER.pack(length, _RTM_GETTCLASS, _REQUEST | _DUMP, 0, 0) + _CLASS.pack(0, interface, 0, _TREE, 0)


def _is_last(piece: bytes) -> bool:
    """Whether the last message of a piece ends the answer; OSError where it says what went wrong."""
    for kind, begin, _ in _messages(piece):
        if kind == _NLMSG_ERROR:
            (number,) = struct.unpack_from("=i", piece, begin)
            raise OSError(-number, os.strerror(-number))
        if kind == _NLMSG_DONE:
            return True
    return False


def _messages(piece: bytes) -> Iterator[tuple[int, int, int]]:
    """Of each message its type, and where its contents begin and end."""
    at = 0
    while at + _HEADER.size <= len(piece):
        length, kind, _, _, _ = _HEADER.unpack_from(piece, at)
        if length < _HEADER.size:
            return
        yield kind, at + _HEADER.size, at + length
        at += -(-length // _ALIGN) * _ALIGN


def _by_class(pieces: Iterator[bytes]) -> tuple[int, ...]:
    """Bytes by class in the kernel's answer about one interface."""
    found = [0] * CLASSES
    for piece in pieces:
        for kind, begin, end in _messages(piece):
            if kind == _RTM_NEWTCLASS:
                number = queues.class_of_handle(_CLASS.unpack_from(piece, begin)[2])
                if number is not None:
                    found[number] = _sent_bytes(piece, begin + _CLASS.size, end)
    return tuple(found)


def _sent_bytes(piece: bytes, at: int, end: int) -> int:
    """The number of bytes among the attributes of a class; 0 where it has none."""
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(piece, at)
        if kind == _TCA_STATS:
            found: int = _BYTES.unpack_from(piece, at + _ATTRIBUTE.size)[0]
            return found
        at += max(-(-length // _ALIGN) * _ALIGN, _ALIGN)
    return 0
