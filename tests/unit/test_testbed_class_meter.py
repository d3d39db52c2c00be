"""Counters of classes as the kernel says them by netlink. tests/emulation compares them with what `tc` shows."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from echelonflow.wire.classes import CLASSES
from testbed import class_meter

SENT = (66, 0, 5_000_000_000, 3, 4, 5, 6, 7)
HTB = 1 << 16


def message(kind, body):
    return struct.pack("=LHHLL", 16 + len(body), kind, 2, 0, 0) + body


def of_class(handle, sent_bytes):
    """One class as the kernel tells of it: its kind, its statistics, padded."""
    stats = struct.pack("=QLL", sent_bytes, 1, 0) + bytes(20)
    attributes = struct.pack("=HH", 8, 1) + b"htb\0" + struct.pack("=HH", 4 + len(stats), 3) + stats
    return message(40, struct.pack("=BxxxiLLL", 0, 7, handle, HTB | 1, 0) + attributes)


DONE = message(3, struct.pack("=i", 0))
TREE = of_class(HTB | 1, 10**9) + b"".join(of_class(HTB | 10 + number, sent) for number, sent in enumerate(SENT))


class Kernel:
    """The kernel's end of a socket, played."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)
        self.asked = []

    def send(self, request):
        self.asked.append(request)

    def recv(self, _):
        return self.pieces.pop(0)


@pytest.mark.parametrize("pieces", [(TREE + DONE,), (TREE, DONE), (of_class(HTB | 1, 1), TREE, DONE)])
def test_bytes_are_by_class_and_the_rest_of_the_tree_is_left_out(pieces):
    kernel = Kernel(*pieces)
    assert class_meter._by_class(class_meter._dumped(kernel, 7)) == SENT
    assert kernel.pieces == []


def test_the_question_names_the_interface_and_the_top_of_its_tree():
    kernel = Kernel(DONE)
    assert class_meter._by_class(class_meter._dumped(kernel, 7)) == (0,) * CLASSES
    (asked,) = kernel.asked
    length, kind, flags = struct.unpack_from("=LHH", asked)
    assert (length, kind, flags) == (len(asked), 42, 0x301)
    assert struct.unpack_from("=iLL", asked, 20) == (7, 0, HTB)


def test_what_the_kernel_refuses_is_an_error():
    kernel = Kernel(message(2, struct.pack("=i", -errno.ENODEV)))
    with pytest.raises(OSError, match="No such device"):
        class_meter._by_class(class_meter._dumped(kernel, 7))


def test_the_kernel_itself_knows_the_question():
    """Loopback has no tree, so there is nothing to tell: but it is answered."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asked:
        asked.settimeout(5.0)
        found = class_meter._by_class(class_meter._dumped(asked, socket.if_nametoindex("lo")))
    assert found == (0,) * CLASSES
