"""A `Network` realised in Mininet, on a private Open vSwitch: names, addresses and ports as `addressing` says."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from mininet.net import Mininet
from mininet.node import Host, OVSSwitch, RemoteController

from echelonflow.errors import InputError, RunError
from echelonflow.model import addressing, tcp
from echelonflow.model.network import Link, Network
from echelonflow.model.units import TCP_IP_HEADER_BYTES
from echelonflow.records.outcome import Classes
from echelonflow.wire.classes import CLASSES
from echelonflow.wire.messages import Queues
from testbed import queues, socket_buffers, world
from testbed.openvswitch import PrivateOpenVSwitch
from testbed.processes import end_within

LONGEST_INTERFACE_NAME = 15
WAITING_RTO = "10s"
"""The least retransmission timeout where nothing is lost: flows wait behind higher classes for longer than the kernel's 200 ms."""
END_LIMIT_S = 2.0
REST_S, REST_LOOK_S = 3.0, 0.1
"""For how long counters are given to come to rest, and how far apart they are read then."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One end of a cable: the node it belongs to, and the directed link whose egress it is."""

    name: str
    node: str
    link: Link


class _ExternalController(RemoteController):  # type: ignore[misc]
    """A controller that somebody else starts, now or later; Mininet would look for it with telnet."""

    def checkListening(self) -> None:
        pass


class EmulatedNetwork:
    """Hosts, switches and cables of `network`, up while it is entered; inside a private world only.

    Every switch is in secure mode and obeys the OpenFlow 1.3 controller at 127.0.0.1:`controller_port`
    alone: without rules nothing is forwarded. Every egress has the tree of `testbed.queues`, every host
    static ARP and the settings of `testbed.world`. `queue_s` is the length of each class's queue. Where the network is
    `lossless`, TCP takes what waits behind higher classes for lost only after `WAITING_RTO`.
    Raises InputError for names that no interface or congestion control can have, RunError where the kernel or a tool refuses.
    """

    def __init__(
        self,
        network: Network,
        ovs: PrivateOpenVSwitch,
        controller_port: int = addressing.CONTROLLER_PORT,
        congestion_control: str = "cubic",
        queue_s: float = queues.QUEUE_S,
        *,
        lossless: bool = True,
    ) -> None:
        self.network = network
        self.ovs = ovs
        self.controller_port = controller_port
        self.congestion_control = tcp.congestion_control(congestion_control)
        self.queue_s = queue_s
        self._route_options = f"congctl {self.congestion_control}" + (f" rto_min {WAITING_RTO}" if lossless else "")
        self.burst_s = queues.BURST_S
        self._interfaces = {
            name: Interface(name, link.src, link)
            for link in network.links
            for name in [addressing.interface_name(network, link)]
        }
        for name in self._interfaces:
            if len(name) > LONGEST_INTERFACE_NAME:
                raise InputError(
                    f"topology {network.name}: interface name {name!r} is too long; use shorter node names"
                )
        self._pids: dict[str, int] = {}
        self._shells: dict[str, subprocess.Popen[Any]] = {}
        self._children: list[subprocess.Popen[Any]] = []
        self._stack = contextlib.ExitStack()

    # ---- what it offers ----

    def interfaces(self) -> Mapping[str, Interface]:
        """Every interface by its name."""
        return self._interfaces

    def namespace_pid(self, host: str) -> int:
        """A process that lives in the namespaces of `host`."""
        return self._pids[host]

    def popen(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start `argv` on `host`; `options` as for `subprocess.Popen`. It is ended with the network if it still runs."""
        child = subprocess.Popen(["mnexec", "-a", str(self._pids[host]), *argv], **options)
        self._children = [c for c in self._children if c.poll() is None]
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raise RunError if the process that holds a host's namespaces has died: nothing more can be started there."""
        for host, shell in self._shells.items():
            if shell.poll() is not None:
                raise RunError(f"the shell of host {host} died (exit {shell.returncode}), and with it the host")

    def switch_alive(self) -> bool:
        """Whether Open vSwitch still runs."""
        return self.ovs.alive()

    def class_counters(self) -> Classes:
        """What each class of each interface has sent and dropped so far; see `queues.parse_counters`."""
        shells = [
            world.run_script(queues.counter_script(i.name for i in members), pid)
            for pid, members in self._by_namespace()
        ]
        found: Classes = {}
        for shell in shells:
            found.update(queues.parse_counters(world.finish(shell, "reading class counters")))
        return found

    @property
    def queue_sizes(self) -> Queues:
        """What the queues of every egress are made for, as those have to know that change weights."""
        return Queues(self.segment_bytes, self.burst_s)

    def restore_order(self) -> None:
        """Have all classes served in strict order again, whatever weights they were given."""
        self.set_burst(self.burst_s)

    def counters_at_rest(self) -> Classes:
        """The same once nothing moves any more, or after `REST_S`.

        What links were measured with waits before a link that is slower than hosts' own, and is sent when nobody sends.
        """
        counters = self.class_counters()
        edges = [link for link in self.network.links if link.src in self.network.edge_switch]
        if min(self.network.capacity_Bps) >= max(self.network.capacity_Bps[link.index] for link in edges):
            return counters
        end_s = time.monotonic() + REST_S
        while time.monotonic() < end_s:
            time.sleep(REST_LOOK_S)
            earlier, counters = counters, self.class_counters()
            if counters == earlier:
                break
        return counters

    def set_burst(self, burst_s: float) -> None:
        """Let every link pass up to `burst_s` of its rate at once after an idle spell, from now on."""
        shells = []
        for pid, members in self._by_namespace():
            lines = [
                line
                for i in members
                for line in queues.burst_lines(
                    i.name, i.link.rate_bps, self.network.mtu_bytes, self.segment_bytes, burst_s
                )
            ]
            shells.append(world.run_script("\n".join(["tc -batch - <<'.'", *lines, ".", ""]), pid))
        for shell in shells:
            world.finish(shell, "changing the bursts of the links")
        self.burst_s = burst_s

    @property
    def segment_bytes(self) -> int:
        """The longest segment on any link: a super-segment where offload is on, else one frame."""
        if not self.ovs.tso:
            return queues.frame_bytes(self.network.mtu_bytes)
        return queues.segment_limit_bytes([link.rate_bps for link in self.network.links], self.network.mtu_bytes)

    # ---- building and ending ----

    def __enter__(self) -> EmulatedNetwork:
        world.require_inside()
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def _build(self) -> None:
        network = self.network
        # Its own start-up would change limits of the whole machine (files, terminals, neighbours).
        Mininet.inited = True
        net = Mininet(topo=None, build=False, controller=None)
        self._stack.callback(self._end, net)
        net.addController(
            "c0", controller=_ExternalController, ip="127.0.0.1", port=self.controller_port, inNamespace=False
        )
        for host in network.hosts:
            node = net.addHost(host, cls=Host, ip=None)
            self._pids[host] = node.pid
            self._shells[host] = node.shell
        for switch in network.switches:
            net.addSwitch(
                switch,
                cls=OVSSwitch,
                dpid=f"{addressing.dpid(network, switch):016x}",
                datapath="user" if self.ovs.datapath == "userspace" else "kernel",
                failMode="secure",
                protocols="OpenFlow13",
                batch=True,
            )
        for there, back in zip(network.links[::2], network.links[1::2], strict=True):
            net.addLink(
                there.src, there.dst,
                port1=self._port(there), port2=self._port(back),
                intfName1=addressing.interface_name(network, there), intfName2=addressing.interface_name(network, back),
                addr1=self._mac(there), addr2=self._mac(back),
                params1={"up": None}, params2={"up": None},
            )  # fmt: skip
        # Interfaces are set up below in one go for each namespace; Mininet would do it one command at a time.
        net.built = True
        self._configure()
        net.start()
        self._keep_calling()
        self._check_ports()
        self._queue_switches()
        if self.ovs.datapath == "userspace":
            self._enlarge_buffers()

    def _port(self, link: Link) -> int:
        if link.src in self.network.edge_switch:
            return 0
        return addressing.port_of(self.network, link)

    def _mac(self, link: Link) -> str:
        if link.src in self.network.edge_switch:
            return addressing.host_address(self.network, link.src).mac
        return f"02:5e:00:00:{link.index >> 8:02x}:{link.index & 255:02x}"

    def _by_namespace(self) -> Iterator[tuple[int | None, list[Interface]]]:
        """Interfaces grouped by where they are: (a host's process, or None for the world's own namespace)."""
        on_switches = []
        for interface in self._interfaces.values():
            if interface.node in self._pids:
                yield self._pids[interface.node], [interface]
            else:
                on_switches.append(interface)
        yield None, on_switches

    def _configure(self) -> None:
        shells = [world.run_script(self._script(pid, members), pid) for pid, members in self._by_namespace()]
        for shell in shells:
            world.finish(shell, "setting up the interfaces")

    def _script(self, pid: int | None, members: Sequence[Interface]) -> str:
        """Shell lines that set up `members` in their namespace: kernel settings, offloads, addresses, queues."""
        ip: list[str] = []
        tc: list[str] = []
        shell: list[str] = []
        if pid is not None:
            shell.append(world.sysctl_script())
            shell.append(self._equal_segments())
            ip.append("link set lo up")
        for interface in members:
            offload = "" if not self.ovs.tso else f" gso_max_size {self.segment_bytes}"
            # Open vSwitch before 3.2 cuts super-segments anew, to its port's MTU less all headers, Ethernet's too.
            mtu_bytes = self.network.mtu_bytes if pid is not None else queues.frame_bytes(self.network.mtu_bytes)
            ip.append(f"link set {interface.name} mtu {mtu_bytes}{offload} up")
            if not self.ovs.tso:
                # Without offload in the switch a packet must leave the host whole and with its checksum.
                shell.append(f"ethtool -K {interface.name} tx off tso off gso off gro off")
        if pid is not None:
            ip += self._addresses(members[0])
            tc = self._tree(members)
        return "\n".join([*shell, "ip -batch - <<'.'", *ip, ".", "tc -batch - <<'.'", *tc, ".", ""])

    def _equal_segments(self) -> str:
        """A shell line that makes every flow of a host send super-segments of one length, the longest allowed.

        Otherwise TCP sizes them by its estimate of a flow's rate, and keeps two of each flow in the host's queue. So a
        young flow's longer ones take a larger share of the link. Measured: an old flow got a quarter less than its
        share, and with equal segments 4 % less.
        """
        payload = self.network.mtu_bytes - TCP_IP_HEADER_BYTES
        segments = max((self.segment_bytes - TCP_IP_HEADER_BYTES) // payload, 1)
        return f"echo {segments} > /proc/sys/net/ipv4/tcp_min_tso_segs"

    def _tree(self, members: Sequence[Interface]) -> list[str]:
        return [
            line
            for interface in members
            for line in queues.tree_lines(
                interface.name,
                interface.link.rate_bps,
                self.network.mtu_bytes,
                self.segment_bytes,
                self.queue_s,
                self.burst_s,
                tcp.send_buffer_bytes(max(self.network.capacity_Bps)),
            )
        ]

    def _queue_switches(self) -> None:
        """Put the trees on the switches' ports, after Open vSwitch has cleared what it found there."""
        members = [interface for interface in self._interfaces.values() if interface.node not in self._pids]
        # From here on it leaves queues alone.
        ports = [argument for i in members for argument in ("--", "set", "Port", i.name, "qos=@leave")]
        self.ovs.vsctl("--id=@leave", "create", "QoS", "type=linux-noop", *ports)
        lines = "\n".join(["tc -batch - <<'.'", *self._tree(members), ".", ""])
        world.finish(world.run_script(lines), "setting up the queues of the switches")
        counters = self.class_counters()
        if any(len(counters.get(name, {})) != CLASSES for name in self._interfaces):
            raise RunError("an interface is without its queues; see logs/ovs-vswitchd.log")

    def _addresses(self, interface: Interface) -> list[str]:
        ip = addressing.ip_of(self.network, interface.node)
        lines = [
            f"address add {ip}/8 dev {interface.name} noprefixroute",
            # By the route and not by sysctl: a namespace may only choose what the machine has allowed for everyone.
            f"route add 10.0.0.0/8 dev {interface.name} src {ip} {self._route_options}",
        ]
        for host in self.network.hosts:
            if host != interface.node:
                other = addressing.host_address(self.network, host)
                lines.append(f"neighbor replace {other.ip} lladdr {other.mac} nud permanent dev {interface.name}")
        return lines

    def _keep_calling(self) -> None:
        """Have switches call a controller that has gone once a second: by default, up to eight seconds pass."""
        settings = [["--", "set", "Controller", switch, "max_backoff=1000"] for switch in self.network.switches]
        self.ovs.vsctl(*(argument for setting in settings for argument in setting))

    def _check_ports(self) -> None:
        """RunError unless every switch port has the number that the controller will use."""
        rows = self.ovs.vsctl("--columns=name,ofport", "--format=csv", "--no-headings", "list", "Interface")
        numbers = dict(row.replace('"', "").split(",", 1) for row in rows.splitlines())
        for switch in self.network.switches:
            for port in addressing.switch_ports(self.network, switch):
                name = f"{switch}-eth{port}"
                if numbers.get(name) != str(port):
                    raise RunError(
                        f"Open vSwitch gave {name} port number {numbers.get(name)}, not {port}; "
                        "see logs/ovs-vswitchd.log"
                    )

    def _enlarge_buffers(self) -> None:
        first = self.network.switches[0]
        # The daemon opens the socket that it sends by at its first packet: one to nobody, of an experimental type.
        frame = "02ec0000ffff" + "02ec0000fffe" + "88b5" + "00" * 46
        subprocess.run(
            ["ovs-ofctl", "-O", "OpenFlow13", "packet-out", first, f"in_port=local packet={frame} actions=output:1"],
            check=True,
            capture_output=True,
        )
        socket_buffers.enlarge(self.ovs.vswitchd_pid)

    def _end(self, net: Any) -> None:
        for child in self._children:
            if child.poll() is None:
                child.terminate()
        end_within(self._children, END_LIMIT_S)
        self._children.clear()
        # One command instead of one for each link; the peers in the hosts go with them.
        on_switches = [name for name, interface in self._interfaces.items() if interface.node not in self._pids]
        # Where a host has already taken its end away, this one is gone or just going.
        commands = "".join(f"ip link del {n} 2>/dev/null || [ ! -e /sys/class/net/{n} ]\n" for n in on_switches)
        net.links.clear()
        try:
            if self.ovs.alive():
                net.stop()
            else:
                for node in (*net.switches, *net.hosts):
                    node.terminate()
        finally:
            world.finish(world.run_script(commands), "removing the links")
            self._pids.clear()
