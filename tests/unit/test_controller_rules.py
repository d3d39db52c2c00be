"""Where packets go, and with which mark, when switches have the rules of `controller.rules`."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from controller.coordinator import Coordinator
from controller.fabric import KnownFabric
from controller.rules import LAST_DATA_PORT, base_rules, flow_rule, port_blocks
from echelonflow.model import topologies
from echelonflow.model.addressing import dpid, host_address, switch_ports
from echelonflow.records.events import SwitchConnected
from echelonflow.wire.classes import CONTROL_CLASS, DEFAULT_CLASS, dscp_of_class
from echelonflow.wire.declare import DATA_PORT, FIRST_SOURCE_PORT
from echelonflow.wire.messages import FlowDeclaration
from tests.unit.fake_switch import FakeFabric, Packet

NETWORKS = [
    ("single-switch", {"hosts": 4, "rate_bps": 1e8}),
    ("dumbbell", {"hosts": 5, "rate_bps": 1e8}),
    ("leaf-spine", {"leaves": 3, "spines": 2, "hosts_per_leaf": 2, "rate_bps": 1e8}),
]
DEFAULT, CONTROL = dscp_of_class(DEFAULT_CLASS), dscp_of_class(CONTROL_CLASS)


@pytest.fixture(params=NETWORKS, ids=[name for name, _ in NETWORKS])
def fabric(request):
    network = topologies.build(*request.param)
    coordinator, fabric = Coordinator(KnownFabric(network)), FakeFabric(network)
    for switch in network.switches:
        fabric.enact(coordinator.handle(SwitchConnected(dpid(network, switch)), 0.0))
    return fabric


def pairs(fabric):
    return list(itertools.permutations(fabric.network.hosts, 2))


def flow_between(src, dst, src_port=FIRST_SOURCE_PORT, dst_port=DATA_PORT):
    return FlowDeclaration("f", 0, "c", src, dst, 1000, 0.0, src_port, dst_port)


def test_every_pair_is_reached_along_the_path_of_the_network(fabric):
    links = fabric.network.links
    for src, dst in pairs(fabric):
        reached, visited, _ = fabric.tcp(src, dst, 40000, 80)
        path = [links[i].src for i in fabric.network.path(src, dst)]
        assert (reached, visited) == (dst, path)


@pytest.mark.parametrize("claimed", [0, 8, 40, 48, 56, 63])
def test_what_a_host_claims_is_overwritten(fabric, claimed):
    for src, dst in pairs(fabric):
        assert fabric.tcp(src, dst, 40000, 80, dscp=claimed)[2].dscp == DEFAULT
        address = host_address(fabric.network, dst)
        udp = Packet(address.mac, ip_proto=17, ipv4_dst=address.ip, dscp=claimed)
        assert fabric.send(src, udp)[2].dscp == DEFAULT


@pytest.mark.parametrize("port", [DATA_PORT, DATA_PORT + 1, DATA_PORT + 999, LAST_DATA_PORT])
def test_acknowledgements_get_the_control_class(fabric, port):
    for src, dst in pairs(fabric):
        reached, _, packet = fabric.tcp(src, dst, port, FIRST_SOURCE_PORT)
        assert (reached, packet.dscp) == (dst, CONTROL)


@pytest.mark.parametrize("port", [DATA_PORT - 1, LAST_DATA_PORT + 1])
def test_ports_beside_the_receivers_range_are_no_acknowledgements(fabric, port):
    assert fabric.tcp("h1", "h2", port, 1234)[2].dscp == DEFAULT


def test_arp_reaches_a_known_host_unchanged_and_nothing_is_flooded(fabric):
    for src, dst in pairs(fabric):
        arp = Packet(host_address(fabric.network, dst).mac, eth_type=0x0806, ip_proto=None, dscp=None)
        assert fabric.send(src, arp)[0] == dst
        assert fabric.send(src, arp)[2] == arp
        assert fabric.send(src, dataclasses.replace(arp, eth_dst="ff:ff:ff:ff:ff:ff"))[0] is None


def test_other_protocols_and_unknown_destinations_are_dropped_at_the_first_switch(fabric):
    ipv6 = Packet(host_address(fabric.network, "h2").mac, eth_type=0x86DD, ip_proto=None)
    assert fabric.send("h1", ipv6)[:2] == (None, ["h1", fabric.network.edge_switch["h1"]])
    assert fabric.send("h1", Packet("02:00:00:00:00:99"))[0] is None


def test_a_flow_rule_marks_its_flow_and_no_other(fabric):
    network = fabric.network
    for src, dst in pairs(fabric):
        switch, rule = flow_rule(network, flow_between(src, dst), 32)
        assert switch == network.edge_switch[src]
        fabric.switches[switch].add(rule)
        reached, _, packet = fabric.tcp(src, dst, FIRST_SOURCE_PORT, DATA_PORT, dscp=48)
        assert (reached, packet.dscp) == (dst, 32)
        assert fabric.tcp(src, dst, FIRST_SOURCE_PORT + 1, DATA_PORT)[2].dscp == DEFAULT
        assert fabric.tcp(src, dst, FIRST_SOURCE_PORT, DATA_PORT + 1)[2].dscp == DEFAULT
        assert fabric.tcp(dst, src, DATA_PORT, FIRST_SOURCE_PORT)[2].dscp == CONTROL
        fabric.switches[switch].remove(rule)
        assert fabric.tcp(src, dst, FIRST_SOURCE_PORT, DATA_PORT)[2].dscp == DEFAULT


def test_another_host_cannot_claim_a_flow_by_its_addresses(fabric):
    network = fabric.network
    switch, rule = flow_rule(network, flow_between("h1", "h2"), 40)
    fabric.switches[switch].add(rule)
    victim, target = host_address(network, "h1"), host_address(network, "h2")
    forged = Packet(
        target.mac, ipv4_src=victim.ip, ipv4_dst=target.ip, tcp_src=FIRST_SOURCE_PORT, tcp_dst=DATA_PORT, dscp=40
    )
    assert fabric.send("h3", forged)[2].dscp == DEFAULT


def test_between_switches_a_mark_is_kept():
    network = topologies.build("dumbbell", {"hosts": 2, "rate_bps": 1e8})
    fabric = FakeFabric(network)
    for rule in base_rules(network, "s2"):
        fabric.switches["s2"].add(rule)
    a, b = host_address(network, "h1"), host_address(network, "h2")
    port_to = {link.dst: number for number, link in switch_ports(network, "s2").items()}
    for dscp in (0, 8, 32, 56):
        packet = Packet(b.mac, ipv4_src=a.ip, ipv4_dst=b.ip, tcp_src=DATA_PORT, tcp_dst=1, dscp=dscp)
        out = fabric.switches["s2"].process(packet, port_to["s1"])
        assert out == (port_to["h2"], packet)


@pytest.mark.parametrize(("first", "last"), [(5001, 9999), (0, 65535), (1, 1), (1000, 1999), (65535, 65535), (0, 0)])
def test_port_blocks_cover_exactly_the_range(first, last):
    blocks = port_blocks(first, last)
    covered = [port for port in range(1 << 16) for value, mask in blocks if port & mask == value]
    assert covered == list(range(first, last + 1))
