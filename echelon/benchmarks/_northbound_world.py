"""Policy swaps seen in packets: `python -m echelon.benchmarks._northbound_world DIR TIMES`, in a private world.

Two hosts send to a third while the policy changes between one that gives their flows one class and one
that gives each its own. Prints a JSON list: milliseconds from the request to the first packet, at the
receiver's port, with a new mark. Either flow's may be the one that changes: those in flight are moved down rather than up.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from controller import client
from controller.launch import controller_argv
from echelon.benchmarks.northbound import ask, join
from echelonflow.errors import RunError
from echelonflow.model import topologies
from echelonflow.model.addressing import ip_of
from echelonflow.records.network_file import write_network
from echelonflow.wire.declare import DATA_PORT, FIRST_SOURCE_PORT
from echelonflow.wire.messages import Decide, Declare, FlowDeclaration, Ready, Release, Start
from testbed import world
from testbed.mininet_network import EmulatedNetwork
from testbed.openvswitch import PrivateOpenVSwitch

LIMIT_S = 10.0
POLICIES = ("fair", "echelonflow")
PACKET_EVERY_S = 0.001
SENDER = """
import socket, sys, time
s = socket.socket()
s.bind(("", int(sys.argv[1])))
s.connect((sys.argv[2], int(sys.argv[3])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True:
    s.send(bytes(100))
    time.sleep(float(sys.argv[4]))
"""
SINK = """
import selectors, socket, sys
ready = selectors.DefaultSelector()
server = socket.create_server(("", int(sys.argv[1])))
ready.register(server, selectors.EVENT_READ)
print("listening", flush=True)
while True:
    for key, _ in ready.select():
        if key.fileobj is server:
            ready.register(server.accept()[0], selectors.EVENT_READ)
        elif not key.fileobj.recv(65536):
            ready.unregister(key.fileobj)
"""


class Marks(threading.Thread):
    """The marks of some flows' packets as they leave the switch towards the receiver, with the time of the last change."""

    def __init__(self, interface: str, source_ports: Collection[int]) -> None:
        super().__init__(daemon=True)
        self.now: tuple[float, Mapping[int, int]] = 0.0, {}
        """When a mark changed last, and the mark of each flow by its source port."""
        self._source_ports = frozenset(source_ports)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.bind((interface, 0))
        self.start()

    def run(self) -> None:
        while True:
            frame = self._socket.recv(128)
            if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
                continue
            (source,) = struct.unpack_from("!H", frame, 14 + (frame[14] & 15) * 4)
            dscp = frame[15] >> 2
            _, marks = self.now
            if source in self._source_ports and marks.get(source) != dscp:
                self.now = time.monotonic(), {**marks, source: dscp}

    def change_from(self, marks: Mapping[int, int]) -> float:
        """When the marks were first others than `marks` (RunError if they stay)."""
        until_s = time.monotonic() + LIMIT_S
        while self.now[1] == marks:
            if time.monotonic() > until_s:
                raise RunError(f"no packet carried another mark than {dict(marks)} within {LIMIT_S:g} s")
            time.sleep(PACKET_EVERY_S)
        return self.now[0]


def main(folder: Path, times: int) -> list[float]:
    """Swap the policy `times` times; milliseconds each took."""
    world.enter()
    network = topologies.build("dumbbell", {"hosts": 4, "rate_bps": 1e8})
    write_network(folder / "network.json", network)
    control = folder / "control.sock"
    argv = [*controller_argv("ryu", folder / "network.json", control, folder / "log"), "--policy", POLICIES[0]]
    with subprocess.Popen(argv) as controller:
        try:
            with PrivateOpenVSwitch(folder, folder) as ovs, EmulatedNetwork(network, ovs) as net:
                _wait_for_switches(folder / "rest.sock", len(network.switches))
                return _swaps(net, folder / "rest.sock", control, times)
        finally:
            controller.terminate()


def _wait_for_switches(rest: Path, number: int) -> None:
    until_s = time.monotonic() + LIMIT_S
    while True:
        try:
            if len(client.status(rest).switches.ready) == number:
                return
        except RunError:
            if time.monotonic() > until_s:
                raise
        if time.monotonic() > until_s:
            raise RunError("the switches did not get their rules")
        time.sleep(0.05)


def _swaps(net: EmulatedNetwork, rest: Path, control: Path, times: int) -> list[float]:
    sources, receiver = ("h1", "h2"), "h3"
    flows = [
        FlowDeclaration(f"f{i}", i, f"f{i}", src, receiver, 10**9, float(i), FIRST_SOURCE_PORT + i, DATA_PORT)
        for i, src in enumerate(sources)
    ]
    sink = net.popen(receiver, [sys.executable, "-c", SINK, str(DATA_PORT)], stdout=subprocess.PIPE)
    assert sink.stdout is not None
    sink.stdout.readline()
    target = [ip_of(net.network, receiver), str(DATA_PORT), str(PACKET_EVERY_S)]
    for flow in flows:
        net.popen(flow.src_host, [sys.executable, "-c", SENDER, str(flow.src_port), *target])
    lines = [join(control, src) for src in sources]
    lines[0].send(Declare("job", "group", "benchmark", 1.0, tuple(flows)))
    for line, flow in zip(lines, flows, strict=True):
        zero = ask(line, Ready(), Start)
        time.sleep(max(zero.zero_s - time.monotonic(), 0.0))
        ask(line, Release("job", flow.flow, 0, time.monotonic()), Decide)
    switch = net.network.edge_switch[receiver]
    port = next(i.name for i in net.interfaces().values() if i.link.src == switch and i.link.dst == receiver)
    marks = Marks(port, [flow.src_port for flow in flows])
    time.sleep(0.5)
    found_ms = []
    for number in range(times):
        _, before = marks.now
        began_s = time.monotonic()
        client.set_policy(rest, POLICIES[(number + 1) % 2])
        found_ms.append((marks.change_from(before) - began_s) * 1e3)
        time.sleep(0.05)
    return found_ms


if __name__ == "__main__":
    result = main(Path(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps(result), flush=True)
    os._exit(0)  # threads that sniff do not end by themselves
