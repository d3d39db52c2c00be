"""The end of a flow wakes its sender: the kernel announces the acknowledgement of the last byte."""

from __future__ import annotations

import select
import socket

import pytest

from echelonflow.wire.messages import FlowDeclaration, Setting
from tests.waiting import wait_until
from traffic.agent import sender
from traffic.agent.sender import ACK_ANNOUNCED_POLL_S, ACK_POLL_S, OutgoingFlow

SIZE_BYTES = 100_000
FLOW = FlowDeclaration("f", 0, "f", "h1", "h2", SIZE_BYTES, 0.0, 10_000, 5001)


@pytest.fixture
def ends():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sending = socket.create_connection(listener.getsockname())
        receiving, _ = listener.accept()
    with sending, receiving:
        yield sending, receiving


def flow_on(connection, ended):
    flow = OutgoingFlow(
        "job",
        FLOW,
        connection,
        send_buffer_bytes=1 << 20,
        on_acknowledged=lambda _, sent, __: ended.append(sent.iteration),
    )
    flow.release(0, 0.0)
    flow.apply(Setting("job", "f", 0, 40, None), 0.0)
    return flow


def write_all(flow):
    while flow.wants_write:
        flow.write(1.0)


def test_whoever_waits_is_woken_by_the_last_acknowledgement(ends):
    ended = []
    flow = flow_on(ends[0], ended)
    assert (flow.wanted_events, flow.poll_s) == (select.EPOLLOUT, ACK_ANNOUNCED_POLL_S)
    write_all(flow)
    assert flow.wanted_events == 0
    with select.epoll() as poll:
        poll.register(flow.fileno(), flow.wanted_events)
        received = 0
        while received < SIZE_BYTES:
            received += len(ends[1].recv(1 << 16))
        assert poll.poll(5.0) == [(flow.fileno(), select.EPOLLERR)]
        flow.poll(2.0)
        assert ended == [0]
        assert flow.wanted_events is None
        flow.take_announcements()
        assert poll.poll(0) == []


def test_a_flow_has_left_when_tcp_has_sent_all_of_it_whether_acknowledged_or_not(ends):
    sending, receiving = ends
    receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    ended = []
    flow = flow_on(sending, ended)
    write_all(flow)
    assert not flow.has_left(0)  # the receiver takes no more: the rest waits in the socket
    received = 0
    while received < SIZE_BYTES:
        received += len(receiving.recv(1 << 16))
    assert flow.has_left(0)
    assert not flow.has_left(1)
    assert not flow.has_ended(0)
    wait_until(lambda: flow.poll(2.0) or ended, 5, "the last acknowledgement")
    assert flow.has_left(0)
    assert flow.has_ended(0)


def test_a_connection_whose_errors_were_taken_still_tells_of_its_loss(ends):
    flow = flow_on(ends[0], [])
    write_all(flow)
    ends[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    ends[1].close()
    with select.epoll() as poll:
        poll.register(flow.fileno(), 0)
        assert poll.poll(5.0)
    flow.take_announcements()
    with pytest.raises(sender.FlowLostError, match="connection lost"):
        flow.poll(2.0)


def test_where_the_kernel_announces_nothing_ends_are_looked_for(ends, monkeypatch):
    monkeypatch.setattr(sender, "announce", lambda _: False)
    flow = flow_on(ends[0], [])
    write_all(flow)
    assert (flow.wanted_events, flow.poll_s) == (None, ACK_POLL_S)
