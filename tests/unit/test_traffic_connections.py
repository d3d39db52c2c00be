from __future__ import annotations

import socket

from echelonflow.wire.classes import CONTROL_CLASS, class_of_dscp
from traffic.agent.connections import listen


def test_acknowledgements_leave_in_the_control_class():
    """Otherwise they starve in the receiver's own queue behind data that it sends itself."""
    listener = listen("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert class_of_dscp(accepted.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) >> 2) == CONTROL_CLASS
