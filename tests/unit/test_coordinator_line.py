"""The runner's line to the coordinator: what it says when its other end is gone."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from echelon.running import coordinator_line
from echelon.running.coordinator_line import CoordinatorLine
from echelonflow.errors import RunError
from echelonflow.wire.messages import Event, encode


@contextlib.contextmanager
def coordinator(folder, *said, stays=False):
    """A line to a coordinator that says so much, and closes the connection; or `stays` until the line is closed."""
    path = folder / "control.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"".join(map(encode, said)))
                while stays and connection.recv(1 << 16):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        line = CoordinatorLine(path, 10.0, lambda: None)
        if not stays:
            thread.join()
        yield line
        line.close()
        thread.join()


class Dies:
    """A check that sees only some looks later that a process has ended."""

    def __init__(self, looks):
        self.looks = looks

    def __call__(self):
        self.looks -= 1
        if self.looks < 0:
            raise RunError("the part died (exit -9)")


@pytest.mark.parametrize("said", [[], [Event("lost", "h1")]], ids=["closed", "lost"])
def test_the_process_that_ended_is_named_even_where_that_is_seen_later_than_its_connection_closes(tmp_path, said):
    with coordinator(tmp_path, *said) as line, pytest.raises(RunError, match="the part died"):
        line.wait_for("done", 30.0, Dies(looks=5))


@pytest.mark.parametrize(
    ("said", "words"), [([], "closed the connection"), ([Event("lost", "h1")], "lost h1; see logs")]
)
def test_where_all_live_the_line_says_what_it_saw(tmp_path, said, words, monkeypatch):
    monkeypatch.setattr(coordinator_line, "SEEN_LIMIT_S", 0.1)
    with coordinator(tmp_path, *said) as line, pytest.raises(RunError, match=words):
        line.wait_for("done", 30.0, lambda: None)


def test_an_event_that_is_waited_for_is_returned(tmp_path):
    with coordinator(tmp_path, Event("begun", "r0"), Event("done", "")) as line:
        assert line.wait_for("done", 30.0, lambda: None) == Event("done", "")


def test_what_is_still_said_of_a_run_that_failed_is_forgotten(tmp_path):
    said = [Event("lost", "h2"), Event("fault", "x"), Event("ended", "r"), Event("begun")]
    with coordinator(tmp_path, *said, stays=True) as line:
        line.settle(10.0)
        line.wait_for("begun", 10.0, lambda: None)


def test_a_coordinator_that_does_not_end_a_run_is_not_waited_for_long(tmp_path):
    with coordinator(tmp_path, stays=True) as line, pytest.raises(RunError, match="did not end the run"):
        line.settle(0.05)
