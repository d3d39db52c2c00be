"""What the northbound tests do in a private world: `python -m tests.emulation.northbound_world FRAMEWORK DIR`.

The example's plain Mininet network under a controller that was told nothing but hosts' addresses. Prints
one JSON object of what was seen.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from mininet.log import setLogLevel

from controller import client
from controller.launch import controller_argv
from echelonflow.errors import RunError
from echelonflow.scheduling.kernels import PLAIN_VARIABLE
from echelonflow.wire.messages import Decide, Declare, FlowDeclaration, Ready, Release, Start
from examples.plain_mininet import make
from testbed import world
from testbed.openvswitch import PrivateOpenVSwitch
from tests.emulation.controller_world import Client
from tests.waiting import wait_until

LIMIT_S = 30.0
"""Far more than anything takes: the machine may be busy with other things."""
PORT = 5001
RECEIVE = """
import selectors, socket
ready = selectors.DefaultSelector()
server = socket.create_server(("", 5001))
ready.register(server, selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        if key.fileobj is server:
            ready.register(server.accept()[0], selectors.EVENT_READ)
        elif not key.fileobj.recv(1 << 16):
            ready.unregister(key.fileobj)
"""
SEND = """
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 46 << 2)
s.bind(('', int(sys.argv[1]))); s.connect(('10.0.0.3', 5001))
while True: s.send(b'x' * 100); time.sleep(0.002)
"""


class Sniffer(threading.Thread):
    """TCP packets that leave a switch port towards a host: (monotonic time, source port, DSCP)."""

    def __init__(self, interface):
        super().__init__(daemon=True)
        self.seen = []
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        self.socket.bind((interface, 0))
        self.start()

    def run(self):
        while True:
            frame, address = self.socket.recvfrom(256)
            if address[2] == socket.PACKET_OUTGOING and frame[12:14] == b"\x08\x00" and frame[23] == 6:
                (port,) = struct.unpack_from("!H", frame, 14 + (frame[14] & 15) * 4)
                self.seen.append((time.monotonic(), port, frame[15] >> 2))

    def marks(self, port, since_s):
        return [(t, dscp) for t, source, dscp in self.seen[:] if source == port and t >= since_s]


REACH = """
import socket, sys
for to in sys.argv[1:]:
    try:
        socket.create_connection((to, 5001), 3).close()
    except OSError as error:
        print(to, error)
"""


def unreached(net):
    """Pairs of hosts of which one cannot open a TCP connection to the other."""
    found = []
    for host in net.hosts:
        others = [other.IP() for other in net.hosts if other is not host]
        output, _ = host.popen([sys.executable, "-c", REACH, *others]).communicate(timeout=30)
        found += [f"{host.name} to {line}" for line in output.decode().splitlines()]
    return found


class Watch:
    """Waits for as long as the controller lives."""

    def __init__(self, controller, sniffer=None):
        self.controller = controller
        self.sniffer = sniffer

    def mark(self, port):
        """The mark that a flow's packets carry now."""
        since_s = time.monotonic()
        return self.until(lambda: self.sniffer.marks(port, since_s), f"packets from port {port}")[0][1]

    def until(self, condition, what):
        """What `condition` returns once it is true; it may fail while the controller is only starting."""

        def found():
            with contextlib.suppress(RunError):
                return condition()

        return wait_until(found, LIMIT_S, what, self.controller)


def flow_rules(switch):
    text = subprocess.run(
        ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", switch], capture_output=True, text=True, check=True
    ).stdout
    return text.count("priority=300")


def main(framework, folder):
    world.enter()
    setLogLevel("critical")
    path, rest = folder / "control.sock", folder / "rest.sock"
    addresses = {f"h{i}": f"10.0.0.{i}" for i in range(1, 5)}
    (folder / "hosts.json").write_text(json.dumps({"rate": "100 Mbit/s", "hosts": addresses}))
    argv = [*controller_argv(framework, None, path, folder / "controller.log"), "--hosts", str(folder / "hosts.json")]
    controller = subprocess.Popen(argv, env={**os.environ, PLAIN_VARIABLE: "1"})
    with contextlib.ExitStack() as stack:
        # Segmentation offload off: the example is plain Mininet, which does not know of it.
        ovs = stack.enter_context(PrivateOpenVSwitch(folder, folder, "auto", tso=False))
        net = make("user" if ovs.datapath == "userspace" else "kernel", 6653)
        net.start()
        stack.callback(net.stop)
        everyone = len(net.switches)
        Watch(controller).until(lambda: len(client.status(rest).switches.ready) == everyone, "all switches")
        print(json.dumps(observe(net, rest, path, ovs, controller)))
    controller.terminate()
    controller.wait(LIMIT_S)


def observe(net, rest, path, ovs, controller):
    """Pings, marks before and after swaps, and a switch that goes and comes back."""
    children = [host.popen([sys.executable, "-c", RECEIVE]) for host in net.hosts]
    time.sleep(1.0)
    found = {"unreached": unreached(net)}
    watch = Watch(controller, Sniffer(net["s3"].intf("s3-eth2").name))
    children += [net["h1"].popen([sys.executable, "-c", SEND, str(port)]) for port in (10_000, 10_001)]
    found["undeclared"] = watch.mark(10_000)
    before = shown(net)
    time.sleep(0.5)
    found["shown"] = shown(net) - before
    trainer = Client(path, "trainer", "h1", controller)
    flows = tuple(FlowDeclaration(f"f{i}", i, f"f{i}", "h1", "h3", 10**8, float(i), 10_000 + i, PORT) for i in (0, 1))
    trainer.say(Declare("job", "g", "k", 1.0, flows), Ready())
    zero_s = trainer.expect(Start).zero_s
    time.sleep(max(zero_s - time.monotonic(), 0))
    trainer.say(*(Release("job", f"f{i}", 0, time.monotonic()) for i in (0, 1)))
    trainer.expect(Decide)
    time.sleep(0.1)
    found["echelonflow"] = [watch.mark(port) for port in (10_000, 10_001)]
    client.set_policy(rest, "fair")
    time.sleep(0.1)
    found["fair"] = [watch.mark(port) for port in (10_000, 10_001)]
    client.set_policy(rest, "echelonflow")
    time.sleep(0.1)
    found["echelonflow_again"] = [watch.mark(port) for port in (10_000, 10_001)]
    found["rules"] = {s.name: flow_rules(s.name) for s in net.switches}
    # A switch that loses its controller keeps forwarding; one that comes back empty gets everything again.
    ovs.vsctl("del-controller", "s2")
    watch.until(lambda: "0000000000000002" not in client.status(rest).switches.connected, "the loss of s2")
    subprocess.run(["ovs-ofctl", "-O", "OpenFlow13", "del-flows", "s2"], check=True)
    assert flow_rules("s2") == 0
    client.set_policy(rest, "fair")
    ovs.vsctl("set-controller", "s2", "tcp:127.0.0.1:6653")
    watch.until(lambda: "0000000000000002" in client.status(rest).switches.ready, "the return of s2")
    found["rules_back"] = flow_rules("s2")
    time.sleep(0.3)
    found["fair_after_return"] = [watch.mark(port) for port in (10_000, 10_001)]
    found["unreached_after_return"] = unreached(net)
    trainer.line.close()
    watch.until(lambda: flow_rules("s2") == 0, "the end of the client's rules")
    found["rules_after_client"] = flow_rules("s1") + flow_rules("s2") + flow_rules("s3")
    for child in children:
        child.kill()
        child.wait()
    return found


def shown(net):
    """Packets that switches have shown the controller so far: those that missed table 1."""
    total = 0
    for switch in net.switches:
        text = subprocess.run(
            ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", switch.name, "table=1"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        total += sum(
            int(line.split("n_packets=")[1].split(",")[0]) for line in text.splitlines() if "CONTROLLER" in line
        )
    return total


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
