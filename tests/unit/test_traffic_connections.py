from __future__ import annotations

import socket
from pathlib import Path

import pytest

from echelonflow.wire.classes import CONTROL_CLASS, class_of_dscp
from traffic.agent.connections import ROOM, listen


def test_acknowledgements_leave_in_the_control_class():
    """Otherwise they starve in the receiver's own queue behind data that it sends itself."""
    listener = listen("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert class_of_dscp(accepted.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) >> 2) == CONTROL_CLASS


@pytest.mark.parametrize("gather_bytes", [0, 1 << 14, 1 << 18])
def test_what_gathers_has_room_enough_to_keep_no_sender_waiting(gather_bytes):
    with listen("127.0.0.1", 0) as plain, listen("127.0.0.1", 0, gather_bytes) as listener:
        usual_bytes = plain.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                room_bytes = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    most_bytes = int(Path("/proc/sys/net/core/rmem_max").read_text())  # for an agent without root
    if 2 * gather_bytes <= usual_bytes:
        assert room_bytes == usual_bytes  # the kernel's own, which grows as it is needed
    else:
        assert room_bytes >= min(ROOM * gather_bytes, most_bytes)
