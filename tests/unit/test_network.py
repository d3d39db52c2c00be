from __future__ import annotations

import itertools
import json

import pytest

from echelonflow.errors import InputError
from echelonflow.model import addressing, topologies
from echelonflow.model.network import Cable, Network

TOPOLOGIES = [
    ("single-switch", {"hosts": 5, "rate_bps": 1e8}),
    ("dumbbell", {"hosts": 6, "rate_bps": 1e8, "bottleneck_rate_bps": 5e7}),
    ("leaf-spine", {"leaves": 4, "spines": 2, "hosts_per_leaf": 4, "rate_bps": 3e7}),
]


@pytest.fixture(params=TOPOLOGIES, ids=[name for name, _ in TOPOLOGIES])
def network(request):
    return topologies.build(*request.param)


def test_every_pair_has_a_connected_loop_free_path(network):
    for src, dst in itertools.permutations(network.hosts, 2):
        hops = [network.links[i] for i in network.path(src, dst)]
        nodes = [src, *(link.dst for link in hops)]
        assert nodes[-1] == dst
        assert all(link.src == node for link, node in zip(hops, nodes, strict=False))
        assert len(set(nodes)) == len(nodes)


def test_switches_forward_along_the_same_paths(network):
    for src, dst in itertools.permutations(network.hosts, 2):
        hops, node = network.next_hops(dst), src
        for index in network.path(src, dst):
            assert network.links[index].dst == hops[node]
            node = hops[node]


def test_json_round_trip(network):
    again = Network.from_dict(json.loads(json.dumps(network.to_dict())))
    assert again == network
    assert again.links == network.links


def test_addresses_are_unique_and_ports_lead_where_they_say(network):
    addresses = [addressing.host_address(network, host) for host in network.hosts]
    assert len({a.ip for a in addresses}) == len({a.mac for a in addresses}) == len(network.hosts)
    for a in addresses:
        assert addressing.switch_ports(network, a.switch)[a.switch_port].dst == a.host
    names = [addressing.interface_name(network, link) for link in network.links]
    assert len(set(names)) == len(names)


def test_destinations_are_spread_over_the_spines():
    network = topologies.build("leaf-spine", {"leaves": 2, "spines": 2, "hosts_per_leaf": 2, "rate_bps": 1e8})
    spines = {network.next_hops(dst)["l1"] for dst in ("h3", "h4")}
    assert spines == {"p1", "p2"}


@pytest.mark.parametrize(
    ("cables", "message"),
    [
        ([Cable("h1", "s1", 0.0), Cable("h2", "s1", 1e6)], "rate"),
        ([Cable("h1", "s1", 1e6), Cable("h2", "s9", 1e6)], "unknown node 's9'"),
        ([Cable("h1", "s1", 1e6)], "host h2 has 0 cables"),
    ],
)
def test_impossible_networks_are_refused_by_name(cables, message):
    with pytest.raises(InputError, match=message):
        Network("t", ("h1", "h2"), ("s1",), tuple(cables))


def test_unknown_topology_and_options_are_named():
    with pytest.raises(InputError, match="there is: big-switch, dumbbell, leaf-spine, single-switch"):
        topologies.build("ring", {})
    with pytest.raises(InputError, match="unknown option speed"):
        topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e6, "speed": 1})
