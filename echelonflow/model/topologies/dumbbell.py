"""Two switches joined by one cable, hosts divided between them: everything that crosses contends."""

from __future__ import annotations

from echelonflow.bounds import check_network
from echelonflow.model.network import Cable, Network

EXAMPLE = {"hosts": 6, "rate": "100 Mbit/s", "bottleneck_rate": "50 Mbit/s"}


def build(*, hosts: int, rate_bps: float, bottleneck_rate_bps: float | None = None, mtu_bytes: int = 1500) -> Network:
    """Hosts h1..hN; the first half (rounded up) on s1, the rest on s2.

    Hosts' links have `rate_bps`, the cable between the switches `bottleneck_rate_bps` (default: the same).
    """
    check_network({"hosts": hosts}, hosts=hosts, switches=2, cables=hosts + 1)
    names = tuple(f"h{i + 1}" for i in range(hosts))
    left = (hosts + 1) // 2
    cables = [Cable(host, "s1" if i < left else "s2", rate_bps, kind="edge") for i, host in enumerate(names)]
    cables.append(Cable("s1", "s2", bottleneck_rate_bps or rate_bps, kind="bottleneck"))
    return Network("dumbbell", names, ("s1", "s2"), tuple(cables), mtu_bytes)
