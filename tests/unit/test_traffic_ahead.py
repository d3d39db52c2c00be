"""A sender that knows before a release how to send: it starts at once, and a later decision overrules an earlier one."""

from __future__ import annotations

import socket

import pytest

from echelonflow.errors import RunError
from echelonflow.wire.messages import FlowDeclaration, Setting
from traffic.agent.sender import MOST_AHEAD, OutgoingFlow

SIZE = 1000
DECLARED = FlowDeclaration("x", 0, "x", "h1", "h2", SIZE, 0.0, 10_000, 5001)


@pytest.fixture
def flow():
    ours, theirs = socket.socketpair()
    server = socket.create_server(("127.0.0.1", 0))
    connection = socket.create_connection(server.getsockname())
    flow = OutgoingFlow("j", DECLARED, connection, send_buffer_bytes=65536, on_acknowledged=lambda *_: None)
    yield flow
    for each in (flow, server, ours, theirs):
        each.close()


def setting(number, dscp=40, rate_Bps=None, iteration=0):
    return Setting("j", "x", iteration, dscp, rate_Bps, number)


def test_a_flow_that_was_decided_ahead_starts_at_its_release(flow):
    flow.apply(setting(7), 1.0)
    assert flow.release(0, 2.0) == 7
    assert flow.wants_write
    flow.write(2.0)
    assert (flow.active.start_s, flow.active.by, flow.active.held) == (2.0, 7, False)
    assert flow.active.marks == [(2.0, 40, None)]
    flow.apply(setting(8, dscp=32), 3.0)
    assert flow.active.marks == [(2.0, 40, None), (3.0, 32, None)]


def test_one_that_is_to_wait_does(flow):
    flow.apply(setting(3), 1.0)
    flow.apply(setting(4, dscp=0, rate_Bps=0.0), 1.0)
    assert flow.release(0, 2.0) == 4
    assert not flow.wants_write
    assert (flow.active.by, flow.active.held, flow.active.marks) == (4, True, [])
    assert flow.state_of(0) == (0, None)
    flow.apply(setting(5), 3.0)
    assert flow.wants_write


def test_a_lower_number_never_overrules_a_higher_one(flow):
    flow.apply(setting(9, dscp=48), 1.0)
    flow.apply(setting(8, dscp=40), 1.0)
    assert flow.release(0, 2.0) == 9
    flow.apply(setting(8, dscp=40), 2.0)
    assert flow.active.setting.dscp == 48
    flow.apply(setting(9, dscp=48), 2.0)  # told again
    assert flow.active.marks == [(2.0, 48, None)]


def test_another_coordinator_counts_anew(flow):
    flow.apply(setting(90), 1.0)
    flow.release(0, 1.0)
    flow.apply(setting(91, iteration=1), 1.0)
    flow.forget_decisions()
    flow.go_on_alone(2.0)
    flow.apply(setting(1, dscp=32), 3.0)
    assert flow.active.setting.dscp == 32
    assert flow.release(1, 4.0) == 0  # what the one before said of it counts no more


def test_decisions_are_kept_for_the_latest_iterations_alone(flow):
    for iteration in range(10 * MOST_AHEAD):
        flow.apply(setting(iteration + 1, iteration=iteration), 1.0)
    released = [flow.release(iteration, 2.0) for iteration in range(10 * MOST_AHEAD)]
    assert released == [0] * 9 * MOST_AHEAD + list(range(9 * MOST_AHEAD + 1, 10 * MOST_AHEAD + 1))


def test_a_setting_without_a_number_is_for_released_flows_alone(flow):
    with pytest.raises(RunError, match="has not been released"):
        flow.apply(setting(0), 1.0)
