"""What every placement, under every option, promises to those who ask for hosts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.model import placements, topologies
from echelonflow.model.placements import Cluster, NoRoomError, Request
from echelonflow.options import options_of

NETWORKS = {
    "one switch": topologies.build("single-switch", {"hosts": 5, "rate_bps": 1e8}),
    "leaves": topologies.build("leaf-spine", {"leaves": 3, "spines": 2, "hosts_per_leaf": 4, "rate_bps": 1e8}),
    "pods": topologies.build("fat-tree", {"k": 4, "rate_bps": 1e8}),
    "layers": topologies.example("three-layer"),
}
CLUSTERS = {name: Cluster(network) for name, network in NETWORKS.items()}
OTHER = {"seed": (0, 1, 12345), "largest": (1, 3, 100)}
"""Values of options that are tried beside the default; a number for any other option."""


def texts(name):
    """A placement with each of its options in turn, as a user writes them."""
    options = options_of(placements.load(name).place, given=("request",), units=False)
    return [name, *(f"{name}({each.key}={value})" for each in options for value in OTHER.get(each.key, (1, 2, 7)))]


ALL = [text for name in placements.names() for text in texts(name)]


@st.composite
def requests(draw):
    """A cluster in which some GPUs are free, and a job that fits into them."""
    cluster = CLUSTERS[draw(st.sampled_from(sorted(CLUSTERS)))]
    hosts = cluster.network.hosts
    free = dict(zip(hosts, draw(st.lists(st.integers(0, 3), min_size=len(hosts), max_size=len(hosts))), strict=True))
    free[hosts[0]] += 1
    ranks = draw(st.integers(1, sum(free.values())))
    pairs = st.tuples(st.integers(0, ranks - 1), st.integers(0, ranks - 1)).filter(lambda pair: pair[0] != pair[1])
    sent = draw(st.dictionaries(pairs, st.integers(1, 10**9), max_size=20)) if ranks > 1 else {}
    return Request(cluster, free, ranks, draw(st.sampled_from(("a", "b"))), sent)


@pytest.mark.parametrize("text", ALL)
@given(request=requests())
@settings(max_examples=25, deadline=None)
def test_every_rank_has_a_free_gpu_and_the_request_is_left_as_it_was(text, request):
    before = dict(request.free)
    found = placements.place(text, request)
    assert isinstance(found, tuple)
    assert len(found) == request.ranks
    assert all(count <= before[host] for host, count in Counter(found).items())
    assert dict(request.free) == before
    assert placements.place(text, request) == found


@pytest.mark.parametrize("text", ALL)
def test_the_last_free_gpu_is_found_and_one_more_is_refused_with_the_counts(text):
    for cluster in CLUSTERS.values():
        free = cluster.all_free()
        gpus = len(cluster.network.hosts)
        assert Counter(placements.place(text, Request(cluster, free, gpus))) == Counter(free)
        with pytest.raises(NoRoomError, match=f"{gpus + 1} GPUs are asked for, .* {gpus} of the cluster's {gpus} are"):
            placements.place(text, Request(cluster, free, gpus + 1))
        with pytest.raises(NoRoomError, match=f"1 GPUs are asked for, .* 0 of the cluster's {gpus} are free"):
            placements.place(text, Request(cluster, {}, 1))
