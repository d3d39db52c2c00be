"""As few hosts as possible, as near each other as possible: what most cluster schedulers try first.

The smallest part of the network with enough free GPUs is taken: a host, else the hosts of one switch, else a pod. Among those of
one size it is the one with the fewest free GPUs, so that larger gaps are left for larger jobs (best fit). Where no part is
enough, the one with the most free GPUs is filled first. Ranks are numbered host by host.
"""

from __future__ import annotations

from collections.abc import Mapping

from echelonflow.model.nearness import Part
from echelonflow.model.placements import Request


def place(request: Request) -> tuple[str, ...]:
    """The host of every rank."""
    found: list[str] = []
    fill(request.cluster.nearness, request.ranks, request.free, found)
    return tuple(found)


def fill(part: Part, ranks: int, free: Mapping[str, int], found: list[str]) -> None:
    """Add to `found` the hosts of `ranks` ranks in a part that has room for them."""
    if not part.parts:
        found += [part.hosts[0]] * ranks
        return
    room = [(sum(free.get(host, 0) for host in inner.hosts), inner) for inner in part.parts]
    room.sort(key=lambda each: -each[0])
    for size, inner in room:
        if size >= ranks:
            best = min((each for each in room if each[0] >= ranks), key=lambda each: each[0])
            fill(best[1], ranks, free, found)
            return
        fill(inner, size, free, found)
        ranks -= size
