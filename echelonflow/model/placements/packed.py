"""As few hosts as possible, as near each other as possible: what most cluster schedulers try first.

The smallest part of the network with enough free GPUs is taken: a host, else the hosts of one switch, else a pod. Among those of
one size it is the one with the fewest free GPUs, so that larger gaps are left for larger jobs (best fit). Where no part is
enough, the one with the most free GPUs is filled first. Ranks are numbered host by host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from echelonflow.model.nearness import Part
from echelonflow.model.placements import Request


def place(request: Request) -> tuple[str, ...]:
    """The host of every rank."""
    found: list[str] = []
    fill(request.cluster.nearness, request.ranks, request.free, found)
    return tuple(found)


def fill(part: Part, ranks: int, free: Mapping[str, int], found: list[str]) -> None:
    """Add to `found` the hosts of `ranks` ranks, in the smallest part of `part`, which has room for them."""
    chosen = _looked_at(part, ranks, free).best
    if chosen is None:
        return
    if not chosen.part.parts:
        found += [chosen.part.hosts[0]] * ranks
        return
    room = sorted((_looked_at(inner, 1, free) for inner in chosen.part.parts), key=lambda each: -each.free)
    for place, each in enumerate(room):
        if each.free >= ranks:
            rest = Part((), 0, tuple(other.part for other in room[place:]))
            fill(rest, ranks, free, found)
            return
        fill(each.part, each.free, free, found)
        ranks -= each.free


class _Look(NamedTuple):
    """A part, how many layers of parts it has, and how many GPUs are free in it."""

    part: Part
    layers: int
    free: int
    best: _Look | None
    """The smallest part in it, or itself, that has room for what is looked for; of several the one with the least room."""


def _looked_at(part: Part, ranks: int, free: Mapping[str, int]) -> _Look:
    if not part.parts:
        looked = _Look(part, 0, free.get(part.hosts[0], 0), None)
    else:
        inner = [_looked_at(each, ranks, free) for each in part.parts]
        looked = _Look(part, 1 + max(each.layers for each in inner), sum(each.free for each in inner), None)
        fits = [each.best for each in inner if each.best is not None]
        if fits:
            return looked._replace(best=min(fits, key=lambda each: (each.layers, each.free)))
    return looked._replace(best=looked) if looked.free >= ranks else looked
