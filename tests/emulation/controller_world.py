"""A small private network under the real controller: `python -m tests.emulation.controller_world RYU|OS-KEN DIR`.

Must be process 1 of its own network, mount and pid namespaces. Two switches of a private userspace Open
vSwitch, four hosts, and the agents' side of the control protocol played by hand. Prints one JSON object:
the marks that packets carried, and how long after an agent's event the new mark was seen.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from controller.launch import controller_argv
from echelonflow.model import topologies
from echelonflow.model.addressing import dpid, host_address, switch_ports
from echelonflow.records.network_file import write_network
from echelonflow.scheduling.kernels import PLAIN_VARIABLE
from echelonflow.wire import unix_socket
from echelonflow.wire.classes import dscp_of_class
from echelonflow.wire.declare import DATA_PORT, FIRST_SOURCE_PORT
from echelonflow.wire.line import Line
from echelonflow.wire.messages import (
    Begin,
    Decide,
    Declare,
    Done,
    End,
    Event,
    Finish,
    FlowDeclaration,
    Hello,
    Ready,
    Release,
    Start,
)
from tests.waiting import lives

FLOWS = 20
CLAIMED_TOS = 46 << 2
DECIDED = dscp_of_class(3)
"""Of a new flow that is alone: it leaves classes above it."""
LIMIT_S = 30.0
"""Far more than anything takes: the machine may be busy with other things."""
CLONE_NEWNET = 0x40000000


def run(*argv: str, **options: object) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


@contextlib.contextmanager
def inside(host):
    """Sockets made in the block belong to the host's network namespace, for as long as they live."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/self/ns/net").open() as home, Path(f"/run/netns/{host}").open() as away:
        assert libc.setns(away.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            assert libc.setns(home.fileno(), CLONE_NEWNET) == 0


class Client:
    """A client of the coordinator that waits for what it expects, and for its start as long as `controller` lives."""

    def __init__(self, path, client, host, controller):
        self.line = Line(unix_socket.connect(path, LIMIT_S, lambda: lives(controller)))
        self.say(Hello(client, host))

    def say(self, *messages):
        self.line.send(*messages)

    def expect(self, kind, what=None):
        while True:
            message = self.line.wait(LIMIT_S)
            if isinstance(message, kind) and what in (None, getattr(message, "what", None)):
                return message
            assert message is not None, f"no {kind.__name__} within {LIMIT_S} s"
            assert not (isinstance(message, Event) and message.what in ("fault", "lost")), message


def retry(action, process):
    """What `action` returns once it succeeds; its error after `LIMIT_S`, or when `process` has ended."""
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        ended = process.poll() is not None
        try:
            return action()
        except (OSError, AssertionError):
            if ended or time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)


class Sniffer(threading.Thread):
    """Every TCP packet that arrives on a host's interface: (monotonic time, source port, target port, DSCP)."""

    def __init__(self, network, host):
        super().__init__(daemon=True)
        self.seen = []
        with inside(host):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
            self.socket.bind((host_address(network, host).interface, 0))
        self.start()

    def run(self):
        while True:
            frame, address = self.socket.recvfrom(256)
            now_s = time.monotonic()
            if address[2] == socket.PACKET_OUTGOING or frame[23] != 6:
                continue
            header = (frame[14] & 15) * 4
            self.seen.append((now_s, *struct.unpack_from("!HH", frame, 14 + header), frame[15] >> 2))

    def packets(self, source_port=None, target_port=None):
        return [
            (time_s, dscp)
            for time_s, source, target, dscp in self.seen[:]
            if source_port in (None, source) and target_port in (None, target)
        ]


def start_switches(network, folder):
    os.environ["OVS_RUNDIR"] = os.environ["OVS_LOGDIR"] = os.environ["OVS_DBDIR"] = str(folder)
    database = folder / "conf.db"
    run("ovsdb-tool", "create", str(database), "/usr/share/openvswitch/vswitch.ovsschema")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    remote = f"unix:{folder}/db.sock"
    server = subprocess.Popen(["ovsdb-server", str(database), f"--remote=p{remote}", "--no-chdir"], **quiet)
    retry(lambda: run("ovs-vsctl", f"--db={remote}", "--no-wait", "init"), server)
    daemon = subprocess.Popen(["ovs-vswitchd", remote, "--no-chdir"], **quiet)
    for cable in network.cables:
        ends = [interface(network, a, b) for a, b in ((cable.a, cable.b), (cable.b, cable.a))]
        run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
    for switch in network.switches:
        words = ["ovs-vsctl", f"--db={remote}", "add-br", switch, "--", "set", "bridge", switch]
        words += ["datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13"]
        words += [f"other-config:datapath-id={dpid(network, switch):016x}"]
        for number, link in switch_ports(network, switch).items():
            name = interface(network, switch, link.dst)
            run("ip", "link", "set", name, "up")
            run("ethtool", "-K", name, "tx", "off")
            words += ["--", "add-port", switch, name, "--", "set", "interface", name, f"ofport_request={number}"]
        run(*words, "--", "set-controller", switch, "tcp:127.0.0.1:6653")
    return daemon


def interface(network, node, neighbour):
    if node in network.hosts:
        return f"{node}-eth0"
    ports = switch_ports(network, node)
    return f"{node}-eth{next(number for number, link in ports.items() if link.dst == neighbour)}"


def start_hosts(network):
    run("mkdir", "-p", "/run/netns")
    addresses = [host_address(network, host) for host in network.hosts]
    for own in addresses:
        inner = ["ip", "-n", own.host]
        run("ip", "netns", "add", own.host)
        run("ip", "link", "set", own.interface, "netns", own.host)
        run(*inner, "link", "set", own.interface, "address", own.mac, "up")
        run(*inner, "address", "add", f"{own.ip}/8", "dev", own.interface)
        run("ip", "netns", "exec", own.host, "ethtool", "-K", own.interface, "tx", "off", "tso", "off", "gso", "off")
        for other in addresses:
            if other.host != own.host:
                run(*inner, "neigh", "add", other.ip, "lladdr", other.mac, "dev", own.interface)


def open_connections(network):
    """TCP connections of all flows, h1 to h3; the sender claims a mark that it has no right to."""
    with inside("h3"):
        listening = socket.create_server(("0.0.0.0", DATA_PORT))
    senders = []
    for i in range(FLOWS):
        with inside("h1"):
            sender = socket.socket()
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, CLAIMED_TOS)
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender.settimeout(LIMIT_S)
        sender.bind((host_address(network, "h1").ip, FIRST_SOURCE_PORT + i))
        sender.connect((host_address(network, "h3").ip, DATA_PORT))
        senders.append((sender, listening.accept()[0]))
    return senders


def measure(runner, agents, pair, sniffer, index):
    """Release a flow that is sending already; milliseconds until the receiver sees its new mark."""
    sender, receiver = pair
    name, port = f"f{index}", FIRST_SOURCE_PORT + index
    for _ in range(20):
        sender.send(b"x" * 100)
        time.sleep(0.001)
    time_s = time.monotonic()
    agents[0].say(Release("job", name, 0, time_s))
    agents[0].expect(Decide)
    decided_s = time.monotonic()
    while not (marked := [t for t, dscp in sniffer.packets(port) if dscp == DECIDED]):
        assert time.monotonic() - time_s < LIMIT_S, f"no packet of {name} with DSCP {DECIDED}"
        sender.send(b"x" * 100)
        time.sleep(0.0005)
    while sniffer.packets(port)[-1][1] != DECIDED:
        time.sleep(0.001)
    receiver.setblocking(False)
    agents[1].say(Finish("job", name, 0, time.monotonic()))
    return {
        "port": port,
        "before": sorted({dscp for t, dscp in sniffer.packets(port) if t < time_s}),
        "after": sorted({dscp for t, dscp in sniffer.packets(port) if t >= marked[0]}),
        "decided_ms": (decided_s - time_s) * 1e3,
        "marked_ms": (marked[0] - time_s) * 1e3,
    }


def main(framework: str, folder: Path) -> None:
    run("ip", "link", "set", "lo", "up")
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    switch_folder = Path("/run/ovs")
    switch_folder.mkdir()
    network = topologies.build("dumbbell", {"hosts": 4, "rate_bps": 1e8})
    deep = folder / ("deep" * 20) / ("deeper" * 20)
    deep.mkdir(parents=True)
    path = deep / "control.sock"
    write_network(folder / "network.json", network)
    argv = controller_argv(framework, folder / "network.json", path, folder / "controller.log")
    controller = subprocess.Popen(argv, env={**os.environ, PLAIN_VARIABLE: "1"})
    daemon = start_switches(network, switch_folder)
    start_hosts(network)
    runner = Client(path, "runner", "", controller)
    runner.expect(Event, "switches")
    runner.say(Begin("run0", "echelonflow", "priority", 2, str(folder / "decisions.jsonl")))
    runner.expect(Event, "begun")
    at_sender, at_receiver = Sniffer(network, "h1"), Sniffer(network, "h3")
    connections = open_connections(network)
    agents = [Client(path, "agent", host, controller) for host in ("h1", "h3")]
    flows = tuple(
        FlowDeclaration(f"f{i}", i, f"f{i}", "h1", "h3", 10**6, float(i), FIRST_SOURCE_PORT + i, DATA_PORT)
        for i in range(FLOWS)
    )
    agents[0].say(Declare("job", "g", "pp", 1.0, flows), Ready())
    agents[1].say(Ready())
    zero_s = agents[0].expect(Start).zero_s
    assert float(runner.expect(Event, "ready").detail) == zero_s
    time.sleep(max(zero_s - time.monotonic(), 0))
    measured = [measure(runner, agents, pair, at_receiver, i) for i, pair in enumerate(connections)]
    tables = {s: run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", s) for s in network.switches}
    for agent in agents:
        agent.say(Done())
    runner.expect(Event, "done")
    runner.say(End())
    runner.expect(Event, "ended")
    left = retry(lambda: _no_flow_rules(network), controller)
    (folder / "second").mkdir()
    runner.say(Begin("run1", "fair", "priority", 2, str(folder / "second" / "decisions.jsonl")))
    runner.expect(Event, "begun")
    daemon.kill()
    lost = [runner.line.wait(LIMIT_S).detail for _ in network.switches]
    controller.terminate()
    result = {
        "measured": measured,
        "acknowledgements": sorted({dscp for _, dscp in at_sender.packets(source_port=DATA_PORT)}),
        "flow_rules": {switch: text.count("priority=300") for switch, text in tables.items()},
        "flow_rules_after_end": left,
        "lost": sorted(lost),
        "exit": controller.wait(LIMIT_S),
        "socket_left": path.exists(),
    }
    print(json.dumps(result))


def _no_flow_rules(network):
    """Flow rules left on all switches; AssertionError while there are any."""
    tables = "".join(run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", s) for s in network.switches)
    assert "priority=300" not in tables
    return tables.count("priority=300")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
