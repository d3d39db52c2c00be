from __future__ import annotations

import itertools

import pytest

from echelon.documents import topology_pages
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.network import Cable, Network
from echelonflow.records.network_file import read_network, write_network

TOPOLOGIES = [
    ("single-switch", {"hosts": 5, "rate_bps": 1e8}),
    ("dumbbell", {"hosts": 6, "rate_bps": 1e8, "bottleneck_rate_bps": 5e7}),
    ("leaf-spine", {"leaves": 4, "spines": 2, "hosts_per_leaf": 4, "rate_bps": 3e7}),
]


TWIN_CABLES = Network(
    "twin-cables",
    ("h1", "h2", "h3", "h4"),
    ("s1", "s2"),
    (
        *(Cable(host, switch, 1e8) for host, switch in (("h1", "s1"), ("h2", "s1"), ("h3", "s2"), ("h4", "s2"))),
        *(Cable("s1", "s2", 1e8, kind="fabric"), Cable("s2", "s1", 1e8, kind="fabric")),
    ),
)
"""Two cables between the same two switches, drawn in opposite directions."""


NETWORKS = {
    **{name: topologies.build(name, options) for name, options in TOPOLOGIES},
    **{f"{name}, example": topology_pages.example(name) for name in topologies.names()},
    "twin-cables": TWIN_CABLES,
}


@pytest.fixture(params=NETWORKS.values(), ids=NETWORKS)
def network(request):
    return request.param


def test_every_pair_has_a_connected_loop_free_path(network):
    for src, dst in itertools.permutations(network.hosts, 2):
        hops = [network.links[i] for i in network.path(src, dst)]
        nodes = [src, *(link.dst for link in hops)]
        assert nodes[-1] == dst
        assert all(link.src == node for link, node in zip(hops, nodes, strict=False))
        assert len(set(nodes)) == len(nodes)


def test_switches_forward_along_the_same_paths(network):
    for src, dst in itertools.permutations(network.hosts, 2):
        hops, node = network.next_links(dst), src
        for index in network.path(src, dst):
            assert network.links[index] == hops[node]
            node = hops[node].dst


def test_a_network_survives_the_file(network, tmp_path):
    write_network(tmp_path / "network.json", network)
    again = read_network(tmp_path / "network.json")
    assert again == network
    assert again.links == network.links


def test_destinations_are_spread_over_parallel_cables():
    taken = {dst: TWIN_CABLES.next_links(dst)["s1"].name for dst in ("h3", "h4")}
    assert sorted(taken.values()) == ["s1->s2", "s1->s2#2"]


def test_destinations_are_spread_over_the_spines():
    network = topologies.build("leaf-spine", {"leaves": 2, "spines": 2, "hosts_per_leaf": 2, "rate_bps": 1e8})
    spines = {network.next_links(dst)["l1"].dst for dst in ("h3", "h4")}
    assert spines == {"p1", "p2"}


@pytest.mark.parametrize(
    ("cables", "message"),
    [
        ([Cable("h1", "s1", 0.0), Cable("h2", "s1", 1e6)], "rate"),
        ([Cable("h1", "s1", 1e6), Cable("h2", "s9", 1e6)], "unknown node 's9'"),
        ([Cable("h1", "s1", 1e6)], "host h2 has 0 cables"),
        ([Cable("h1", "s1", 1e6), Cable("h2", "s1", 1e6), Cable("s1", "s1", 1e6)], "a cable leads from s1 to itself"),
    ],
)
def test_impossible_networks_are_refused_by_name(cables, message):
    with pytest.raises(InputError, match=message):
        Network("t", ("h1", "h2"), ("s1",), tuple(cables))


def test_unknown_topology_and_options_are_named():
    with pytest.raises(InputError, match=f"there is: {', '.join(topologies.names())}"):
        topologies.build("nowhere", {})
    with pytest.raises(InputError, match="topology single-switch: speed: unknown key"):
        topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e6, "speed": 1})
