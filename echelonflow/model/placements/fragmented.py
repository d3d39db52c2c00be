"""What is left in a cluster after jobs came and went: gaps of a few GPUs, here and there.

A full cluster is imagined, in which earlier jobs hold 1 to `largest` neighbouring GPUs each. They leave in random order, and the
job gets what they leave, first come first served. So its ranks sit in groups of a few GPUs on hosts all over the network. All
jobs with one seed see the same cluster; ranks are numbered in the order of the hosts.
"""

from __future__ import annotations

from random import Random

from echelonflow.errors import InputError
from echelonflow.model.placements import Request


def place(request: Request, *, seed: int = 0, largest: int = 4) -> tuple[str, ...]:
    """The host of every rank."""
    if largest < 1:
        raise InputError(f"fragmented: largest: {largest} GPUs are no gap; write a whole number of at least 1")
    chance = Random(f"{seed}")
    network = request.cluster.network
    slots = [host for host in network.hosts for _ in range(max(network.gpus_per_host, request.free.get(host, 0)))]
    gaps: list[list[str]] = []
    while slots:
        size = chance.randint(1, largest)
        gaps.append(slots[:size])
        slots = slots[size:]
    chance.shuffle(gaps)
    left = dict(request.free)
    taken: list[str] = []
    for host in (host for gap in gaps for host in gap):
        if len(taken) < request.ranks and left.get(host, 0) > 0:
            left[host] -= 1
            taken.append(host)
    order = {host: place for place, host in enumerate(network.hosts)}
    return tuple(sorted(taken, key=order.__getitem__))
