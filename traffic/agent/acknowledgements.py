"""Has the kernel say when the last byte that was handed to TCP has left it, and when it has been acknowledged.

No polling finds that out so soon. A send can ask for time stamps of its last byte (SO_TIMESTAMPING): when it enters the
host's queue, and when it is acknowledged. Documentation/networking/timestamping of the kernel tells of it. Stamps come through the socket's error
queue, which wakes whoever waits for the socket. Their values are of no account here: TCP itself is asked what has
left and what is acknowledged. So a stamp too many or one that is lost does no harm.
"""

from __future__ import annotations

import contextlib
import socket
import struct

_SO_TIMESTAMPING = 37
_TX_SCHED, _TX_ACK, _OPT_TSONLY, _OPT_ID, _SOFTWARE = 1 << 8, 1 << 9, 1 << 11, 1 << 7, 1 << 4
_ASKED = [(socket.SOL_SOCKET, _SO_TIMESTAMPING, struct.pack("@I", _TX_SCHED | _TX_ACK))]
_STAMP_BYTES = 512


def announce(connection: socket.socket) -> bool:
    """Have sends by `send_last` on a TCP connection announced; False where the kernel cannot, and somebody must look."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _SOFTWARE | _OPT_TSONLY | _OPT_ID)
    except OSError:
        return False
    return True


def send_last(connection: socket.socket, data: memoryview) -> int:
    """Send what TCP takes of `data`; that the last byte of it leaves, and its acknowledgement, are announced. OSError as of `send`."""
    return connection.sendmsg([data], _ASKED)


def take_announcements(connection: socket.socket) -> None:
    """Empty the error queue: what is in it would wake for ever."""
    with contextlib.suppress(OSError):  # BlockingIOError, as soon as it is empty
        while True:
            connection.recvmsg(1, _STAMP_BYTES, socket.MSG_ERRQUEUE)
