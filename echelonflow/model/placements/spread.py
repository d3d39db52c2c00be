"""As far apart as possible: ranks take turns over pods, in these over switches, and in these over hosts.

No two ranks share a host as long as there is another one with a free GPU. Schedulers do this to spread load and failures; a
job's traffic crosses the fabric nearly always then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice

from echelonflow.model.nearness import Part
from echelonflow.model.placements import Request


def place(request: Request) -> tuple[str, ...]:
    """The host of every rank."""
    found: list[str] = []
    left = dict(request.free)
    while len(found) < request.ranks:  # each round puts one more rank on every host that has room
        taken = list(islice(_in_turn(request.cluster.nearness, left), request.ranks - len(found)))
        for host in taken:
            left[host] -= 1
        found += taken
    return tuple(found)


def _in_turn(part: Part, free: Mapping[str, int]) -> Iterator[str]:
    """Every host of a part that has a free GPU, its inner parts taking turns."""
    if not part.parts:
        if free.get(part.hosts[0], 0) > 0:
            yield part.hosts[0]
        return
    turns = deque(_in_turn(inner, free) for inner in part.parts)
    while turns:
        first = turns.popleft()
        host = next(first, None)
        if host is not None:
            yield host
            turns.append(first)
