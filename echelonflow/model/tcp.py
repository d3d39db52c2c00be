"""What may be asked of hosts' TCP, and how much of a flow it lets wait in queues."""

from __future__ import annotations

import math
import re

from echelonflow.errors import InputError
from echelonflow.model.units import ETHERNET_HEADER_BYTES, TCP_IP_HEADER_BYTES

LEAST_SEND_BUFFER_BYTES = 32_768
SEND_BUFFER_S = 0.0054
"""Size of a flow's send buffer: what the fastest path carries in this time, and at least LEAST_SEND_BUFFER_BYTES."""
PIECE_BYTES = 1 << 16
PIECE_S = 0.003
"""A paced flow is written in pieces of so much of its time, of two segments at least.

TCP plans each segment by the rate in force when the one before left, and keeps to that plan whatever is decided since.
A flow that others had left 139 kB/s for 3 ms stood still for 60 ms more when the whole link was its own. And it keeps
its buffer full: up to 38 kB of a flow of 2 MB/s left after its pause, over 27 ms, before those for which it was paused.
Flows of which a piece would be more than PIECE_BYTES are paced by TCP.
"""
_KERNEL_FACTOR = 2
"""Linux grants twice the SO_SNDBUF that is asked for, to have room for its own bookkeeping."""
_NAME = re.compile(r"[a-z0-9_-]{1,15}")  # as kernel modules name theirs, in TCP_CA_NAME_MAX bytes


def congestion_control(name: str) -> str:
    """`name`, if a congestion control can be called so (InputError).

    It comes from experiment files and reaches a shell that root runs, so that it may hold nothing but a name.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is not the name of a congestion control, such as cubic, reno or bbr")
    return name


def send_buffer_bytes(fastest_Bps: float) -> int:
    """The SO_SNDBUF of every flow of a network: enough to fill the fastest path, too little to build queues.

    Equal small windows are also what makes TCP share fairly here. Without losses, as at a host's own interface
    (TCP small queues), congestion windows stay as unequal as they happened to start.
    """
    return max(LEAST_SEND_BUFFER_BYTES, round(fastest_Bps * SEND_BUFFER_S))


def most_in_flight_bytes(send_buffer_bytes: int, mtu_bytes: int) -> int:
    """What one flow with this SO_SNDBUF can have on the network at most, in bytes of frames.

    What is sent stays in the send buffer until it is acknowledged. A flow whose class gets no turn has all of it in one
    queue, and sends no more.
    """
    payload_bytes = mtu_bytes - TCP_IP_HEADER_BYTES
    frames = math.ceil(_KERNEL_FACTOR * send_buffer_bytes / payload_bytes)
    return frames * (mtu_bytes + ETHERNET_HEADER_BYTES)
