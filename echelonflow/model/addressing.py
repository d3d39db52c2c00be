"""Addresses of an emulated network, derived from its description alone.

Testbed, controller, agents and results each compute them; nobody has to ask.
"""

from __future__ import annotations

from dataclasses import dataclass

from echelonflow.model.network import Link, Network

CONTROLLER_PORT = 6653


@dataclass(frozen=True, slots=True)
class HostAddress:
    """How a host is reached: its interface name, IPv4 address and MAC, and where it is attached."""

    host: str
    interface: str
    ip: str
    mac: str
    switch: str
    switch_port: int


def dpid(network: Network, switch: str) -> int:
    """OpenFlow datapath id of a switch: 1 for the first of `network.switches`."""
    return network.switches.index(switch) + 1


def switch_ports(network: Network, switch: str) -> dict[int, Link]:
    """OpenFlow port number (from 1, in the order of the cables) to the directed link that leaves by it."""
    leaving = [link for link in network.links if link.src == switch]
    return dict(enumerate(leaving, start=1))


def port_of(network: Network, link: Link) -> int:
    """The port of the switch `link.src` by which `link` leaves."""
    return next(number for number, leaving in switch_ports(network, link.src).items() if leaving.index == link.index)


def interface_name(network: Network, link: Link) -> str:
    """Name of the interface whose egress is `link`: h1-eth0 on a host, s1-eth2 on port 2 of a switch."""
    if link.src in network.edge_switch:
        return f"{link.src}-eth0"
    return f"{link.src}-eth{port_of(network, link)}"


def ip_of(network: Network, host: str) -> str:
    """IPv4 address of a host, in 10.0.0.0/8."""
    number = network.hosts.index(host) + 1
    return f"10.0.{number >> 8}.{number & 255}"


def host_address(network: Network, host: str) -> HostAddress:
    """All addresses of one host."""
    number = network.hosts.index(host) + 1
    switch = network.edge_switch[host]
    return HostAddress(
        host=host,
        interface=f"{host}-eth0",
        ip=ip_of(network, host),
        mac=f"02:ec:00:00:{number >> 8:02x}:{number & 255:02x}",
        switch=switch,
        switch_port=next(port for port, link in switch_ports(network, switch).items() if link.dst == host),
    )
