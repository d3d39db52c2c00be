"""Switches in a ring, a host at each: traffic goes the shorter way round."""

from __future__ import annotations

from echelonflow.model.network import Cable, Network

EXAMPLE = {"hosts": 5, "rate": "100 Mbit/s", "ring_rate": "200 Mbit/s"}


def build(*, hosts: int, rate_bps: float, ring_rate_bps: float, mtu_bytes: int = 1500) -> Network:
    """Hosts h1..hN on switches s1..sN; a host's link has `rate_bps`, a cable of the ring `ring_rate_bps`."""
    names = tuple(f"h{i + 1}" for i in range(hosts))
    switches = tuple(f"s{i + 1}" for i in range(hosts))
    cables = [Cable(host, switch, rate_bps, kind="edge") for host, switch in zip(names, switches, strict=True)]
    cables += [Cable(switches[i - 1], switches[i], ring_rate_bps, kind="ring") for i in range(hosts)]
    return Network("switch-ring", names, switches, tuple(cables), mtu_bytes)
