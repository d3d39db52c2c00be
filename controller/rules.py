"""OpenFlow 1.3 rules as plain data: what every switch of a network is told, and why.

Table 0 classifies what hosts send: the edge switch decides the mark, whatever the host wrote. Packets
that come from another switch were marked at the edge, and keep that. Table 1 forwards by destination
MAC, proactively, along `Network.next_links`; where connections are spread over paths (ECMP), declared flows have rules
of their own there. What matches nothing is dropped: no packet ever waits for
the controller.

IPv4 and ARP are all that a host may send (IPv6 is off in hosts); ARP has no DSCP, so queues must find
it by its Ethernet type.
"""

from __future__ import annotations

from dataclasses import dataclass

from echelonflow.model.addressing import host_address, ip_of, port_of, switch_ports
from echelonflow.model.network import Network
from echelonflow.wire.classes import CONTROL_CLASS, DEFAULT_CLASS, dscp_of_class
from echelonflow.wire.declare import DATA_PORT, FIRST_SOURCE_PORT
from echelonflow.wire.messages import FlowDeclaration

CLASSIFY, FORWARD = 0, 1

FLOW_PRIORITY = 300
ACK_PRIORITY = 200
DEFAULT_PRIORITY = 100

ETH_IPV4, ETH_ARP = 0x0800, 0x0806
IP_TCP = 6

TO_CONTROLLER, FLOOD = 0xFFFF_FFFD, 0xFFFF_FFFB
"""OpenFlow's reserved ports (OFPP_CONTROLLER, OFPP_FLOOD)."""

LAST_DATA_PORT = FIRST_SOURCE_PORT - 1
"""Receivers listen on DATA_PORT .. LAST_DATA_PORT; what comes *from* there is acknowledgements."""


@dataclass(frozen=True, slots=True)
class Match:
    """Fields that a packet must have; None is any. `tcp_src_mask` leaves out the low bits of `tcp_src`."""

    in_port: int | None = None
    eth_type: int | None = None
    eth_dst: str | None = None
    eth_src: str | None = None
    ip_proto: int | None = None
    ipv4_src: str | None = None
    ipv4_dst: str | None = None
    tcp_src: int | None = None
    tcp_src_mask: int | None = None
    tcp_dst: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of a flow table: mark (six-bit DSCP) if told to, output if told to, go on if told to."""

    table: int
    priority: int
    match: Match
    set_dscp: int | None = None
    output: int | None = None
    goto_table: int | None = None


def base_rules(network: Network, switch: str) -> list[Rule]:
    """All rules that `switch` has for as long as the network exists: classification and forwarding."""
    rules: list[Rule] = []
    for port, link in switch_ports(network, switch).items():
        rules += _host_port_rules(port) if link.dst in network.edge_switch else [_fabric_port_rule(port)]
    for host in network.hosts:
        next_link = network.next_links(host).get(switch)
        if next_link is not None:
            output = port_of(network, next_link)
            match = Match(eth_dst=host_address(network, host).mac)
            rules.append(Rule(FORWARD, DEFAULT_PRIORITY, match, output=output))
    return rules


def _fabric_port_rule(port: int) -> Rule:
    return Rule(CLASSIFY, DEFAULT_PRIORITY, Match(in_port=port), goto_table=FORWARD)


def _host_port_rules(port: int) -> list[Rule]:
    rules = [
        Rule(
            CLASSIFY,
            DEFAULT_PRIORITY,
            Match(in_port=port, eth_type=ETH_IPV4),
            set_dscp=dscp_of_class(DEFAULT_CLASS),
            goto_table=FORWARD,
        ),
        Rule(CLASSIFY, DEFAULT_PRIORITY, Match(in_port=port, eth_type=ETH_ARP), goto_table=FORWARD),
    ]
    for value, mask in port_blocks(DATA_PORT, LAST_DATA_PORT):
        match = Match(in_port=port, eth_type=ETH_IPV4, ip_proto=IP_TCP, tcp_src=value, tcp_src_mask=mask)
        rules.append(Rule(CLASSIFY, ACK_PRIORITY, match, set_dscp=dscp_of_class(CONTROL_CLASS), goto_table=FORWARD))
    return rules


def flow_rule(network: Network, flow: FlowDeclaration, dscp: int) -> tuple[str, Rule]:
    """The edge switch of the flow's source, and the rule there that gives the flow its mark."""
    source = host_address(network, flow.src_host)
    match = Match(
        in_port=source.switch_port,
        eth_type=ETH_IPV4,
        ip_proto=IP_TCP,
        ipv4_src=source.ip,
        ipv4_dst=ip_of(network, flow.dst_host),
        tcp_src=flow.src_port,
        tcp_dst=flow.dst_port,
    )
    return source.switch, Rule(CLASSIFY, FLOW_PRIORITY, match, set_dscp=dscp, goto_table=FORWARD)


def path_rules(network: Network, flow: FlowDeclaration) -> list[tuple[str, Rule]]:
    """The switches on a flow's path at which it leaves that of its destination, and the rule there that leads it on.

    Only where connections are spread over paths (`Network.ecmp_seed`): else there are none. What has no such rule, such as
    acknowledgements, goes by its destination.
    """
    if not network.spreads_connections:
        return []
    match = Match(
        eth_type=ETH_IPV4,
        ip_proto=IP_TCP,
        ipv4_src=ip_of(network, flow.src_host),
        ipv4_dst=ip_of(network, flow.dst_host),
        tcp_src=flow.src_port,
        tcp_dst=flow.dst_port,
    )
    found = []
    for index in network.path(flow.src_host, flow.dst_host, flow.src_port)[1:-1]:
        link = network.links[index]
        if network.next_link(link.src, flow.dst_host) != link:
            found.append((link.src, Rule(FORWARD, FLOW_PRIORITY, match, output=port_of(network, link))))
    return found


def port_blocks(first: int, last: int) -> list[tuple[int, int]]:
    """(value, mask) pairs that match exactly the ports first .. last, fewest possible (16-bit masks)."""
    blocks = []
    while first <= last:
        size = first & -first or 1 << 16
        while first + size - 1 > last:
            size >>= 1
        blocks.append((first, 0xFFFF & ~(size - 1)))
        first += size
    return blocks
