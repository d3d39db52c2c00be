"""Ranks that exchange most are put nearest to each other, so that a job's rings cross the fabric as seldom as they can.

After the idea of GADGET, which embeds the ring of an all-reduce in the network: M. Yu, Y. Tian, B. Ji, C. Wu, H. Rajan, J. Liu,
"GADGET: Online Resource Optimization for Scheduling Ring-All-Reduce Learning Jobs", INFOCOM 2022. GADGET also decides how many
workers a job gets, and when; here that is given. Hosts are those of `packed`. Which rank goes where is found from what
ranks send each other, so it serves rings and pipelines alike, several of them at once too:

- From the top down, the ranks of a part are shared out over its inner parts. Each is filled with the rank that exchanges
  most with those that are in it already.
- Then two ranks of different parts change places wherever that leaves less to cross, until no pair does. So do Kernighan and
  Lin, "An Efficient Heuristic Procedure for Partitioning Graphs", Bell System Technical Journal 1970, for many pairs at once.

Where that is no better than the order of the ranks, the order stays. For a single ring it is best already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.nearness import Part
from echelonflow.model.placements import Request
from echelonflow.model.placements.packed import fill

MOST_REFINED = 512
"""Ranks of a job whose places are tried in pairs; of larger ones the first step alone is done."""
_ROUNDS = 4
"""Times that each rank may change its place."""


def place(request: Request) -> tuple[str, ...]:
    """The host of every rank."""
    in_order: list[str] = []
    fill(request.cluster.nearness, request.ranks, request.free, in_order)
    if not request.sent_bytes:
        return tuple(in_order)
    between = _between(request)
    found = [""] * request.ranks
    _share_out(request.cluster.nearness, np.arange(request.ranks), Counter(in_order), between, found)
    costs = [_cost(request.cluster.nearness, hosts, between) for hosts in (found, in_order)]
    return tuple(found if costs[0] < costs[1] else in_order)


def _between(request: Request) -> Floats:
    """What every two ranks exchange, bytes in both directions."""
    found = np.zeros((request.ranks, request.ranks))
    for (src, dst), size_bytes in request.sent_bytes.items():
        found[src, dst] += size_bytes
        found[dst, src] += size_bytes
    return found


def _share_out(part: Part, ranks: Ints, taken: Counter[str], between: Floats, found: list[str]) -> None:
    """Give each of `ranks` one of the places that are `taken` on the hosts of a part."""
    if not part.parts:
        for rank in ranks.tolist():
            found[rank] = part.hosts[0]
        return
    sizes = [sum(taken[host] for host in inner.hosts) for inner in part.parts]
    used = [(size, inner) for size, inner in zip(sizes, part.parts, strict=True) if size]
    used.sort(key=lambda each: -each[0])
    own = between[np.ix_(ranks, ranks)]
    member = _grown([size for size, _ in used], own)
    if len(ranks) <= MOST_REFINED:
        _exchange(member, own, len(used))
    for number, (_, inner) in enumerate(used):
        _share_out(inner, ranks[member == number], taken, between, found)


def _grown(sizes: Sequence[int], between: Floats) -> Ints:
    """Which of so many groups of these sizes each rank is in, each group grown from its first rank."""
    member = np.full(len(between), -1, np.int64)
    for number, size in enumerate(sizes):
        pull = np.where(member < 0, 0.0, -1.0)
        for _ in range(size):
            rank = int(np.argmax(pull))  # the first one of those that are equal
            member[rank] = number
            pull = np.where(member < 0, pull + between[rank], -1.0)
    return member


def _exchange(member: Ints, between: Floats, groups: int) -> None:
    """Let ranks of different groups change places, the pair that gains most first, as long as one gains."""
    if groups == 1:
        return
    ranks = np.arange(len(member))
    into = np.stack([between[:, member == number].sum(axis=1) for number in range(groups)], axis=1)
    for _ in range(_ROUNDS * len(member)):
        own = into[ranks, member]
        there = into[:, member]  # what each rank exchanges with the group of each other
        gain = there - own[:, None]
        gain = gain + gain.T - 2 * between
        best = int(np.argmax(gain))
        one, other = divmod(best, len(member))
        if gain[one, other] <= 1e-9 * (1 + own.max()) or member[one] == member[other]:
            return
        for rank, left, entered in ((one, member[one], member[other]), (other, member[other], member[one])):
            into[:, left] -= between[:, rank]
            into[:, entered] += between[:, rank]
        member[one], member[other] = member[other], member[one]


def _cost(part: Part, hosts: Sequence[str], between: Floats) -> float:
    """Bytes that ranks on these hosts exchange, each as often as links between switches lie on its way."""
    found = 0.0
    rank_of_host: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        rank_of_host.setdefault(host, []).append(rank)

    def inside(part: Part) -> list[int]:
        nonlocal found
        if not part.parts:
            return rank_of_host.get(part.hosts[0], [])
        groups = [ranks for ranks in map(inside, part.parts) if ranks]
        whole = [rank for ranks in groups for rank in ranks]
        kept = sum(float(between[np.ix_(ranks, ranks)].sum()) for ranks in groups)
        # A byte that leaves a host for another one at its switch still takes both hosts' cables.
        found += (float(between[np.ix_(whole, whole)].sum()) - kept) * (part.hops + 2)
        return whole

    inside(part)
    return found
