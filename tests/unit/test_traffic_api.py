from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from echelonflow.errors import RunError
from echelonflow.wire.messages import (
    Decide,
    Declare,
    Done,
    Fault,
    Finish,
    FlowDeclaration,
    Hello,
    Progress,
    Ready,
    Release,
    Setting,
    Start,
    decode,
    encode,
)
from tests.unit.traffic_fakes import FakeCoordinator
from traffic.agent.api import EchelonFlowClient, connect

FLOW = FlowDeclaration("x0", 0, "x0", "h1", "h2", 1000, 0.0, 10000, 5001)


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    theirs.settimeout(5.0)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_says_what_the_protocol_says_in_order(ends):
    ours, theirs = ends
    client = EchelonFlowClient(ours, "trainer0", "h1")
    client.declare(Declare("bert", "pp 0->1", "pp", 2.0, (FLOW,), compute_s=12.0))
    client.release("bert", "x0", iteration=0, time_s=1.5)
    client.progress("bert", "x0", iteration=0, sent_bytes=500)
    client.finish("bert", "x0", iteration=0, time_s=2.5)
    client.ready()
    client.done()
    assert client.wants_write
    client.flush()
    assert not client.wants_write
    assert [decode(line) for line in theirs.recv(65536).splitlines()] == [
        Hello("trainer0", "h1"),
        Declare("bert", "pp 0->1", "pp", 2.0, (FLOW,), 12.0),
        Release("bert", "x0", 0, 1.5),
        Progress("bert", "x0", 0, 500),
        Finish("bert", "x0", 0, 2.5),
        Ready(),
        Done(),
    ]


def test_calls_back_for_settings_and_start_even_when_they_come_in_pieces(ends):
    ours, theirs = ends
    settings, starts = [], []
    client = EchelonFlowClient(ours, "t", "h1", on_setting=settings.append, on_start=starts.append)
    wanted = (Setting("bert", "x0", 0, 48, None), Setting("bert", "x1", 0, 40, 1e6))
    data = encode(Start(7.0)) + encode(Decide(wanted))
    for piece in (data[:5], data[5:60], data[60:]):
        theirs.sendall(piece)
        client.on_readable()
    assert starts == [7.0]
    assert settings == list(wanted)


def test_never_blocks(ends):
    ours, theirs = ends
    client = EchelonFlowClient(ours, "t", "h1")
    client.on_readable()  # nothing there
    for i in range(20_000):
        client.progress("bert", "x0", i, i)
    client.flush()
    assert client.wants_write  # the socket took what it could
    received = bytearray()
    while client.wants_write:
        received += theirs.recv(1 << 20)
        client.flush()
    while received.count(b"\n") < 20_001:
        received += theirs.recv(1 << 20)
    assert decode(bytes(received.splitlines()[-1])) == Progress("bert", "x0", 19_999, 19_999)


def test_a_refusal_is_an_error(ends):
    ours, theirs = ends
    client = EchelonFlowClient(ours, "t", "h1")
    theirs.sendall(encode(Fault("flow 'y' was not declared")))
    with pytest.raises(RunError, match="flow 'y' was not declared"):
        client.on_readable()


def test_a_coordinator_that_is_gone_is_an_error(ends):
    ours, theirs = ends
    client = EchelonFlowClient(ours, "t", "h1")
    theirs.close()
    with pytest.raises(RunError, match="closed"):
        client.on_readable()
    with pytest.raises(RunError, match="closed"):
        client.flush()


def test_connects_through_a_path_longer_than_a_socket_address(tmp_path):
    folder = tmp_path / ("deep" * 30) / ("deeper" * 20)
    folder.mkdir(parents=True)
    coordinator = FakeCoordinator(folder / "control.sock", agents=1)
    try:
        client = EchelonFlowClient(connect(folder / "control.sock"), "t", "h1")
        client.flush()
        coordinator.wait_for(lambda: coordinator.of(Hello) == [Hello("t", "h1")])
        client.close()
    finally:
        coordinator.close()


def test_no_coordinator_is_an_error_after_the_time_given(tmp_path):
    with pytest.raises(RunError, match="cannot be reached"):
        connect(tmp_path / "none.sock", timeout_s=0.0)


def test_agents_start_without_numpy():
    code = "import sys, traffic.agent.agent; sys.exit(int('numpy' in sys.modules or 'pydantic' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
