"""All hosts on one switch; the only contention is at the hosts' own links."""

from __future__ import annotations

from echelonflow.bounds import check_network
from echelonflow.model.network import Cable, Network

EXAMPLE = {"hosts": 6, "rate": "100 Mbit/s"}


def build(*, hosts: int, rate_bps: float, mtu_bytes: int = 1500) -> Network:
    """`hosts` hosts h1, h2, ... on switch s1, each with a link of `rate_bps`."""
    check_network({"hosts": hosts}, hosts=hosts, switches=1, cables=hosts)
    names = tuple(f"h{i + 1}" for i in range(hosts))
    cables = tuple(Cable(host, "s1", rate_bps, kind="edge") for host in names)
    return Network("single-switch", names, ("s1",), cables, mtu_bytes)
