"""REST of a real controller process, by our own client and by clients that misbehave. Loopback, no root."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import socket
import stat
import time

import pytest

from controller import client
from controller.launch import FRAMEWORKS
from controller.main import main
from echelon.places import DOCS
from echelonflow.errors import InputError, RunError
from echelonflow.files import write_private
from echelonflow.scheduling.own_policy.process import ANSWER
from echelonflow.wire.messages import Decide, Declare, FlowDeclaration, Hello, Ready, Release, Start, decode, encode
from echelonflow.wire.rest import PolicyInForce
from tests.unit.test_controller_main import LIMIT_S, connect, ends_with, free_port, serving, start, unused_port
from tests.waiting import wait_until

pytestmark = pytest.mark.slow  # every test starts a controller

__all__ = ["free_port"]

MINE = """
import time
import numpy as np
from echelonflow.scheduling.allocation import Allocation

ENFORCER = "rate"

def allocate(snapshot):
    if snapshot.flows == 2:
        BODY
    return Allocation(np.full(snapshot.flows, 1000.0), np.zeros(snapshot.flows, np.int64))
"""


TOO_LATE = f"had not decided after ({ANSWER.cpu_s:g} s of computing|{ANSWER.wall_s:g} s)"
"""Which of the two limits comes first depends on how busy the machine is."""


@contextlib.contextmanager
def learning(folder, framework=FRAMEWORKS[0]):
    """A controller that learns, with two hosts: the path of its REST socket."""
    hosts = folder / "hosts.json"
    hosts.write_text(json.dumps({"rate": "8 Mbit/s", "hosts": {"h1": "10.0.0.1", "h2": "10.0.0.2"}}))
    with serving(None, folder / "control.sock", unused_port(), framework, "--hosts", str(hosts)):
        yield folder / "rest.sock"


@pytest.fixture
def controller(request, tmp_path):
    with learning(tmp_path, getattr(request, "param", FRAMEWORKS[0])) as rest:
        yield rest


@pytest.fixture(scope="module")
def untouched_controller(tmp_path_factory):
    """For tests that leave it as it was; each says so itself."""
    with learning(tmp_path_factory.mktemp("controller")) as rest:
        yield rest


class Trainer:
    """A client with two flows from h1 to h2."""

    def __init__(self, rest):
        self.socket, self.told = connect(rest.with_name("control.sock"))
        flows = tuple(
            FlowDeclaration(f"f{i}", i, f"f{i}", "h1", "h2", 10**6, float(i), 10_000 + i, 5001) for i in (0, 1)
        )
        self.say(Hello("trainer", "h1"), Declare("job", "g", "k", 1.0, flows), Ready())
        zero_s = decode(self.told.readline()).zero_s
        time.sleep(max(zero_s - time.monotonic(), 0))

    def say(self, *messages):
        self.socket.sendall(b"".join(map(encode, messages)))

    def release(self, name):
        self.say(Release("job", name, 0, time.monotonic()))

    def settings(self):
        message = decode(self.told.readline())
        assert isinstance(message, Decide), message
        return {s.flow: s.rate_Bps for s in message.settings}

    def close(self):
        self.told.close()
        self.socket.close()


def raw(path, data, limit_s=LIMIT_S):
    """What comes back for raw bytes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(limit_s)
        connection.connect(str(path))
        connection.sendall(data)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


@pytest.mark.parametrize("controller", FRAMEWORKS, indirect=True)
def test_a_policy_is_swapped_while_flows_are_in_flight(controller, tmp_path):
    trainer = Trainer(controller)
    trainer.release("f0")
    assert trainer.settings() == {"f0": None}
    assert client.set_policy(controller, "coflow(grouping=group)") == PolicyInForce("coflow(grouping=group)", "rate")
    assert set(trainer.settings()) == {"f0"}
    (tmp_path / "mine.py").write_text(MINE.replace("BODY", "time.sleep(60)"))
    assert client.set_policy(controller, str(tmp_path / "mine.py")).enforcer == "rate"
    assert trainer.settings() == {"f0": 1000.0}
    # With a second flow it hangs: others are heard and answered while it does, and in the end the policy before is back.
    trainer.release("f1")
    meanwhile = wait_until(lambda: (status := client.status(controller)).run.flows_in_flight == 2 and status)
    assert (meanwhile.run.policy, meanwhile.fallbacks) == (str(tmp_path / "mine.py"), 0)
    assert set(trainer.settings()) == {"f0", "f1"}
    status = client.status(controller)
    assert (status.run.policy, status.fallbacks, status.swaps) == ("coflow(grouping=group)", 1, 2)
    trainer.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = (\n", "mine.py, line 1: "),
        ("x = 1\n", "has no function allocate"),
        (MINE.replace("== 2", "> 0").replace("BODY", "return Allocation(snapshot.remaining_bytes * float('nan'), snapshot.group)"), "not a number"),
        (MINE.replace("== 2", "> 0").replace("BODY", "while True: pass"), TOO_LATE),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_used_is_named_and_the_old_one_stays(untouched_controller, tmp_path, text, words):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match=words):
        client.set_policy(untouched_controller, str(tmp_path / "mine.py"))
    assert client.policy_in_force(untouched_controller).policy == "echelonflow"


def test_while_one_policy_is_on_trial_decisions_go_on(controller, tmp_path):
    trainer = Trainer(controller)
    (tmp_path / "mine.py").write_text(MINE.replace("== 2", "> 0").replace("BODY", "time.sleep(60)"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        trial = pool.submit(client.set_policy, controller, str(tmp_path / "mine.py"))
        time.sleep(0.3)
        with pytest.raises(RunError, match="another policy is on trial"):
            client.set_policy(controller, "fair")
        trainer.release("f0")
        assert trainer.settings() == {"f0": None}
        assert not trial.done()
        assert isinstance(trial.exception(), InputError)
    trainer.close()


@pytest.mark.slow  # waits until the controller has lost patience
def test_clients_that_misbehave_disturb_nobody(controller):
    trainer = Trainer(controller)
    slow = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(20)]
    for number, connection in enumerate(slow):
        connection.connect(str(controller))
        connection.sendall(
            b"PUT /policy HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{" if number % 2 else b"GET /sta"
        )
    big = b"PUT /policy HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (1 << 30)
    assert b" 413 " in raw(controller, big).split(b"\r\n")[0]
    raw(controller, b"\x00\xff nonsense\r\n\r\n")
    assert b" 405 " in raw(controller, b"DELETE /policy HTTP/1.1\r\nHost: x\r\n\r\n").split(b"\r\n")[0]
    chunked = b"PUT /policy HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n"
    assert b" 411 " in raw(controller, chunked).split(b"\r\n")[0]
    trainer.release("f0")
    assert trainer.settings() == {"f0": None}
    with slow[1] as connection:
        connection.settimeout(LIMIT_S)
        assert b" 408 " in connection.recv(4096).split(b"\r\n")[0]
    for connection in slow:
        connection.close()
    assert client.status(controller).run.failed is False
    trainer.close()


def test_a_start_is_given_to_whoever_is_ready(controller):
    trainer, line = connect(controller.with_name("control.sock"))
    trainer.sendall(encode(Hello("t", "h2")) + encode(Ready()))
    assert isinstance(decode(line.readline()), Start)
    line.close()
    trainer.close()


def test_where_nobody_serves_the_message_says_what_to_name(tmp_path):
    with pytest.raises(RunError, match=r"no controller answers at .*x\.sock.*; name the rest\.sock"):
        client.status(tmp_path / "x.sock")
    with pytest.raises(RunError, match="no controller answers"):
        client.status(tmp_path / "none" / "x.sock")


def test_two_controllers_on_one_port_are_one_too_many(tmp_path, free_port):
    with serving(None, tmp_path / "one.sock", free_port) as process:
        assert client.status(tmp_path / "rest.sock").clients == 0  # it serves
        more = ("--rest-socket", str(tmp_path / "rest2.sock"))
        with start(None, tmp_path / "two.sock", free_port, "ryu", *more) as second:
            code, stderr = ends_with(second)
        assert (code, len(stderr.splitlines())) == (1, 1), stderr
        assert f"cannot listen for switches at 127.0.0.1:{free_port}" in stderr
        assert "--listen" in stderr
        assert client.status(tmp_path / "rest.sock").clients == 0
        assert process.poll() is None
    assert not (tmp_path / "two.sock").exists()


def test_rest_is_served_on_loopback_if_told_to(tmp_path, free_port):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with start(None, tmp_path / "c.sock", free_port, "ryu", "--rest-listen", f"127.0.0.1:{port}") as taken:
            code, stderr = ends_with(taken)
        assert code == 1
        assert f"cannot serve REST at 127.0.0.1:{port}" in stderr


@contextlib.contextmanager
def over_tcp(folder, *more):
    """A controller that serves REST over TCP as well: its port, and the file with the token."""
    port = unused_port()
    arguments = ("--rest-listen", f"127.0.0.1:{port}", *more)
    with serving(None, folder / "c.sock", unused_port(), "ryu", *arguments) as process:
        wait_until(lambda: connected(port), LIMIT_S, "REST on loopback", process).close()
        yield port, folder / "rest.token"
        process.terminate()
        process.wait(LIMIT_S)


def test_over_tcp_a_token_is_needed_and_no_file_is_run(tmp_path):
    """Any user of the machine can reach the port; without the token nothing is told, and nothing changed."""
    with over_tcp(tmp_path) as (port, token_file):
        token = token_file.read_text().strip()
        rest = tmp_path / "rest.sock"
        modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("c.sock", "rest.sock", "rest.token")]
        assert modes == [0o600, 0o600, 0o600]
        assert ask(port, "GET", "/metrics", token)[0] == 200
        mine = tmp_path / "mine.py"
        mine.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
        assert ask(port, "PUT", "/policy", token, policy=str(mine))[0] == 403
        assert not (tmp_path / "ran").exists()
        for given in ("", token[:-1], token + "x", "Basic x", "\u00e9" * 43):
            status, headers, why = ask(port, "PUT", "/policy", given, policy="fair")
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer"), why
        named = {"Host": "evil.example:80"}
        assert ask(port, "PUT", "/policy", token, named, policy="fair")[0] == 421
        assert ask(port, "PUT", "/policy", token, {"Origin": "http://evil.example"}, policy="fair")[0] == 403
        assert ask(port, "GET", "/status", token, {"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert client.policy_in_force(rest).policy == "echelonflow"
        assert ask(port, "PUT", "/policy", token, policy="fair")[0] == 200
        assert client.policy_in_force(rest).policy == "fair"
        assert token not in "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert not token_file.exists()


def test_a_token_of_ones_own_is_taken_from_a_file_that_nobody_else_reads(tmp_path, free_port):
    own = tmp_path / "own.token"
    write_private(own, b"a-token-of-my-own\n")
    with over_tcp(tmp_path, "--rest-token", str(own)) as (port, made):
        assert ask(port, "GET", "/status", "a-token-of-my-own")[0] == 200
        assert not made.exists()
    assert own.exists()
    own.chmod(0o644)
    listen = ("--rest-listen", f"127.0.0.1:{free_port}", "--rest-token", str(own))
    with start(None, tmp_path / "c.sock", unused_port(), "ryu", *listen) as process:
        code, stderr = ends_with(process)
    assert (code, len(stderr.splitlines())) == (2, 1), stderr
    assert "others may read it" in stderr


def test_dripping_clients_block_nobody(tmp_path):
    """As many as there are places and more, each with a byte now and then: others are answered all the while."""
    with over_tcp(tmp_path) as (port, token_file):
        token = token_file.read_text().strip()
        drips = []
        for number in range(400):
            drips.append(connected(port))
            head = "GET /sta" if number % 2 else f"PUT /policy HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthor"
            drips[-1].sendall(head.encode())
        for _ in range(5):
            assert ask(port, "GET", "/status", token)[0] == 200
            for drip in drips:
                with contextlib.suppress(OSError):
                    drip.send(b"t")
        assert client.status(tmp_path / "rest.sock").clients == 0
        last = drips[-1]
        last.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody waited for its time to be over
            last.recv(1)
        # It is told in the end, however steadily it drips.
        until_s = time.monotonic() + LIMIT_S
        last.settimeout(0.2)
        answer = b""
        while not answer and time.monotonic() < until_s:
            with contextlib.suppress(TimeoutError, BrokenPipeError):
                last.send(b"t")
                answer = last.recv(4096)
        assert b" 408 " in answer.split(b"\r\n")[0]
        for drip in drips:
            drip.close()


def test_the_description_is_served_and_is_the_one_that_ships(untouched_controller):
    answer = raw(untouched_controller, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == json.loads((DOCS / "openapi.json").read_text())


def test_what_is_hardly_http_is_never_an_error_of_ours(untouched_controller):
    for request in (
        b"GET / HTTP/9.9\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /status HTTP/1.1\r\n: x\r\n\r\n",
    ):
        first = raw(untouched_controller, request).split(b"\r\n")[0]
        assert first == b"" or first.split()[1].startswith((b"2", b"4")), (request, first)


def ask(port, method, path, token, headers=None, policy=None):
    """(status, headers, body) of a request over TCP with `token`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    body = None if policy is None else json.dumps({"policy": policy})
    shown = {} if not token else {"Authorization": f"Bearer {token}".encode()}
    connection.request(method, path, body, shown | (headers or {}))
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    return answer.status, answer.headers, said


def connected(port):
    """A connection to `port` of this machine; None while nobody listens there."""
    with contextlib.suppress(ConnectionRefusedError):
        return socket.create_connection(("127.0.0.1", port), LIMIT_S)


@pytest.mark.parametrize("arguments", [("--hosts", "none.json"), ("--rest-listen", "8080")], ids=" ".join)
def test_what_does_not_go_together_is_bad_input(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    assert main(["--socket", "c.sock", "--learn", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_policy_that_there_is_not_is_bad_input(tmp_path, free_port):
    with start(None, tmp_path / "c.sock", free_port, "ryu", "--policy", "nope") as process:
        code, stderr = ends_with(process)
    assert code == 2, stderr
    assert len(stderr.splitlines()) == 1, stderr
