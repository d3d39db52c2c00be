"""Where placements put jobs, and how near hosts are to each other."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from echelonflow.errors import InputError
from echelonflow.model import placements, topologies
from echelonflow.model.dag import Group, JobDag, Transfer
from echelonflow.model.nearness import parts_of
from echelonflow.model.network import Cable, Network
from echelonflow.model.placements import Cluster, Request

LEAVES = topologies.build("leaf-spine", {"leaves": 2, "spines": 2, "hosts_per_leaf": 4, "rate_bps": 1e8})
PODS = topologies.build("fat-tree", {"k": 4, "rate_bps": 1e8})
"""h1 and h2 on the first switch, h1 to h4 in the first pod, h1 to h16 in all."""


def placed(text, network, ranks, free=None, job="", **sent):
    cluster = Cluster(network)
    sent_bytes = {(int(pair.split("to")[0][1:]), int(pair.split("to")[1])): size for pair, size in sent.items()}
    return placements.place(text, Request(cluster, free or cluster.all_free(), ranks, job, sent_bytes))


def ring(ranks):
    return {f"r{rank}to{(rank + 1) % ranks}": 1000 for rank in range(ranks)}


def crossings(hosts, network, sent):
    """Bytes that cross the fabric."""
    switch = network.edge_switch
    ends = ((*map(int, pair[1:].split("to")), size) for pair, size in sent.items())
    return sum(size for src, dst, size in ends if switch[hosts[src]] != switch[hosts[dst]])


def test_hosts_of_a_switch_are_nearer_than_those_of_a_pod_and_these_than_others():
    whole = parts_of(PODS)
    assert whole.hosts == PODS.hosts
    assert whole.hops == 4
    assert [pod.hosts for pod in whole.parts] == [tuple(f"h{i + 1}" for i in range(4 * p, 4 * p + 4)) for p in range(4)]
    first = whole.parts[0]
    assert (first.hops, [part.hosts for part in first.parts]) == (2, [("h1", "h2"), ("h3", "h4")])
    assert [host.hosts for host in first.parts[0].parts] == [("h1",), ("h2",)]


def test_leaves_that_meet_at_the_same_spines_are_one_part():
    whole = parts_of(LEAVES)
    assert (whole.hops, [part.hosts for part in whole.parts]) == (2, [LEAVES.hosts[:4], LEAVES.hosts[4:]])


def test_one_switch_is_one_part_and_islands_are_joined_last():
    assert len(parts_of(topologies.build("single-switch", {"hosts": 3, "rate_bps": 1e6})).parts) == 3
    islands = Network(
        "t",
        ("h1", "h2", "h3"),
        ("s1", "s2"),
        tuple(Cable(h, s, 1e6) for h, s in (("h1", "s1"), ("h2", "s2"), ("h3", "s1"))),
    )
    assert [part.hosts for part in parts_of(islands).parts] == [("h1", "h3"), ("h2",)]


def test_packed_fills_the_smallest_part_that_is_enough_and_leaves_large_gaps():
    assert placed("packed", PODS, 2) == ("h1", "h2")
    assert placed("packed", PODS, 3) == ("h1", "h2", "h3")
    free = dict.fromkeys(PODS.hosts, 1) | {"h1": 0}
    assert placed("packed", PODS, 1, free) == ("h2",)  # the rest of a switch that is half taken
    assert placed("packed", PODS, 2, free) == ("h3", "h4")
    assert placed("packed", PODS, 3, free) == ("h3", "h4", "h2")
    assert placed("packed", PODS, 4, free) == ("h5", "h6", "h7", "h8")


def test_packed_takes_whole_hosts_first_where_they_have_several_gpus():
    free = {"h1": 1, "h2": 2, "h3": 4, "h4": 4, "h5": 8}
    assert placed("packed", LEAVES, 4, free) == ("h3",) * 4
    assert placed("packed", LEAVES, 2, free) == ("h2",) * 2
    assert Counter(placed("packed", LEAVES, 9, free)) == {"h3": 4, "h4": 4, "h1": 1}


def test_spread_uses_every_pod_and_every_switch_before_it_uses_one_again():
    found = placed("spread", PODS, 8)
    assert {PODS.edge_switch[host] for host in found} == {f"e{i + 1}" for i in range(8)}
    assert [PODS.hosts.index(host) // 4 for host in found[:4]] == [0, 1, 2, 3]
    twice = placed("spread", LEAVES, 10, dict.fromkeys(LEAVES.hosts, 2))
    assert sorted(Counter(twice).values()) == [1] * 6 + [2] * 2


def test_random_differs_by_seed_and_by_job_and_repeats_itself():
    found = {(seed, job): placed(f"random(seed={seed})", PODS, 6, job=job) for seed in range(4) for job in ("a", "b")}
    assert len(set(found.values())) == len(found)
    assert placed("random(seed=3)", PODS, 6, job="b") == found[3, "b"]


def test_fragmented_leaves_gaps_between_groups_of_neighbours():
    network = topologies.build("single-switch", {"hosts": 64, "rate_bps": 1e8})
    place = {host: i for i, host in enumerate(network.hosts)}
    for seed in range(5):
        taken = [place[host] for host in placed(f"fragmented(seed={seed}, largest=4)", network, 16)]
        groups = 1 + sum(b - a > 1 for a, b in itertools.pairwise(taken))
        assert taken == sorted(taken)
        assert 4 <= groups <= 14, taken
    alone = [place[host] for host in placed("fragmented(largest=1)", network, 16)]
    assert sum(b - a == 1 for a, b in itertools.pairwise(alone)) < 10


def test_jobs_of_one_seed_share_the_cluster_that_was_left():
    first = placed("fragmented(seed=1)", PODS, 6)
    left = {host: int(host not in first) for host in PODS.hosts}
    both = placed("fragmented(seed=1)", PODS, 6, left)
    assert set(first) | set(both) == set(placed("fragmented(seed=1)", PODS, 12))


def test_a_ring_of_every_second_rank_is_put_under_one_switch():
    sent = {
        f"r{a}to{b}": 1000
        for ring in ((0, 2, 4, 6), (1, 3, 5, 7))
        for a, b in zip(ring, (*ring[1:], ring[0]), strict=True)
    }
    packed, aware = (placed(text, LEAVES, 8, None, "", **sent) for text in ("packed", "ring-aware"))
    assert crossings(packed, LEAVES, sent) > 0
    assert crossings(aware, LEAVES, sent) == 0


def test_a_ring_in_order_crosses_the_fabric_twice_and_stays_as_it_is():
    assert placed("ring-aware", LEAVES, 8, None, "", **ring(8)) == placed("packed", LEAVES, 8)
    assert crossings(placed("ring-aware", LEAVES, 8, None, "", **ring(8)), LEAVES, ring(8)) == 2000


def test_what_a_first_guess_gets_wrong_is_exchanged():
    # Grown from rank 0, whose heaviest neighbour belongs to the others by its own neighbours.
    sent = {
        "r0to4": 500,
        "r0to1": 400,
        "r1to2": 400,
        "r2to3": 400,
        "r3to0": 400,
        "r4to5": 900,
        "r5to6": 900,
        "r6to7": 900,
        "r7to4": 900,
    }
    aware = placed("ring-aware", LEAVES, 8, None, "", **sent)
    assert crossings(aware, LEAVES, sent) == 500


def test_without_anything_to_send_ranks_are_packed_in_order():
    assert placed("ring-aware", PODS, 7) == placed("packed", PODS, 7)


def test_what_ranks_send_each_other_is_added_up():
    transfers = (Transfer("a", 0, 1, 5, "c"), Transfer("b", 0, 1, 7, "c"), Transfer("d", 1, 0, 1, "c"))
    dag = JobDag(2, transfers, (Group("g", "", ("a", "b", "d"), (0.0,) * 3),))
    assert placements.sent_bytes(dag) == {(0, 1): 12, (1, 0): 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nearest", "unknown placement 'nearest'; there is: fragmented, packed, random, ring-aware, spread"),
        ("packed(seed=1)", "packed: seed: unknown key"),
        ("random(seed=x)", "random: seed: 'x' is not a whole number"),
        ("random(seed", "is not a name with options; write such as 'random\\(seed=7\\)'"),
    ],
)
def test_a_wrong_placement_is_named(text, said):
    with pytest.raises(InputError, match=said):
        placements.check(text)
