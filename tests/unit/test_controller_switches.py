"""Switches, and who pretends to be one, at a real controller's OpenFlow port, on both frameworks."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys

import pytest

from controller import client
from controller.launch import FRAMEWORKS
from controller.local_peer import is_loopback, local_uid
from controller.openflow_server import tls_context
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.addressing import dpid
from echelonflow.records.network_file import write_network
from echelonflow.wire.messages import Begin, Event, Hello, decode, encode
from tests.unit.speaking_switch import SpeakingSwitch
from tests.unit.test_controller_main import LIMIT_S, connect, serving, unused_port
from tests.waiting import wait_until

NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e8})
S1 = dpid(NETWORK, "s1")


@contextlib.contextmanager
def controller(folder, framework, *more):
    """A controller of one switch and two hosts: its OpenFlow port and its REST socket."""
    write_network(folder / "network.json", NETWORK)
    port = unused_port()
    with serving(folder / "network.json", folder / "control.sock", port, framework, *more):
        yield port, folder / "rest.sock"


def ready(rest):
    return client.status(rest).switches.ready


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_second_switch_of_a_known_id_is_refused_and_the_first_keeps_its_rules(tmp_path, framework):
    with controller(tmp_path, framework) as (port, rest):
        runner, told = connect(tmp_path / "control.sock")
        begin = Begin("r", "fair", "priority", 1, str(tmp_path / "d.jsonl"))
        runner.sendall(encode(Hello("runner", "")) + encode(begin))
        assert decode(told.readline()) == Event("begun", "r")
        first = SpeakingSwitch(port, S1)
        assert first.ready.wait(LIMIT_S)
        wait_until(lambda: ready(rest) == ("s1",), LIMIT_S, "the first switch")
        rules = first.flow_mods
        assert rules > 3
        second, unknown = SpeakingSwitch(port, S1), SpeakingSwitch(port, 0xBAD)
        for intruder in (second, unknown):
            assert intruder.ended.wait(LIMIT_S)
            assert intruder.flow_mods == 0
        assert not first.ended.is_set()
        assert (first.flow_mods, ready(rest)) == (rules, ("s1",))
        events = [decode(told.readline()) for _ in range(3)]
        assert sorted(event.what for event in events) == ["refused", "refused", "switches"]
        assert any("connected already" in event.detail for event in events)
        assert client.status(rest).run.failed is False
        first.close()
        wait_until(lambda: not ready(rest), LIMIT_S, "the loss of the switch")
        again = SpeakingSwitch(port, S1)  # and its own id is no longer taken
        assert again.ready.wait(LIMIT_S)
        again.close()
        for end in (runner, told, second, unknown):
            end.close()


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_is_no_openflow_costs_nobody_anything(tmp_path, framework):
    with controller(tmp_path, framework) as (port, rest):
        switch = SpeakingSwitch(port, S1)
        assert switch.ready.wait(LIMIT_S)
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        for data in (os.urandom(4096), b"GET / HTTP/1.1\r\n\r\n", bytes(8), b"\x04\x0e\x00\x08\x00\x00\x00\x01" * 1000):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(data)
        late = SpeakingSwitch(port, S1)
        assert late.ended.wait(LIMIT_S)  # it is heard, and refused, while a hundred others say nothing
        assert ready(rest) == ("s1",)
        assert not switch.ended.is_set()
        for end in (*silent, switch, late):
            end.close()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_user_of_the_machine_cannot_pretend_to_be_a_switch(tmp_path):
    with controller(tmp_path, FRAMEWORKS[0]) as (port, _rest):
        script = (
            "import os, socket, sys\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.settimeout(20)\n"
            "print('heard' if s.recv(8) else 'refused')\n"
        )
        done = subprocess.run([sys.executable, "-c", script, str(port)], capture_output=True, text=True, check=False)
        assert done.stdout.strip() == "refused", done.stderr
        switch = SpeakingSwitch(port, S1)
        assert switch.ready.wait(LIMIT_S)
        switch.close()


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, a controller's and a switch's certificate, and the certificate of somebody whom it does not know."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "stranger"):
        openssl(
            "req",
            "-x509",
            *curve,
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
            "-subj",
            f"/CN={name}",
            "-days",
            "2",
        )
    for name in ("controller", "switch"):
        openssl("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{name}.pem", "-days", "2")  # fmt: skip
    return folder


def secured_by(folder, name):
    def secure(connection):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(folder / "ca.pem")
        if name is not None:
            context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        return context.wrap_socket(connection)

    return secure


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_by_tls_a_switch_shows_a_certificate(tmp_path, framework, certificates):
    options = [str(certificates / name) for name in ("controller.key", "controller.pem", "ca.pem")]
    with controller(tmp_path, framework, "--openflow-tls", *options) as (port, rest):
        silent = socket.create_connection(("127.0.0.1", port))
        refused = [
            SpeakingSwitch(port, S1),
            SpeakingSwitch(port, S1, secured_by(certificates, None)),
            SpeakingSwitch(port, S1, secured_by(certificates, "stranger")),
        ]
        for stranger in refused:
            assert stranger.ended.wait(LIMIT_S)
            assert not stranger.ready.is_set()
        assert ready(rest) == ()
        switch = SpeakingSwitch(port, S1, secured_by(certificates, "switch"))
        assert switch.ready.wait(LIMIT_S)
        wait_until(lambda: ready(rest) == ("s1",), LIMIT_S, "the switch")
        second = SpeakingSwitch(port, S1, secured_by(certificates, "switch"))
        assert second.ended.wait(LIMIT_S)
        assert (second.flow_mods, switch.ended.is_set()) == (0, False)
        for end in (*refused, switch, second, silent):
            end.close()
        wait_until(lambda: not ready(rest), LIMIT_S, "the loss of the switch")


def test_certificates_that_cannot_be_used_are_one_message(certificates, tmp_path):
    right = [certificates / name for name in ("controller.key", "controller.pem", "ca.pem")]
    assert tls_context(*right).verify_mode == ssl.CERT_REQUIRED
    with pytest.raises(InputError, match="there is no such file"):
        tls_context(tmp_path / "none", *right[1:])
    with pytest.raises(InputError, match="cannot be used"):
        tls_context(certificates / "switch.key", *right[1:])
    (tmp_path / "empty").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        tls_context(*right[:2], tmp_path / "empty")


# Whose is a connection


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_kernel_says_whose_a_connection_on_loopback_is(family):
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    with server, socket.create_connection(server.getsockname()[:2]) as there:
        here, _ = server.accept()
        with here:
            assert local_uid(here) == os.geteuid()
            assert is_loopback(here)
            assert there
