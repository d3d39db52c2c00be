"""A fat-tree: three layers of equal switches with `k` ports each, in which every host can send at its full rate.

Al-Fares, Loukissas, Vahdat, "A Scalable, Commodity Data Center Network Architecture", SIGCOMM 2008, section 2.2. There are k
pods of k/2 edge and k/2 aggregation switches, (k/2)² core switches, and k³/4 hosts. Between hosts of different pods there are
(k/2)² shortest paths. The paper spreads flows by tables of two levels; here `routing` says how they are spread.
"""

from __future__ import annotations

from echelonflow.bounds import check_network
from echelonflow.errors import InputError
from echelonflow.model.network import Cable, Network
from echelonflow.model.topologies._fabric import checked_oversubscription

EXAMPLE = {"k": 4, "rate": "40 Mbit/s"}


def build(*, k: int, rate_bps: float, oversubscription: float = 1.0, mtu_bytes: int = 1500) -> Network:
    """Hosts h1.. in order of pods and edge switches; edges e1.. and aggregations a1.. in order of pods; cores c1...

    `k`, an even number, is the number of ports of each switch. Hosts' links have `rate_bps`. Cables between switches have that
    divided by `oversubscription`: of 4, hosts below an edge switch can send four times as much as its cables upwards carry.
    """
    if k % 2:
        raise InputError(f"k: {k} is odd; half of a switch's ports lead up and half down, so write an even number")
    half = k // 2
    check_network({"k": k}, hosts=k * half**2, switches=k * k + half**2, cables=3 * k * half**2)
    share = checked_oversubscription("oversubscription", oversubscription)
    hosts = tuple(f"h{i + 1}" for i in range(k * half**2))
    edges = tuple(f"e{i + 1}" for i in range(k * half))
    aggregations = tuple(f"a{i + 1}" for i in range(k * half))
    cores = tuple(f"c{i + 1}" for i in range(half**2))
    cables = [Cable(host, edges[i // half], rate_bps, kind="edge") for i, host in enumerate(hosts)]
    upwards_bps = rate_bps / share
    for pod in range(k):
        inside = range(pod * half, (pod + 1) * half)
        cables += [Cable(edges[e], aggregations[a], upwards_bps, kind="pod") for e in inside for a in inside]
    for i, aggregation in enumerate(aggregations):
        # The first aggregation switch of each pod has the first k/2 cores, the second the next ones, and so on.
        first = i % half * half
        cables += [Cable(aggregation, core, upwards_bps, kind="core") for core in cores[first : first + half]]
    return Network("fat-tree", hosts, (*edges, *aggregations, *cores), tuple(cables), mtu_bytes)
