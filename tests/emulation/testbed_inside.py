"""What the testbed tests do inside a private world: `python testbed_inside.py SCENARIO DIR`, answers as JSON."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from echelonflow.model import addressing
from echelonflow.model.network import Cable
from echelonflow.model.topologies import leaf_spine, single_switch
from echelonflow.records.folder import RunFolder
from echelonflow.wire.classes import dscp_of_class
from testbed import socket_buffers, world
from testbed.calibrate import MAX_ERROR
from testbed.calibrator import Calibrator
from testbed.capture import PacketCapture
from testbed.class_meter import ClassMeter
from testbed.load import LoadSampler
from testbed.mininet_network import EmulatedNetwork
from testbed.openvswitch import PrivateOpenVSwitch

_LEAF_SPINE = leaf_spine.build(leaves=2, spines=2, hosts_per_leaf=2, rate_bps=50e6)
SMALL_LEAF_SPINE = dataclasses.replace(
    _LEAF_SPINE, cables=(*_LEAF_SPINE.cables, Cable("p1", "l1", 50e6, kind="fabric"))
)
"""One of its leaves has two cables to one of its spines."""
SENDER = """
import socket, sys
to, port, dscp = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with socket.create_connection((to, port)) as connection:
    connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    while True:
        connection.send(bytes(16384))
"""
RECEIVER = """
import socket, sys
with socket.create_server(("", int(sys.argv[1]))) as server:
    print("listening", flush=True)
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0xe0)
    received = 0
    while data := connection.recv(65536):
        received += len(data)
print(received, flush=True)
"""


def static_rules(net):
    """Forwarding by destination, as a controller would install it."""
    network = net.network
    for switch in network.switches:
        rules = []
        for host in network.hosts:
            towards = network.next_links(host).get(switch)
            if towards is not None:
                port = addressing.port_of(network, towards)
                rules.append(f"dl_dst={addressing.host_address(network, host).mac},actions=output:{port}")
        command = ["ovs-ofctl", "-O", "OpenFlow13", "add-flows", switch, "-"]
        subprocess.run(command, input="\n".join(rules) + "\n", text=True, check=True)


@contextlib.contextmanager
def emulated(folder, network, *, forwarding=True, **options):
    with (
        PrivateOpenVSwitch(folder, folder, **options) as ovs,
        EmulatedNetwork(network, ovs) as net,
    ):
        if forwarding:
            static_rules(net)
        yield net


def output(net, host, *argv):
    done = net.popen(host, argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.communicate(timeout=20)[0]


def addresses(folder):
    """What the interfaces of hosts and switches are called, and what they have."""
    network = SMALL_LEAF_SPINE
    with emulated(folder, network, forwarding=False) as net:
        shown = {
            host: json.loads(output(net, host, "ip", "-j", "address", "show", f"{host}-eth0"))[0]
            for host in network.hosts
        }
        ports = {
            switch: net.ovs.vsctl("get", "Bridge", switch, "datapath_id").strip().strip('"')
            for switch in network.switches
        }
        ping = net.popen("h1", ["ping", "-c", "1", "-W", "1", "10.0.0.2"], stdout=subprocess.DEVNULL).wait(10)
        found = {
            "hosts": {
                h: [s["ifname"], s["address"], s["mtu"], [a["local"] for a in s["addr_info"]]] for h, s in shown.items()
            },
            "dpids": {switch: int(dpid, 16) for switch, dpid in ports.items()},
            "numbers": net.ovs.vsctl("--columns=name,ofport", "--format=json", "list", "Interface"),
            "forwarded_without_rules": ping == 0,
            "route": output(net, "h1", "ip", "route"),
            "slow_start_after_idle": output(net, "h1", "cat", "/proc/sys/net/ipv4/tcp_slow_start_after_idle").strip(),
            "timestamps": output(net, "h1", "cat", "/proc/sys/net/ipv4/tcp_timestamps").strip(),
            "ipv6": output(net, "h1", "cat", "/proc/sys/net/ipv6/conf/all/disable_ipv6").strip(),
            "interfaces": sorted(net.interfaces()),
            "alive": net.switch_alive(),
            "packet_sockets": socket_buffers.enlarge(net.ovs.vswitchd_pid) if net.ovs.datapath == "userspace" else None,
        }
    found["left"] = sorted({path.name for path in Path("/sys/class/net").iterdir()} - {"lo"})
    found["run_dir_left"] = (folder / "openvswitch").exists()
    return found


def many_hosts(folder):
    """How long 16 hosts take to come up and go."""
    network = leaf_spine.build(leaves=4, spines=2, hosts_per_leaf=4, rate_bps=30e6)
    started_s = time.monotonic()
    with emulated(folder, network):
        pass
    return {"seconds": time.monotonic() - started_s}


def calibration(folder):
    """Each kind of link at low and high rates, with and without offload; low ones are given time to be well."""
    found = []
    for rate_bps, tso in ((50e6, True), (50e6, False), (1.5e9, True)):
        network = leaf_spine.build(leaves=2, spines=1, hosts_per_leaf=1, rate_bps=rate_bps)
        with emulated(folder, network, tso=tso) as net:
            max_error = MAX_ERROR if rate_bps < 1e9 else 1.0
            calibrator = Calibrator(net, max_error, runs_s=20.0, tell=lambda _: None, save=lambda _: None)
            calibrator.begin()
            links = calibrator.calibration.last.links
            found += [{**msgspec.to_builtins(link), "rate_bps": rate_bps, "tso": tso} for link in links]
    return found


def wait_until_sent(net, interface, class_, sender):
    """Return once an interface has sent something of a class; fail at once when its sender has ended."""
    give_up_s = time.monotonic() + 30
    while net.class_counters()[interface][class_].bytes < 1e5:
        if sender.poll() is not None:
            raise RuntimeError(f"the sender of class {class_} has ended: exit code {sender.returncode}")
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"{interface} has not sent class {class_} in 30 s")


def sent_within(net, interface, seconds):
    """Bytes that an interface sends by class in so many seconds, and in how many that really was."""
    begun, begun_s = net.class_counters()[interface], time.monotonic()
    time.sleep(seconds)
    ended = net.class_counters()[interface]
    return {"bytes": {c: ended[c].bytes - begun[c].bytes for c in ended}, "seconds": time.monotonic() - begun_s}


def classes(folder):
    """Two senders, one receiver: a high class against a low one; what counters, captures and load say of it."""
    network = single_switch.build(hosts=3, rate_bps=50e6)
    with emulated(folder, network) as net:
        files = RunFolder(folder)
        files.pcap.mkdir()
        capture = PacketCapture(net, ["h1", "h2", "h3"], files, "strict")
        load = LoadSampler(net.ovs.vswitchd_pid)
        before = net.class_counters()
        flows = {"h1": (6001, 2), "h2": (6002, 6)}
        receivers = {}
        for host, (port, _) in flows.items():
            argv = [sys.executable, "-c", RECEIVER, str(port)]
            receivers[host] = net.popen("h3", argv, stdout=subprocess.PIPE, text=True)
            receivers[host].stdout.readline()
        senders = []
        for host in ("h2", "h1"):  # the lower class first: beside the higher one it would not come to begin
            port, class_ = flows[host]
            argv = [
                sys.executable,
                "-c",
                SENDER,
                addressing.ip_of(network, "h3"),
                str(port),
                str(dscp_of_class(class_)),
            ]
            senders.append(net.popen(host, argv))
            wait_until_sent(net, "s1-eth3", class_, senders[-1])
        together = sent_within(net, "s1-eth3", 1.0)
        for sender in senders:
            sender.terminate()
            sender.wait(30)
        received = {host: int(process.communicate(timeout=30)[0]) for host, process in receivers.items()}
        after = net.class_counters()
        with ClassMeter(net) as meter:
            by_link = meter.read()
        captures, capture_faults = capture.stop()
        return {
            "received": received,
            "together": together,
            "sent": {i: {c: after[i][c].bytes - before[i][c].bytes for c in after[i]} for i in sorted(after)},
            "counted": {name: [after[name][c].bytes for c in sorted(after[name])] for name in sorted(after)},
            "read": {name: by_link[interface.link.index] for name, interface in sorted(net.interfaces().items())},
            "load": msgspec.to_builtins(load.stop()),
            "captures": msgspec.to_builtins(captures),
            "capture_faults": capture_faults,
            "capacity_Bps": network.capacity_Bps[0],
        }


def stand(folder):
    """Stay up until killed."""
    with emulated(folder, single_switch.build(hosts=2, rate_bps=10e6)) as net:
        net.popen("h1", ["sleep", "1000"])
        print(json.dumps("up"), flush=True)
        time.sleep(1000)


if __name__ == "__main__":
    world.enter()
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))), flush=True)
