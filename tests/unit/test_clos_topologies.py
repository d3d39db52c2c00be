"""Topologies of several layers, and rates of single cables."""

from __future__ import annotations

from collections import Counter

import pytest

from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.cable_rates import with_rates

GBPS = 1e9
TABLE = "ip,DSW,PSW,ASW\na,G1,P1,S1\nb,G1,P1,S1\nc,G1,P1,S2\nd,G1,P2,S1\n"


def cables(network, kind):
    return [cable for cable in network.cables if cable.kind == kind]


def rates(network):
    return {cable.kind: cable.rate_bps / GBPS for cable in network.cables}


def layered(tmp_path, text=TABLE, **options):
    path = tmp_path / "hosts.csv"
    path.write_text(text)
    return topologies.build("three-layer", {"file": str(path), "rate_bps": 10 * GBPS, **options})


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_fat_tree_has_the_numbers_of_the_paper(k):
    network = topologies.build("fat-tree", {"k": k, "rate_bps": GBPS})
    assert len(network.hosts) == k**3 // 4
    kinds = Counter(switch[0] for switch in network.switches)
    assert kinds == {"e": k * k // 2, "a": k * k // 2, "c": (k // 2) ** 2}
    ports = Counter(end for cable in network.cables for end in (cable.a, cable.b) if end not in network.edge_switch)
    assert set(ports.values()) == {k}
    assert rates(network) == {"edge": 1, "pod": 1, "core": 1}


def test_each_core_of_a_fat_tree_has_one_cable_to_every_pod():
    network = topologies.build("fat-tree", {"k": 6, "rate_bps": GBPS})
    pods = {
        core: Counter((int(cable.a[1:]) - 1) // 3 for cable in cables(network, "core") if cable.b == core)
        for core in network.switches
        if core.startswith("c")
    }
    assert len(pods) == 9
    assert all(found == dict.fromkeys(range(6), 1) for found in pods.values())


def test_destinations_are_spread_over_all_cores_of_a_fat_tree():
    network = topologies.build("fat-tree", {"k": 4, "rate_bps": GBPS})
    cores = Counter(
        network.path_in_words(src, dst, 1).split()[2] for src in network.hosts[:4] for dst in network.hosts[4:]
    )
    assert cores == {"c1": 12, "c2": 12, "c3": 12, "c4": 12}


def test_what_crosses_an_oversubscribed_fabric_has_a_share_of_the_hosts_rate():
    assert rates(topologies.build("fat-tree", {"k": 4, "rate_bps": GBPS, "oversubscription": 4.0})) == {
        "edge": 1, "pod": 0.25, "core": 0.25,
    }  # fmt: skip
    leaves = {"leaves": 2, "spines": 2, "hosts_per_leaf": 8, "rate_bps": GBPS}
    assert rates(topologies.build("leaf-spine", leaves)) == {"edge": 1, "fabric": 4}
    assert rates(topologies.build("leaf-spine", {**leaves, "oversubscription": 4.0})) == {"edge": 1, "fabric": 1}


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("fat-tree", {"k": 3}, "k: 3 is odd; half of a switch's ports lead up"),
        ("fat-tree", {"k": 40}, "k: 40 is too many: 16,000 hosts are asked for"),
        ("fat-tree", {"k": 4, "oversubscription": 0.0}, "oversubscription: 0 is not a number above 0"),
        (
            "leaf-spine",
            {"leaves": 2, "spines": 2, "hosts_per_leaf": 2, "fabric_rate_bps": 1e9, "oversubscription": 2.0},
            "oversubscription: does not go with fabric_rate",
        ),
    ],
)
def test_options_that_make_no_network_are_named(name, options, said):
    with pytest.raises(InputError, match=said):
        topologies.build(name, {"rate_bps": GBPS, **options})


def test_the_layers_of_a_file_keep_their_names_and_switches_of_two_pods_are_two(tmp_path):
    network = layered(tmp_path)
    assert network.hosts == ("h1", "h2", "h3", "h4")
    assert network.edge_switch == {"h1": "P1.S1", "h2": "P1.S1", "h3": "P1.S2", "h4": "P2.S1"}
    assert network.switches == ("P1.S1", "P1.S2", "P2.S1", "P1", "P2", "G1")
    assert network.path_in_words("h1", "h2", 1) == "P1.S1"
    assert network.path_in_words("h1", "h3", 1) == "P1.S1 P1 P1.S2"
    assert network.path_in_words("h1", "h4", 1) == "P1.S1 P1 G1 P2 P2.S1"


def test_cables_upwards_are_made_for_the_switch_with_the_most_below_it(tmp_path):
    assert rates(layered(tmp_path)) == {"edge": 10, "leaf": 20, "core": 40}
    assert rates(layered(tmp_path, oversubscription=2.0)) == {"edge": 10, "leaf": 10, "core": 20}
    assert rates(layered(tmp_path, oversubscription=2.0, core_oversubscription=4.0)) == {
        "edge": 10,
        "leaf": 10,
        "core": 5,
    }
    assert rates(layered(tmp_path, leaf_rate_bps=3 * GBPS, core_rate_bps=GBPS)) == {"edge": 10, "leaf": 3, "core": 1}
    planes = layered(tmp_path, planes=4)
    assert rates(planes) == {"edge": 10, "leaf": 5, "core": 10}
    assert Counter(cable.kind for cable in planes.cables) == {"edge": 4, "leaf": 12, "core": 8}
    assert {planes.path_in_words("h1", dst, 1).split()[1] for dst in planes.hosts[2:]} <= {
        f"P1.{n}" for n in range(1, 5)
    }


def test_pods_of_one_name_under_two_switches_are_two_and_the_top_is_joined(tmp_path):
    network = layered(tmp_path, "n,ASW,PSW,DSW,more\na,S1,P1,G1,x\nb,S1,P1,G2,y\n")
    assert network.switches == ("G1.P1.S1", "G2.P1.S1", "G1.P1", "G2.P1", "G1", "G2", "x1")
    assert network.path_in_words("h1", "h2", 1) == "G1.P1.S1 G1.P1 G1 x1 G2 G2.P1 G2.P1.S1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: no column DSW; the first line names the columns, such as ip,DSW,PSW,ASW"),
        ("ip,DSW,ASW\na,G,S\n", ":1: no column PSW"),
        (TABLE + "e,G1,P1\n", ":6: has 3 cells; the first line names 4 columns"),
        (TABLE + "a,G1,P1,S3\n", ":6: the host 'a' stands on line 2 already"),
        (TABLE + "e,G1,P1,\n", ":6: '' in column ASW is no name of a switch"),
        (TABLE + "e,G1,P1,S 1\n", ":6: 'S 1' in column ASW is no name of a switch"),
        (TABLE.split("b,", maxsplit=1)[0], "describes 1 hosts; a network has at least 2"),
    ],
)
def test_a_file_that_describes_no_network_is_refused_by_line(tmp_path, text, said):
    with pytest.raises(InputError) as refused:
        layered(tmp_path, text)
    assert said in str(refused.value)
    assert str(refused.value).startswith("file: ")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name, said in (("nowhere", "cannot be read: No such file"), ("bytes", "is not text"), (".", "cannot be read")):
        with pytest.raises(InputError, match=said):
            topologies.build("three-layer", {"file": str(tmp_path / name), "rate_bps": GBPS})


def test_a_rate_and_an_oversubscription_of_the_same_cables_are_not_both_taken(tmp_path):
    for rate, over in (("leaf_rate_bps", "oversubscription"), ("core_rate_bps", "core_oversubscription")):
        with pytest.raises(InputError, match=f"{over}: does not go with {rate.removesuffix('_bps')}"):
            layered(tmp_path, **{rate: GBPS, over: 2.0})


def test_single_cables_may_have_other_rates_and_the_narrower_name_holds():
    network = topologies.build("leaf-spine", {"leaves": 2, "spines": 2, "hosts_per_leaf": 2, "rate_bps": GBPS})
    other = with_rates(network, {"h3": 5e8, "l2": 2e8, "l1-p2": 1e8, "p1-l1": 3e8})
    found = {f"{cable.a}-{cable.b}": cable.rate_bps for cable in other.cables}
    assert found == {
        "h1-l1": 1e9, "h2-l1": 1e9, "h3-l2": 5e8, "h4-l2": 2e8,
        "l1-p1": 3e8, "l1-p2": 1e8, "l2-p1": 1e9, "l2-p2": 1e9,
    }  # fmt: skip
    assert [link.rate_bps for link in other.links if {link.src, link.dst} == {"l1", "p2"}] == [1e8, 1e8]
    assert with_rates(network, {}) == network


def test_all_names_that_are_no_cable_are_said_at_once():
    network = topologies.build("leaf-spine", {"leaves": 2, "spines": 2, "hosts_per_leaf": 2, "rate_bps": GBPS})
    with pytest.raises(InputError) as refused:
        with_rates(network, {"h9": 1e8, "p1": 1e8, "l1-l2": 1e8, "l1-q2": 1e8, "l1-p1": 1e8})
    lines = str(refused.value).split("\n")
    assert [line.partition(": ")[0] for line in lines] == ["rates.h9", "rates.p1", "rates.l1-l2", "rates.l1-q2"]
    assert "switch p1 has no hosts; name both ends of a cable, such as l2-p2" in lines[1]
    assert "no cable joins l1 and l2" in lines[2]
    assert "'l1-q2' names no cable" in lines[3]
