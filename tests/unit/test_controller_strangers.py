"""Strangers and broken clients at a real controller's control socket: each costs itself the connection, and nobody else."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

import pytest

from controller import client
from echelonflow.records.tokens_file import RUNNER, make_tokens, write_tokens
from echelonflow.wire import unix_socket
from echelonflow.wire.messages import (
    Begin,
    Decide,
    Declare,
    Fault,
    Finish,
    FlowDeclaration,
    Hello,
    Progress,
    Ready,
    Release,
    Start,
    decode,
    encode,
)
from tests.unit.test_controller_main import LIMIT_S, connect, serving, unused_port

pytestmark = pytest.mark.slow  # every test needs a controller

HOSTS = {f"h{i}": f"10.0.0.{i}" for i in range(1, 5)}
TOKENS = make_tokens(HOSTS)
NOBODY = 65534
FLOWS = tuple(FlowDeclaration(f"f{i}", i, f"f{i}", "h1", "h2", 10**6, float(i), 10_000 + i, 5001) for i in range(2))
GROUP = Declare("job", "g", "k", 1.0, FLOWS)


@contextlib.contextmanager
def standing(folder, *more):
    """A standing controller that learns: the path of its control socket."""
    (folder / "hosts.json").write_text(json.dumps({"rate": "8 Mbit/s", "hosts": HOSTS}))
    path = folder / "control.sock"
    with serving(
        None,
        path,
        unused_port(),
        "ryu",
        "--hosts",
        str(folder / "hosts.json"),
        "--log-file",
        str(folder / "log"),
        *more,
    ):
        yield path


@pytest.fixture(scope="module")
def control(tmp_path_factory):
    """A controller with tokens, for tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("controller")
    write_tokens(folder / "tokens.json", TOKENS)
    with standing(folder, "--tokens", str(folder / "tokens.json")) as path:
        yield path


def hello(host):
    return Hello("agent", host, token=TOKENS[host])


class Client:
    def __init__(self, path, *messages):
        self.socket, self.lines = connect(path)
        self.say(*messages)

    def say(self, *messages):
        with contextlib.suppress(BrokenPipeError):
            self.socket.sendall(b"".join(m if isinstance(m, bytes) else encode(m) for m in messages))

    def hear(self, kind):
        message = decode(self.lines.readline())
        assert isinstance(message, kind), message
        return message

    def is_thrown_out(self):
        """Why: the last that it hears."""
        reason = self.hear(Fault).reason
        with contextlib.suppress(ConnectionResetError):
            assert self.lines.readline() == b""
        self.close()
        return reason

    def close(self):
        self.lines.close()
        self.socket.close()


@pytest.fixture
def trainer(control):
    """A client whose flow is in flight while others misbehave; in the end all that it says still counts."""
    trainer = Client(control, hello("h1"), GROUP, Ready())
    time.sleep(max(trainer.hear(Start).zero_s - time.monotonic(), 0.0))
    trainer.say(Release("job", "f0", 0, time.monotonic()))
    assert [s.flow for s in trainer.hear(Decide).settings] == ["f0"]
    yield trainer
    trainer.say(Progress("job", "f0", 0, 500_000), Release("job", "f1", 0, time.monotonic()))
    assert "f1" in [s.flow for s in trainer.hear(Decide).settings]
    found = client.status(control.with_name("rest.sock"))
    assert (found.run.failed, found.run.flows_in_flight) == (False, 2)
    trainer.close()


def declaration(**changes):
    flow = {"flow": "x", "index": 9, "coflow": "x", "src_host": "h3", "dst_host": "h4", "size_bytes": 10}
    flow |= {"offset_s": 0.0, "src_port": 20_000, "dst_port": 5001} | changes
    group = {"type": "declare", "job": "other", "group": "g", "kind": "k", "weight": 1.0, "flows": [flow]}
    return json.dumps(group).encode() + b"\n"


BAD = {
    "2^63 bytes": declaration(size_bytes=1 << 63),
    "a size in the thousands of digits": declaration(size_bytes=10**4000),
    "a host that there is not": declaration(src_host="h99"),
    "a flow that is declared": encode(Declare("job", "h", "k", 1.0, FLOWS)),
    "progress of 10^400": b'{"type":"progress","job":"job","flow":"f0","iteration":0,"sent_bytes":1%s}\n'
    % (b"0" * 400),
    "not a number": b'{"type":"release","job":"job","flow":"f0","iteration":0,"time_s":NaN}\n',
    "infinity": b'{"type":"release","job":"job","flow":"f0","iteration":0,"time_s":1e999}\n',
    "a list for a type": b'{"type":[]}\n',
    "nesting": b"[" * 50_000 + b"\n",
    "nesting in a message": b'{"type":"ready","x":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n",
    "binary": bytes(range(256)) + b"\n",
    "nothing": b"\n",
    "a flow that there is not": encode(Release("job", "none", 0, 1.0)),
    "an end that only another can know": encode(Finish("job", "f0", 0, 1.0)),
    "hello twice": encode(Hello("agent", "h3")),
    "an order": encode(Begin("r", "fair", "rate", 0, "/nowhere")),
    "an answer": encode(Start(0.0)),
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_a_bad_message_costs_its_sender_the_connection_and_nobody_else_anything(control, trainer, line):
    bad = Client(control, hello("h3"), line)
    assert bad.is_thrown_out()


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (Hello("impostor", "h2"), "token of host 'h2' is missing or wrong"),
        (Hello("impostor", "h2", token=TOKENS["h3"]), "token of host 'h2' is missing or wrong"),
        (Hello("impostor", "h1", token=TOKENS["h1"]), "host 'h1' is spoken for by 'agent' already"),
        (Hello("impostor", "", token=TOKENS["h3"]), "token of the runner is missing or wrong"),
        (Hello("impostor", "h9", token=TOKENS[RUNNER]), "token of host 'h9' is missing or wrong"),
        (Finish("job", "f0", 0, 1.0), "say Hello before Finish"),
        (b"x" * 5000, "longer than 4096 bytes"),
    ],
)
def test_an_impostor_is_told_so_and_changes_nothing(control, trainer, first, words):
    """Without tokens, an impostor at h2 could finish the trainer's flow."""
    impostor = Client(control, first, Finish("job", "f0", 0, time.monotonic()))
    assert words in impostor.is_thrown_out()


def test_what_an_impostor_adds_to_its_claim_does_not_count(control, trainer):
    impostor = Client(control, Hello("impostor", "h2"), Finish("job", "f0", 0, time.monotonic()), hello("h2"))
    impostor.is_thrown_out()


def test_a_flood_slows_nobody_but_its_sender(control, trainer):
    """Half a million messages: the trainer's next decision comes in time all the same."""
    flood = Client(control, hello("h3"))
    flood.socket.setblocking(False)
    line = encode(Ready()) * 1000
    sent, until_s = 0, time.monotonic() + LIMIT_S
    found_ms = []
    while len(found_ms) < 5 and time.monotonic() < until_s:  # how soon so much is sent is up to the machine
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            sent += flood.socket.send(line)
        if sent > len(line) * 20:
            began_s = time.monotonic()
            trainer.say(Ready())
            trainer.hear(Start)
            found_ms.append((time.monotonic() - began_s) * 1e3)
    assert sent > len(line) * 20
    assert max(found_ms) < 500, found_ms
    flood.close()


def test_the_place_of_a_client_that_was_killed_is_free_at_once(control):
    script = (
        "import os, signal, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode())\n"
        "s.recv(1); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    said = encode(hello("h4")) + encode(Ready())
    process = subprocess.Popen([sys.executable, "-c", script, str(control), said.decode()])
    process.wait(LIMIT_S)
    successor = Client(control, hello("h4"), Ready())
    successor.hear(Start)
    successor.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_is_heard_only_if_allowed(tmp_path):
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and not folder.stat().st_mode & 1:
            folder.chmod(folder.stat().st_mode | 0o011)
    allowed, other = NOBODY, NOBODY - 1
    with standing(tmp_path, "--allow-uid", str(allowed)) as path:
        assert '"type":"start"' in said_to(path, allowed, encode(Hello("t", "h1")) + encode(Ready()))
        assert "may not be the runner" in said_to(path, allowed, encode(Hello("r", "")))
        assert f"user {other} may not connect" in said_to(path, other, encode(Hello("t", "h2")))
        assert "PermissionError" in said_to(path.with_name("rest.sock"), allowed, b"")


def said_to(path, uid, data):
    """What a process of user `uid` hears first at the socket `path`, or what keeps it from it."""
    script = (
        "import os, socket, sys\n"
        "os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
        "s = socket.socket(socket.AF_UNIX); s.settimeout(20)\n"
        "try:\n"
        "    s.connect(sys.argv[1]); s.sendall(sys.argv[3].encode())\n"
        "except OSError as error: print(type(error).__name__)\n"
        "print(s.recv(4096).decode() if s else '')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(uid), data.decode()], capture_output=True, text=True, check=False
    )
    return done.stdout


def test_a_socket_of_many_silent_strangers_still_serves(control, trainer):
    silent = []
    for _ in range(200):
        silent.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        with unix_socket.short_address(control) as address:
            silent[-1].connect(address)
    late = Client(control, hello("h4"), Ready())
    late.hear(Start)
    late.close()
    for stranger in silent:
        stranger.close()
