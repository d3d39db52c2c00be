"""What every topology, and every network that a user may draw, promises to those who build it."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.model import addressing, topologies
from echelonflow.model.network import Cable, Network
from echelonflow.options import options_of

LONGEST_INTERFACE_NAME = 15
"""Linux: IFNAMSIZ is 16, with the zero at the end."""
MOST_PORTS = 0xFEFF
"""OpenFlow 1.3: OFPP_MAX is 0xffffff00, but Open vSwitch numbers ports up to 0xfeff."""
OPTIONS = {
    "big-switch": [{"ports": 2, "rate_bps": 1e9}, {"ports": 300, "rate_bps": 1e9, "rate_of": "payload"}],
    "dumbbell": [{"hosts": 2, "rate_bps": 1e8}, {"hosts": 301, "rate_bps": 1e8, "bottleneck_rate_bps": 5e7}],
    "leaf-spine": [
        {"leaves": 1, "spines": 1, "hosts_per_leaf": 2, "rate_bps": 1e7},
        {"leaves": 20, "spines": 8, "hosts_per_leaf": 16, "rate_bps": 1e7},
    ],
    "fat-tree": [{"k": 2, "rate_bps": 1e8}, {"k": 12, "rate_bps": 1e8, "oversubscription": 3.0}],
    "single-switch": [{"hosts": 2, "rate_bps": 1e8}, {"hosts": 300, "rate_bps": 1e8}],
}
"""Made by hand: smallest networks, and some with more than 256 hosts, where a byte of an address runs over."""
MANY_HOSTS = 256


def enlarged(name):
    """The example with one of its numbers doubled until there are more than 256 hosts; None where none does that."""
    for option in options_of(topologies.load(name).build):
        options = topologies.example_options(name)
        if option.kinds == (int,) and not option.unit and option.parameter in options:
            for _ in range(10):
                options[option.parameter] *= 2
                network = topologies.build(name, options)
                if len(network.hosts) > MANY_HOSTS:
                    return network
    return None


def enlarged_file(name, folder):
    """The example with its file's hosts again and again, until there are more than 256; None where it has no file."""
    options = topologies.example_options(name)
    if "file" not in options:
        return None
    head, *hosts = Path(options["file"]).read_text().splitlines()
    lines = [f"{n}{host}" for n in range(MANY_HOSTS // len(hosts) + 1) for host in hosts]
    options["file"] = str(folder / "many.csv")
    Path(options["file"]).write_text("\n".join([head, *lines]))
    return topologies.build(name, options)


def check(network):
    """Names, addresses and numbers of everything in `network` are its own, and such as the system takes."""
    links = network.links
    interfaces = [addressing.interface_name(network, link) for link in links]
    names = [link.name for link in links]
    dpids = [addressing.dpid(network, switch) for switch in network.switches]
    hosts = [addressing.host_address(network, host) for host in network.hosts]
    for values in (interfaces, names, dpids, [h.ip for h in hosts], [h.mac for h in hosts]):
        assert len(set(values)) == len(values)
    assert max(map(len, interfaces)) <= LONGEST_INTERFACE_NAME
    assert all(0 < dpid < 1 << 64 for dpid in dpids)
    assert all(ipaddress.ip_address(h.ip) in ipaddress.ip_network("10.0.0.0/8") for h in hosts)
    assert {h.interface for h in hosts} | {f"{s}-eth{p}" for s in network.switches for p in _ports(network, s)} == set(
        interfaces
    )
    for host in hosts:
        assert _ports(network, host.switch)[host.switch_port].dst == host.host
    for switch in network.switches:
        ports = _ports(network, switch)
        assert sorted(ports) == list(range(1, len(ports) + 1))
        assert len(ports) <= MOST_PORTS
        for number, link in ports.items():
            assert link.src == switch
            assert addressing.port_of(network, link) == number


def _ports(network, switch):
    return addressing.switch_ports(network, switch)


@pytest.mark.parametrize("name", topologies.names())
def test_the_example_of_a_topology_is_such_a_network_and_so_is_a_large_one(name, tmp_path):
    check(topologies.example(name))
    large = enlarged(name) or enlarged_file(name, tmp_path)
    assert large is not None, "no number of the example makes more hosts"
    assert len(large.hosts) > MANY_HOSTS
    check(large)


@pytest.mark.parametrize(("name", "options"), [(n, o) for n, several in OPTIONS.items() for o in several])
def test_what_a_topology_builds_has_names_and_numbers_of_its_own(name, options):
    check(topologies.build(name, options))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_so_has_any_network_with_several_cables_between_two_switches(data):
    switches = [f"s{i + 1}" for i in range(data.draw(st.integers(2, 4)))]
    pairs = data.draw(st.lists(st.permutations(switches).map(lambda order: order[:2]), min_size=1, max_size=8))
    homes = data.draw(st.lists(st.sampled_from(switches), min_size=2, max_size=6))
    hosts = tuple(f"h{i + 1}" for i in range(len(homes)))
    cables = [Cable(host, home, 1e8) for host, home in zip(hosts, homes, strict=True)]
    cables += [Cable(a, b, 1e8, kind="fabric") for a, b in pairs]
    check(Network("drawn", hosts, tuple(switches), tuple(data.draw(st.permutations(cables)))))
