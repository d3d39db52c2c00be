"""Unix sockets with long paths, and the client's line: what arrives in pieces, what does not fit, who is gone."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path

import pytest

from echelonflow.errors import InputError, RunError
from echelonflow.wire import unix_socket
from echelonflow.wire.line import Line, LineBuffer
from echelonflow.wire.messages import Declare, Event, Fault, FlowDeclaration, Hello, Ready, Start, encode


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Line(ours), theirs


@pytest.fixture
def deep(tmp_path):
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    assert len(str(folder / "x.sock")) > 108
    return folder / "x.sock"


@contextlib.contextmanager
def listening(path):
    with socket.socket(socket.AF_UNIX) as listener:
        with unix_socket.short_address(path) as address:
            listener.bind(address)
        listener.listen()
        yield listener


def test_a_socket_is_reached_however_long_its_path(deep):
    with listening(deep) as listener, unix_socket.connect(deep) as connection:
        connection.sendall(b"x")
        with listener.accept()[0] as accepted:
            assert accepted.recv(1) == b"x"
        assert connection.gettimeout() is None


def test_a_socket_that_comes_late_is_waited_for_and_looked_after(deep):
    looks = []

    def look():
        looks.append(time.monotonic())
        if len(looks) == 3:
            stack.enter_context(listening(deep))

    with contextlib.ExitStack() as stack:
        unix_socket.connect(deep, 10.0, look).close()
    assert len(looks) == 3


def test_what_is_not_there_is_an_error_and_so_is_what_the_check_raises(deep):
    with pytest.raises(FileNotFoundError):
        unix_socket.connect(deep)
    with pytest.raises(FileNotFoundError):
        unix_socket.connect(deep.parent / "none" / "x.sock")

    def gone():
        raise RunError("the process has ended")

    with pytest.raises(RunError, match="has ended"):
        unix_socket.connect(deep, 10.0, gone)


def test_a_file_that_a_killed_process_left_answers_nobody(deep):
    assert not unix_socket.answers(deep)
    with listening(deep):
        assert unix_socket.answers(deep)
    assert deep.is_socket()
    assert not unix_socket.answers(deep)


def test_no_descriptor_is_left_behind(deep):
    before = len(list_descriptors())
    for _ in range(5):
        with pytest.raises(FileNotFoundError):
            unix_socket.connect(deep)
        unix_socket.answers(deep)
    assert len(list_descriptors()) == before


def list_descriptors():
    return list(Path("/proc/self/fd").iterdir())


def test_lines_are_put_together_from_pieces():
    buffer = LineBuffer()
    assert [buffer.feed(piece) for piece in (b"ab", b"c\nd", b"e\n\nf", b"\n")] == [[], [b"abc"], [b"de", b""], [b"f"]]
    assert len(buffer) == 0
    buffer.feed(b"rest")
    assert len(buffer) == 4


def test_messages_arrive_in_order_in_one_read_or_one_by_one(pair):
    line, theirs = pair
    theirs.sendall(encode(Start(1.0)) + encode(Event("begun", "r")) + encode(Event("done"))[:5])
    assert line.wait(1.0) == Start(1.0)
    assert line.read() == [Event("begun", "r")]
    assert line.read() == []
    assert line.wait(0.0) is None
    theirs.sendall(encode(Event("done"))[5:])
    assert line.expect(Event, 1.0) == Event("done")


def test_what_the_socket_does_not_take_is_kept_and_sent_later(pair):
    line, theirs = pair
    flows = tuple(FlowDeclaration(f"f{i}", i, "c", "h1", "h2", 1, 0.0, 10_000, 5001) for i in range(20_000))
    big = Declare("job", "g", "k", 1.0, flows)
    line.put(big)
    line.flush()
    assert line.wants_write
    received = bytearray()

    def receive():
        while not received.endswith(encode(Ready())):
            received.extend(theirs.recv(1 << 16))

    reader = threading.Thread(target=receive)
    reader.start()
    line.send(Ready())
    reader.join(10.0)
    assert not line.wants_write
    assert bytes(received) == encode(big) + encode(Ready())


def test_a_coordinator_that_is_gone_is_named_by_every_method(pair):
    line, theirs = pair
    theirs.close()
    for act in (line.read, lambda: line.wait(1.0), lambda: line.send(Hello("a", "h1"))):
        with pytest.raises(RunError, match="the coordinator closed the connection"):
            act()


def test_what_was_not_expected_is_named(pair):
    line, theirs = pair
    theirs.sendall(encode(Event("done")) + encode(Fault("no")))
    with pytest.raises(RunError, match=r"sent Event\(what='done'.*Start was expected"):
        line.expect(Start, 1.0)
    with pytest.raises(RunError, match="refused a message: no"):
        line.expect(Start, 1.0)
    theirs.sendall(b"nonsense\n")
    with pytest.raises(InputError, match="JSON"):
        line.expect(Start, 1.0)
    with pytest.raises(RunError, match="said nothing for 0 s; Start was expected"):
        line.expect(Start, 0.0)
