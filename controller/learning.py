"""Somebody else's network: forwarding that is learned from what arrives, marks set wherever a flow may enter.

Three tables. 0 marks declared flows. 1 knows the port of every source address; a packet from an unknown one
is shown to the controller (its header only) and goes on all the same. 2 forwards by destination address,
and floods what is not known. So no packet waits for the controller, and what it is shown ends with the
rule that it then installs. A host that moves is unknown at its new port, and learned there.

The cables between switches must form no loop: flooding would go round in it. (A network that has loops is
served from its description, `--network`, without any flooding.)

Policies see the abstraction of Coflow schedulers (Varys, SIGCOMM '14, section 3): all hosts on one big switch
that does not block, so flows contend at hosts' own links.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from controller.instructions import InstallRules, Instruction
from controller.rules import (
    CLASSIFY,
    DEFAULT_PRIORITY,
    ETH_IPV4,
    FLOOD,
    FLOW_PRIORITY,
    FORWARD,
    IP_TCP,
    TO_CONTROLLER,
    Match,
    Rule,
)
from echelonflow.errors import EchelonError, InputError
from echelonflow.model.network import Cable, Network
from echelonflow.model.units import parse_rate_bps
from echelonflow.wire.classes import CONTROL_CLASS, dscp_of_class
from echelonflow.wire.messages import FlowDeclaration

SOURCES, DESTINATIONS = FORWARD, FORWARD + 1
MISS_PRIORITY = 0
MOST_ADDRESSES = 8192
"""Per switch. Beyond these nothing more is learned (and shown): what is unknown is flooded."""
SETTLED_S = 1.0
"""An address that moved is not believed to move again so soon: in a loop it would seem to, for ever."""
_GROUP_BIT = 1


@dataclass
class _Learned:
    """What one switch has shown: the port of every source address, and when it moved there."""

    ports: dict[str, tuple[int, float]] = field(default_factory=dict)
    full: bool = False


class LearnedFabric:
    """Switches by datapath id, whichever connect; `addresses` are the IPv4 addresses of the network's hosts."""

    def __init__(self, network: Network, addresses: Mapping[str, str]) -> None:
        self._network = network
        self._addresses = dict(addresses)
        self._learned: dict[str, _Learned] = {}

    @property
    def network(self) -> Network:
        return self._network

    def switch_name(self, datapath_id: int) -> str | None:
        return f"{datapath_id:016x}"

    def datapath_id(self, switch: str) -> int:
        return int(switch, 16)

    @property
    def addresses(self) -> Mapping[str, str]:
        return self._addresses

    def base_rules(self, switch: str) -> list[Rule]:
        self._learned[switch] = _Learned()
        return [
            Rule(CLASSIFY, MISS_PRIORITY, Match(), goto_table=SOURCES),
            Rule(SOURCES, MISS_PRIORITY, Match(), output=TO_CONTROLLER, goto_table=DESTINATIONS),
            Rule(DESTINATIONS, MISS_PRIORITY, Match(), output=FLOOD),
        ]

    def flow_rules(self, flow: FlowDeclaration, dscp: int, connected: AbstractSet[str]) -> list[tuple[str, Rule]]:
        """Where the flow enters is not known, so every switch marks it, and its acknowledgements."""
        src, dst = self._addresses[flow.src_host], self._addresses[flow.dst_host]
        there = _mark(Match(ipv4_src=src, ipv4_dst=dst, tcp_src=flow.src_port, tcp_dst=flow.dst_port), dscp)
        back = _mark(
            Match(ipv4_src=dst, ipv4_dst=src, tcp_src=flow.dst_port, tcp_dst=flow.src_port),
            dscp_of_class(CONTROL_CLASS),
        )
        return [(switch, rule) for switch in sorted(connected) for rule in (there, back)]

    def path_rules(self, flow: FlowDeclaration) -> list[tuple[str, Rule]]:
        """None: switches learn where addresses are, and all packets to one go there."""
        return []

    def complete(self, ready: AbstractSet[str]) -> bool:
        """Always: nobody says how many there are to be."""
        return True

    def seen(self, switch: str, port: int, source_mac: str, now_s: float) -> list[Instruction]:
        """Learn where an address is."""
        learned = self._learned.get(switch)
        if learned is None or learned.full or int(source_mac[:2], 16) & _GROUP_BIT:
            return []
        old = learned.ports.get(source_mac)
        if old is not None and (old[0] == port or now_s < old[1] + SETTLED_S):
            return []
        learned.ports[source_mac] = port, now_s
        remove = (_source(old[0], source_mac),) if old is not None else ()
        add = [
            _source(port, source_mac),
            Rule(DESTINATIONS, DEFAULT_PRIORITY, Match(eth_dst=source_mac), output=port),
        ]
        if len(learned.ports) >= MOST_ADDRESSES:
            learned.full = True
            add.append(Rule(SOURCES, MISS_PRIORITY, Match(), goto_table=DESTINATIONS))
        return [InstallRules(switch, add=tuple(add), remove=remove)]


def _source(port: int, mac: str) -> Rule:
    return Rule(SOURCES, DEFAULT_PRIORITY, Match(in_port=port, eth_src=mac), goto_table=DESTINATIONS)


def _mark(ends: Match, dscp: int) -> Rule:
    match = Match(
        eth_type=ETH_IPV4,
        ip_proto=IP_TCP,
        ipv4_src=ends.ipv4_src,
        ipv4_dst=ends.ipv4_dst,
        tcp_src=ends.tcp_src,
        tcp_dst=ends.tcp_dst,
    )
    return Rule(CLASSIFY, FLOW_PRIORITY, match, set_dscp=dscp, goto_table=SOURCES)


def unknown_fabric() -> LearnedFabric:
    """A network of which nothing is known: it gets forwarding; flows cannot be declared."""
    return LearnedFabric(Network("learned", (), ("network",), ()), {})


def read_hosts(path: Path) -> LearnedFabric:
    """The network whose hosts a JSON file names: {"rate": "100 Mbit/s", "hosts": {"h1": "10.0.0.1", ...}}.

    `rate` is that of a host's link. InputError, naming file and key, for anything else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"hosts file {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"hosts file {path} is not JSON: {error}") from error
    if not isinstance(data, dict) or set(data) != {"rate", "hosts"} or not isinstance(data["hosts"], dict):
        raise InputError(f'hosts file {path}: write {{"rate": "100 Mbit/s", "hosts": {{"h1": "10.0.0.1"}}}}')
    addresses = {host: _address(path, host, text) for host, text in data["hosts"].items()}
    if len(set(addresses.values())) < len(addresses):
        raise InputError(f"hosts file {path}: two hosts share an address")
    try:
        rate_bps = parse_rate_bps(data["rate"])
        cables = tuple(Cable(host, "network", rate_bps) for host in addresses)
        return LearnedFabric(Network("learned", tuple(addresses), ("network",), cables), addresses)
    except EchelonError as error:
        raise InputError(f"hosts file {path}: {error}") from None


def _address(path: Path, host: str, text: object) -> str:
    try:
        return str(IPv4Address(text if isinstance(text, str) else repr(text)))
    except AddressValueError as error:
        raise InputError(f"hosts file {path}: host {host}: {error}") from None
