"""Who may be a client, and how much one may say: without a process, on sockets that nobody serves."""

from __future__ import annotations

import itertools
import os
import socket
import stat
from dataclasses import dataclass, field

import pytest

from controller import gate
from controller.clients import Client, Clients
from controller.gate import Allowance, Gate
from controller.sockets import hung_up, listening_socket, peer_uid
from echelonflow.errors import InputError, RunError
from echelonflow.files import write_private
from echelonflow.records import tokens_file
from echelonflow.wire.messages import Fault, Hello, Ready, decode, encode

OWN = frozenset({0})
TOKENS = tokens_file.make_tokens(["h1", "h2"])


@pytest.mark.parametrize("hello", [Hello("a", "h1", token=TOKENS["h2"]), Hello("a", "h1"), Hello("a", "h9"), Hello("r", "", token=TOKENS["h1"])])  # fmt: skip
def test_a_host_is_claimed_by_its_own_token_alone(hello):
    with pytest.raises(InputError, match=r"the token of .* is missing or wrong"):
        Gate(OWN, OWN, TOKENS).admit(hello, 0, None)


@pytest.mark.parametrize("host", ["h1", "h2", ""])
def test_a_token_lets_its_host_in_and_is_not_passed_on(host):
    admitted = Gate(OWN, OWN, TOKENS).admit(Hello("a", host, token=TOKENS[host]), 0, None)
    assert admitted == Hello("a", host)
    assert TOKENS[host].encode() not in encode(admitted)


def test_a_host_that_is_spoken_for_cannot_be_claimed_again_unless_hosts_are_shared():
    with pytest.raises(InputError, match="host 'h1' is spoken for by 'trainer' already"):
        Gate(OWN, OWN).admit(Hello("a", "h1"), 0, "trainer")
    assert Gate(OWN, OWN, shared=True).admit(Hello("a", "h1"), 0, "trainer").host == "h1"
    with pytest.raises(InputError, match="another runner is connected"):
        Gate(OWN, OWN, shared=True).admit(Hello("r", ""), 0, "runner")


def test_a_user_that_is_let_in_is_not_the_runner():
    """A runner names files that are run and folders that are written to, as the controller's user."""
    allowing = Gate(frozenset({0, 1000}), OWN)
    assert allowing.admit(Hello("a", "h1"), 1000, None).host == "h1"
    with pytest.raises(InputError, match="user 1000 may not be the runner"):
        allowing.admit(Hello("r", ""), 1000, None)
    assert allowing.refusal(1000) is None
    assert "--allow-uid 1001" in allowing.refusal(1001)


def test_the_first_message_is_hello():
    with pytest.raises(InputError, match="say Hello before Ready"):
        Gate(OWN, OWN).admit(Ready(), 0, None)


def test_who_sends_faster_than_allowed_is_read_more_slowly():
    allowance = Allowance()
    assert allowance.pause_s(gate.MOST_MESSAGES_AT_ONCE, 0, 100.0) == 0.0
    assert allowance.pause_s(gate.MESSAGES_PER_S, 0, 100.0) == pytest.approx(1.0)
    assert allowance.pause_s(0, 0, 101.0) == 0.0
    assert allowance.pause_s(0, gate.MOST_BYTES_AT_ONCE + 2 * gate.BYTES_PER_S, 200.0) == pytest.approx(2.0)


# Files of tokens


def test_tokens_are_written_for_the_owner_alone_whatever_the_umask(tmp_path):
    path = tmp_path / "tokens.json"
    before = os.umask(0)
    try:
        tokens_file.write_tokens(path, TOKENS)
        tokens_file.write_tokens(path, TOKENS)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tokens_file.read_tokens(path) == TOKENS
    assert [other.name for other in tmp_path.iterdir()] == ["tokens.json"]


def test_a_link_that_was_laid_there_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / f".tokens.json.{os.getpid()}.part").symlink_to(tmp_path / "victim")
    tokens_file.write_tokens(tmp_path / "tokens.json", TOKENS)
    assert (tmp_path / "victim").read_text() == "untouched"


def test_tokens_that_others_may_read_or_guess_are_refused(tmp_path):
    path = tmp_path / "tokens.json"
    tokens_file.write_tokens(path, TOKENS)
    path.chmod(0o640)
    with pytest.raises(InputError, match=r"others may read it \(mode 640\).*chmod 600"):
        tokens_file.read_tokens(path)
    tokens_file.write_tokens(path, {"h1": "short"})
    with pytest.raises(InputError, match="the token of h1 has 5 characters"):
        tokens_file.read_tokens(path)
    write_private(path, b"with spaces in it is not one\n")
    with pytest.raises(InputError, match="printable ASCII without spaces"):
        tokens_file.read_token(path)
    with pytest.raises(InputError, match="No such file"):
        tokens_file.read_token(tmp_path / "none")
    with pytest.raises(InputError, match="is not a file"):
        tokens_file.read_token(tmp_path)


# Sockets


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_the_mode_of_a_socket_does_not_depend_on_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        with listening_socket(tmp_path / "x.sock", mode):
            assert stat.S_IMODE((tmp_path / "x.sock").stat().st_mode) == mode
            assert os.umask(umask) == umask
    finally:
        os.umask(before)


def test_a_socket_has_its_mode_from_the_first_and_no_other_file_gets_it(tmp_path, monkeypatch):
    """Who may write to the folder could put a link in the socket's place before its path is given a mode."""
    (tmp_path / "secret").touch(mode=0o600)
    modes, unlink = [], os.unlink
    bind = socket.socket.bind

    class Swapped(socket.socket):
        def bind(self, address):
            bind(self, address)
            modes.append(stat.S_IMODE((tmp_path / "x.sock").stat().st_mode))
            unlink(tmp_path / "x.sock")
            (tmp_path / "x.sock").symlink_to("secret")

    monkeypatch.setattr("controller.sockets.socket.socket", Swapped)
    with listening_socket(tmp_path / "x.sock", 0o666):
        pass
    assert modes == [0o666]
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_a_folder_that_is_not_there_is_one_message(tmp_path):
    with pytest.raises(RunError, match="No such file"), listening_socket(tmp_path / "none" / "x.sock"):
        pass


def test_the_kernel_says_who_is_there_and_whether_still(monkeypatch):
    monkeypatch.setattr(os, "write", None)  # the event loop's own waits, and two may not wait for one socket
    here, there = socket.socketpair()
    assert peer_uid(here) == os.geteuid()
    there.send(b"unread")
    assert not hung_up(here)
    there.close()
    assert hung_up(here)
    here.close()
    assert hung_up(here)


def test_a_tcp_connection_that_the_other_end_has_closed_is_seen():
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = socket.create_connection(server.getsockname())
        here, _ = server.accept()
    assert not hung_up(here)
    there.close()
    while not hung_up(here):  # the end arrives by loopback
        pass
    here.close()


# Clients that are not read yet


@dataclass
class FakeFramework:
    alarms: list = field(default_factory=list)

    def spawn(self, function, *args):
        pass

    def spawn_after(self, delay_s, function):
        self.alarms.append((delay_s, function))

    def sleep(self, delay_s):
        pass

    def queue(self, limit):
        return FakeQueue()


class FakeQueue(list):
    def put_nowait(self, line):
        self.append(line)


@dataclass
class Hearer:
    clients: Clients | None = None
    told: list = field(default_factory=list)

    def heard(self, client, line):
        self.told.append((client.number, line))

    def refused(self, client, reason):
        self.told.append((client.number, reason))
        self.clients.end(client)

    def gone(self, client):
        self.told.append((client.number, "gone"))


@pytest.fixture
def clients():
    hearer = Hearer()
    own = frozenset({os.geteuid()})
    hearer.clients = Clients(FakeFramework(), Gate(own, own), hearer, itertools.count(step=0.1).__next__)
    return hearer.clients


@pytest.fixture
def connect(clients):
    there = []

    def connected():
        ours, theirs = socket.socketpair()
        there.extend((ours, theirs))
        clients._welcome(ours)
        return theirs

    yield connected
    for end in there:
        end.close()


def test_who_says_nothing_is_sent_away_in_time(clients, connect):
    connect()
    connect()
    clients.admit(clients.by_number[2], Hello("a", "h1"))
    for delay_s, look in clients.framework.alarms:
        assert delay_s == gate.HELLO_LIMIT_S
        look()
    assert clients.hearer.told == [(1, "Hello was not said within 10 s")]
    assert clients.by_number[1].ended
    assert not clients.by_number[2].ended


def test_of_too_many_who_say_nothing_the_one_who_waited_longest_gives_way(clients, connect):
    for _ in range(gate.MOST_UNKNOWN + 1):
        connect()
    assert [number for number, _ in clients.hearer.told] == [1]
    assert not clients.by_number[gate.MOST_UNKNOWN + 1].ended


def test_there_is_a_most_of_clients(clients, connect, monkeypatch):
    monkeypatch.setattr(gate, "MOST_CLIENTS", 1)
    connect()
    connect()
    assert list(clients.by_number) == [1]


def test_the_claim_of_a_host_ends_with_the_connection_even_before_its_end_was_read(clients, connect):
    first = connect()
    clients.admit(clients.by_number[1], Hello("first", "h1"))
    connect()
    with pytest.raises(InputError, match="spoken for by 'first'"):
        clients.admit(clients.by_number[2], Hello("second", "h1"))
    first.close()
    clients.framework.sleep = lambda _: clients._forget(clients.by_number[1])
    assert clients.admit(clients.by_number[2], Hello("second", "h1")).client == "second"
    assert clients.hearer.told == [(1, "gone")]


def test_a_line_without_end_and_a_hello_that_is_too_long_are_refused(clients, connect):
    theirs = connect()
    theirs.send(b"x" * (gate.LONGEST_HELLO_BYTES + 1))
    clients._read(clients.by_number[1])
    assert clients.hearer.told[0] == (1, "a line is longer than 4096 bytes")
    theirs = connect()
    theirs.send(b"x" * (gate.LONGEST_HELLO_BYTES + 1) + b"\n" + b"y\n")
    clients._read(clients.by_number[2])
    assert clients.hearer.told[2] == (2, "a line is longer than 4096 bytes")
    assert (2, b"y") not in clients.hearer.told


def test_a_fault_is_the_last_that_a_client_hears_but_not_the_runner(clients, connect):
    for number, host in ((1, "h1"), (2, "")):
        connect()
        client = clients.by_number[number]
        clients.admit(client, Hello("c", host))
        clients.send(client, Fault("no"))
        clients.send(client, Ready())
    assert [line and decode(line) for line in clients.by_number[1].outgoing] == [Fault("no"), None]
    assert [line and decode(line) for line in clients.by_number[2].outgoing] == [Fault("no"), Ready()]


def test_who_does_not_read_is_cut_off_by_bytes(clients, monkeypatch):
    ours, theirs = socket.socketpair()
    client = Client(1, ours, FakeQueue())
    monkeypatch.setattr(gate, "MOST_UNSENT_BYTES", 100)
    for _ in range(10):
        clients.send(client, Ready())
    assert client.ended
    assert theirs.recv(1) == b""
    assert len(client.outgoing) < 10
    ours.close()
    theirs.close()
