"""A two-tier Clos network: every leaf switch has one cable to every spine switch."""

from __future__ import annotations

from echelonflow.bounds import check_network
from echelonflow.errors import InputError
from echelonflow.model.network import Cable, Network
from echelonflow.model.topologies._fabric import checked_oversubscription

EXAMPLE = {"leaves": 3, "spines": 2, "hosts_per_leaf": 3, "rate": "30 Mbit/s"}


def build(
    *,
    leaves: int,
    spines: int,
    hosts_per_leaf: int,
    rate_bps: float,
    fabric_rate_bps: float | None = None,
    oversubscription: float | None = None,
    mtu_bytes: int = 1500,
) -> Network:
    """Hosts h1..hN in order of leaves l1..; spines p1... Hosts' links have `rate_bps`.

    A leaf-to-spine cable has `fabric_rate_bps`; by default enough that the fabric does not block
    (`rate_bps * hosts_per_leaf / spines`). With an `oversubscription` of 4 it has a fourth of that: hosts below a leaf
    can send four times as much as the leaf's cables to the spines carry.
    """
    given = {"leaves": leaves, "spines": spines, "hosts_per_leaf": hosts_per_leaf}
    check_network(
        given, hosts=leaves * hosts_per_leaf, switches=leaves + spines, cables=leaves * (hosts_per_leaf + spines)
    )
    if fabric_rate_bps is not None and oversubscription is not None:
        raise InputError(
            "oversubscription: does not go with fabric_rate; each gives the rate of cables between switches"
        )
    share = checked_oversubscription("oversubscription", oversubscription)
    leaf_names = tuple(f"l{i + 1}" for i in range(leaves))
    spine_names = tuple(f"p{i + 1}" for i in range(spines))
    hosts = tuple(f"h{i + 1}" for i in range(leaves * hosts_per_leaf))
    fabric = fabric_rate_bps or rate_bps * hosts_per_leaf / spines / share
    cables = [Cable(h, leaf_names[i // hosts_per_leaf], rate_bps, kind="edge") for i, h in enumerate(hosts)]
    cables += [Cable(leaf, spine, fabric, kind="fabric") for leaf in leaf_names for spine in spine_names]
    return Network("leaf-spine", hosts, (*leaf_names, *spine_names), tuple(cables), mtu_bytes)
