"""Which links connections took, where the network spreads them and where it does not."""

from __future__ import annotations

import dataclasses

from echelonflow.model import topologies
from results.analysis.connection_paths import paths_of

NETWORK = topologies.build("leaf-spine", {"leaves": 2, "spines": 4, "hosts_per_leaf": 2, "rate_bps": 1e9})


@dataclasses.dataclass
class Flow:
    src_host: str
    dst_host: str
    src_port: int


def flows():
    return [Flow("h1", "h3", 20_000 + port) for port in range(40)] + [Flow("h2", "h4", 20_000)]


def test_by_destination_there_is_one_path_for_each_two_hosts():
    which, paths = paths_of(flows(), NETWORK)
    assert which.tolist() == [0] * 40 + [1]
    assert paths == [NETWORK.path("h1", "h3"), NETWORK.path("h2", "h4")]


def test_connections_that_are_spread_each_have_their_own():
    spread = dataclasses.replace(NETWORK, ecmp_seed=3)
    found = flows()
    which, paths = paths_of(found, spread)
    taken = [paths[place] for place in which.tolist()]
    assert taken == [spread.path(f.src_host, f.dst_host, f.src_port) for f in found]
    assert len(set(taken[:40])) == 4
