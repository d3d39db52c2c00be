"""The controller as a process: its command line, its socket, and how it ends. Loopback only, no root."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess

import pytest

from controller.deadline import deadline
from controller.launch import controller_argv
from controller.main import main
from echelonflow.errors import PolicyError
from echelonflow.model import topologies
from echelonflow.records.decisions import read_decisions
from echelonflow.records.network_file import write_network
from echelonflow.scheduling.kernels import PLAIN_VARIABLE
from echelonflow.wire import unix_socket
from echelonflow.wire.messages import Begin, Event, Fault, Hello, decode, encode
from tests.waiting import end_of, lives, started, wait_until

pytestmark = pytest.mark.slow  # every test starts a controller

LIMIT_S = 40.0
WITHOUT_COMPILER = {**os.environ, PLAIN_VARIABLE: "1"}
"""For controllers of two hosts: the same decisions, and a second less before the first."""


@pytest.fixture
def network_file(tmp_path):
    path = tmp_path / "network.json"
    write_network(path, topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e8}))
    return path


def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@pytest.fixture
def free_port():
    return unused_port()


def start(network, path, port, framework="ryu", *more):
    """A context manager of a controller, ended with the block."""
    argv = [*controller_argv(framework, network, path, listen=f"127.0.0.1:{port}"), *more]
    return started(argv, stderr=subprocess.PIPE, text=True, env=WITHOUT_COMPILER)


def ends_with(process):
    code, _, stderr = end_of(process, LIMIT_S)
    return code, stderr


@contextlib.contextmanager
def serving(network, path, port, framework="ryu", *more):
    """A controller that listens at `path`, and for REST beside it, which it does last."""
    rest = path.with_name("rest.sock")
    with start(network, path, port, framework, *more) as process:
        wait_until(lambda: rest.is_socket() and unix_socket.answers(rest), LIMIT_S, "the sockets", process)
        yield process


def connect(path, process=None):
    """A connection to the controller `process` at `path`, and the lines that come by it."""

    client = unix_socket.connect(path, LIMIT_S, lambda: process is None or lives(process))
    client.settimeout(LIMIT_S)
    return client, client.makefile("rb")


def test_serves_faults_losses_and_logs_and_ends_on_sigterm(network_file, free_port, tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    path = folder / "control.sock"
    assert len(str(path)) > 108
    with serving(network_file, path, free_port) as process:
        runner, told = connect(path, process)
        # Two messages in three pieces: lines are put together again.
        lines = encode(Hello("runner", "")) + encode(Begin("r", "fair", "priority", 1, str(tmp_path / "d.jsonl")))
        for piece in (lines[:10], lines[10:70], lines[70:]):
            runner.sendall(piece)
        assert decode(told.readline()) == Event("begun", "r")
        assert read_decisions(tmp_path / "d.jsonl") == []
        assert (tmp_path / "d.jsonl").exists()
        agent, answers = connect(path, process)
        agent.sendall(encode(Hello("agent", "h1")) + b"garbage\n")
        assert isinstance(decode(answers.readline()), Fault)
        fault = decode(told.readline())
        assert (fault.what, fault.detail[:12]) == ("fault", "agent on h1:")
        answers.close()
        agent.close()
        assert decode(told.readline()) == Event("lost", "h1")
        runner.sendall(encode(Begin("r", "fair", "priority", 1, str(tmp_path / "missing" / "d.jsonl"))))
        assert decode(told.readline()).what == "fault"
        process.send_signal(signal.SIGTERM)
        assert ends_with(process)[0] == 0
    assert not path.exists()


def test_a_bad_network_file_is_one_message_and_exit_2(tmp_path, capsys):
    path = tmp_path / "network.json"
    arguments = ["--network", str(path), "--socket", str(tmp_path / "c.sock")]
    assert main(arguments) == 2
    assert "No such file" in capsys.readouterr().err
    for text, words in (("{", "is not JSON"), ("[]", "is not a JSON object"), ('{"name": "x"}', "hosts")):
        path.write_text(text)
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert words in said
        assert len(said.splitlines()) == 1, said


def test_a_port_that_is_taken_is_named(network_file, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with start(network_file, tmp_path / "c.sock", port) as process:
            code, stderr = ends_with(process)
    assert code == 1
    assert f"127.0.0.1:{port}" in stderr
    assert len(stderr.splitlines()) == 1, stderr
    assert not (tmp_path / "c.sock").exists()


def test_a_second_controller_on_one_socket_is_refused_and_a_left_over_is_not(network_file, free_port, tmp_path):
    path = tmp_path / "c.sock"
    with serving(network_file, path, free_port) as process:
        connect(path, process)
        with start(network_file, path, unused_port()) as second:
            code, stderr = ends_with(second)
        assert code == 1
        assert "c.sock" in stderr
        assert process.poll() is None
        process.kill()
        process.wait()
    assert path.is_socket()
    with start(network_file, path, free_port) as process:
        runner, told = connect(path, process)
        runner.sendall(encode(Hello("runner", "")) + encode(Begin("r", "nonsense", "priority", 1, "/d")))
        assert "nonsense" in decode(told.readline()).reason


def test_a_policy_that_never_answers_is_interrupted():
    def think_for_ever():
        with deadline("slow", 0.05):
            while True:
                pass

    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(PolicyError, match=r"policy slow had not decided after 0\.05 s"):
        think_for_ever()
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
