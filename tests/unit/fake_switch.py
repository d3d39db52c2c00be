"""Switches in pure Python that match packets against rules: "where does this packet go, with which mark?"."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from controller.instructions import InstallRules, Instruction, ResetSwitch
from controller.rules import Match, Rule
from echelonflow.model.addressing import host_address, port_of, switch_ports
from echelonflow.model.network import Network

MOST_HOPS = 16


@dataclass(frozen=True)
class Packet:
    eth_dst: str
    eth_type: int = 0x0800
    ip_proto: int | None = 6
    ipv4_src: str | None = None
    ipv4_dst: str | None = None
    tcp_src: int | None = None
    tcp_dst: int | None = None
    dscp: int | None = 0


def matches(match: Match, packet: Packet, in_port: int) -> bool:
    for name in ("eth_type", "eth_dst", "ip_proto", "ipv4_src", "ipv4_dst", "tcp_dst"):
        wanted = getattr(match, name)
        if wanted is not None and wanted != getattr(packet, name):
            return False
    if match.in_port is not None and match.in_port != in_port:
        return False
    if match.tcp_src is None:
        return True
    mask = 0xFFFF if match.tcp_src_mask is None else match.tcp_src_mask
    return packet.tcp_src is not None and packet.tcp_src & mask == match.tcp_src


def check_prerequisites(rule: Rule) -> None:
    """OpenFlow 1.3 refuses a field whose protocol is not matched (specification, 7.2.3.6)."""
    m = rule.match
    if m.tcp_src is not None or m.tcp_dst is not None:
        assert m.ip_proto == 6, rule
    if m.ip_proto is not None or m.ipv4_src is not None or m.ipv4_dst is not None or rule.set_dscp is not None:
        assert m.eth_type == 0x0800, rule
    if m.tcp_src_mask is not None:
        assert m.tcp_src & ~m.tcp_src_mask == 0, rule


@dataclass
class FakeSwitch:
    rules: dict[tuple[int, int, Match], Rule] = field(default_factory=dict)

    def add(self, rule: Rule) -> None:
        check_prerequisites(rule)
        assert rule.goto_table is None or rule.goto_table > rule.table
        self.rules[rule.table, rule.priority, rule.match] = rule

    def remove(self, rule: Rule) -> None:
        self.rules.pop((rule.table, rule.priority, rule.match), None)

    def process(self, packet: Packet, in_port: int) -> tuple[int, Packet] | None:
        """(port out, packet as it leaves), or None where it is dropped. Ambiguous rules fail the test."""
        table: int | None = 0
        while table is not None:
            found = [r for r in self.rules.values() if r.table == table and matches(r.match, packet, in_port)]
            if not found:
                return None
            best = [r for r in found if r.priority == max(r.priority for r in found)]
            assert len(best) == 1, f"{len(best)} rules of one priority match {packet}"
            rule = best[0]
            if rule.set_dscp is not None:
                packet = dataclasses.replace(packet, dscp=rule.set_dscp)
            if rule.output is not None:
                return rule.output, packet
            table = rule.goto_table
        return None


@dataclass
class FakeFabric:
    """All switches of a network; carries out instructions of a coordinator and moves packets hop by hop."""

    network: Network
    switches: dict[str, FakeSwitch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.switches = {name: FakeSwitch() for name in self.network.switches}

    def enact(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, ResetSwitch):
                self.switches[instruction.switch] = FakeSwitch()
                for rule in instruction.rules:
                    self.switches[instruction.switch].add(rule)
            elif isinstance(instruction, InstallRules):
                for rule in instruction.remove:
                    self.switches[instruction.switch].remove(rule)
                for rule in instruction.add:
                    self.switches[instruction.switch].add(rule)

    def send(self, src: str, packet: Packet) -> tuple[str | None, list[str], Packet]:
        """(host it reaches or None, nodes it visited, packet as it was last seen)."""
        network = self.network
        visited, node, in_port = [src], network.edge_switch[src], host_address(network, src).switch_port
        while node in self.switches and len(visited) < MOST_HOPS:
            visited.append(node)
            done = self.switches[node].process(packet, in_port)
            if done is None:
                return None, visited, packet
            out, packet = done
            taken = switch_ports(network, node)[out]
            node = taken.dst
            if node in self.switches:
                in_port = port_of(network, network.links[taken.index ^ 1])  # the other direction of its cable
        return (node if node not in self.switches else None), visited, packet

    def tcp(self, src: str, dst: str, sport: int, dport: int, dscp: int = 0) -> tuple[str | None, list[str], Packet]:
        a, b = host_address(self.network, src), host_address(self.network, dst)
        return self.send(src, Packet(b.mac, ipv4_src=a.ip, ipv4_dst=b.ip, tcp_src=sport, tcp_dst=dport, dscp=dscp))
