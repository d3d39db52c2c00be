"""Collectives as flows: who sends how many bytes to whom, and what must have arrived before.

A collective is a list of rounds (`rounds`). A rank sends what it has in one round once it holds what the rounds before
brought it, and what it sent before is gone. `expand` makes transfers of that.

Bytes are those of nccl-tests: `size_bytes` S is the buffer that is reduced or broadcast. Of a reduce-scatter or
all-to-all it is a rank's whole input (its own part included), of an all-gather a rank's whole output. With n ranks, a
rank sends 2(n-1)/n S in an all-reduce and (n-1)/n S in a reduce-scatter or all-gather by ring, halving-doubling or
directly.

What is left out:
 - `ring`: the steps between two neighbours are chunks of one flow, released when its source is ready. A rank waits
   for its own two neighbours, not for a slow rank further up the ring: that one's lag arrives a collective
   later. `ring-steps` has every step as a flow of its own and waits for all, at n - 1 times the flows.
 - `tree` and the broadcast along a `ring` are store and forward; `pieces` cuts the buffer so that pieces are
   passed on while others still arrive.
 - adding up costs no time.
Sources: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH" (2005).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from echelonflow.errors import InputError
from echelonflow.model.dag import Transfer

Collective = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast"]
Algorithm = Literal["ring", "ring-steps", "halving-doubling", "direct", "tree"]

Round = list[tuple[int, int, int]]
"""(sender, receiver, bytes): places among the ranks of the collective; all of a round go out together."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """The transfers of one collective, and for each of its ranks the transfers after which it is over for that rank.

    What `done[i]` names arrives at or leaves from rank i, so the host of rank i can notice it.
    """

    transfers: tuple[Transfer, ...]
    done: tuple[tuple[str, ...], ...]


def expand(
    name: str,
    collective: Collective,
    algorithm: Algorithm,
    *,
    ranks: Sequence[int],
    size_bytes: int,
    after: Sequence[Sequence[str]],
    coflow: str = "",
    root: int = 0,
    pieces: int = 1,
) -> Expansion:
    """The flows of one collective among `ranks`, in the order of the ring.

    `after[i]` names the steps after which rank i takes part. All flows belong to Coflow `coflow` (unless given:
    `name`). `root` is a place among `ranks`. The buffer is sent in `pieces`, one after
    the other. Parts are whole bytes, of at least one: with fewer bytes than ranks, more is sent than there is.
    A collective of one rank has no flows. Raises InputError for an unknown collective or algorithm, ranks named
    twice, bytes or pieces that are not positive, and halving-doubling among ranks that are no power of two.
    """
    if len(after) != len(ranks) or len(set(ranks)) != len(ranks):
        raise InputError(f"collective {name!r}: {len(ranks)} ranks, which must differ, and {len(after)} lists of steps")
    if pieces < 1 or size_bytes < 1:
        raise InputError(f"collective {name!r}: {size_bytes} bytes in {pieces} pieces; at least 1 of each is needed")
    if len(ranks) == 1:
        return Expansion((), (tuple(after[0]),))
    sizes = _split(size_bytes, pieces)
    plans = [rounds(collective, algorithm, len(ranks), piece_bytes, root) for piece_bytes in sizes]
    numbered = len(plans) > 1 or len(plans[0]) > 1
    transfers: list[Transfer] = []
    waiting: list[list[str]] = []
    sent = [list(steps) for steps in after]
    number = itertools.count()
    for plan in plans:
        # A piece follows what the rank sent of the piece before; the first one, what the rank waits for.
        waiting, sent = sent, [[] for _ in ranks]
        for each in plan:
            suffix = f" s{next(number)}" if numbered else ""
            out: list[list[str]] = [[] for _ in ranks]
            got: list[list[str]] = [[] for _ in ranks]
            ready = [tuple(names) for names in waiting]
            for i, j, part_bytes in each:
                flow = f"{name} {ranks[i]}->{ranks[j]}{suffix}"
                transfers.append(Transfer(flow, ranks[i], ranks[j], part_bytes, coflow or name, ready[i]))
                out[i].append(flow)
                got[j].append(flow)
            waiting = [(out[i] or waiting[i]) + got[i] for i in range(len(ranks))]
            sent = [sent[i] + out[i] for i in range(len(ranks))]
    return Expansion(tuple(transfers), tuple(tuple(steps) for steps in waiting))


def flows_of(collective: Collective, algorithm: Algorithm, ranks: int) -> int:
    """How many flows a collective in one piece has among `ranks` ranks, without making it."""
    n, halves = ranks, 2 if collective == "all-reduce" else 1
    if n < 2 or (collective == "broadcast" and algorithm != "halving-doubling"):
        return max(n - 1, 0)
    if algorithm == "tree":
        return 2 * (n - 1)
    if algorithm == "halving-doubling":
        return n - 1 + n * (n.bit_length() - 1) if collective == "broadcast" else halves * n * (n.bit_length() - 1)
    return n if algorithm == "ring" else halves * n * (n - 1)


def waits_of(collective: Collective, algorithm: Algorithm, after: Sequence[Sequence[str]]) -> int:
    """At most how many steps its flows wait for, each counted by itself; `after` is as `expand` takes it."""
    n, first = len(after), sum(map(len, after))
    if algorithm != "direct":
        return 2 * first + 2 * flows_of(collective, algorithm, n)
    second = n * (n - 1) * 2 * (n - 1) if collective == "all-reduce" else 0
    return (n - 1) * first + second


def rounds(collective: Collective, algorithm: Algorithm, ranks: int, size_bytes: int, root: int = 0) -> list[Round]:
    """Who sends how many bytes to whom in each round; places run from 0 to `ranks` - 1, of which there are at least 2.

    Raises InputError for an unknown collective or algorithm, a root that is no place, and halving-doubling
    among ranks that are no power of two.
    """
    if collective not in get_args(Collective):
        raise InputError(f"unknown collective {collective!r}; there is: {', '.join(get_args(Collective))}")
    if algorithm not in get_args(Algorithm):
        raise InputError(f"unknown algorithm {algorithm!r}; there is: {', '.join(get_args(Algorithm))}")
    if not 0 <= root < ranks:
        raise InputError(f"root is {root}; there are places 0 to {ranks - 1}")
    parts = _split(size_bytes, ranks)
    if algorithm == "tree":
        return _tree(collective, parts, root)
    if algorithm == "direct":
        return _direct(collective, parts, root)
    if algorithm == "halving-doubling":
        return _halving_doubling(collective, parts, root)
    if algorithm == "ring-steps" or collective == "broadcast":
        return _ring_steps(collective, parts, root)
    return [_ring(collective, parts)]


def _split(size_bytes: int, parts: int) -> list[int]:
    """`size_bytes` in `parts` that differ by at most one byte, none of them empty."""
    return [max(size_bytes * (k + 1) // parts - size_bytes * k // parts, 1) for k in range(parts)]


def _ring(collective: Collective, parts: Sequence[int]) -> Round:
    """What place i sends to place i + 1 in all steps together."""
    n, total = len(parts), sum(parts)

    def bytes_from(i: int) -> int:
        scatter, gather = total - parts[i], total - parts[(i + 1) % n]
        if collective == "all-to-all":
            # What goes to i + d passes here on its way from i + d + 1, .., i.
            return sum(parts[(i + d) % n] * (n - d) for d in range(1, n))
        return {"all-reduce": scatter + gather, "reduce-scatter": scatter, "all-gather": gather}[collective]

    return [(i, (i + 1) % n, bytes_from(i)) for i in range(n)]


def _ring_steps(collective: Collective, parts: Sequence[int], root: int) -> list[Round]:
    """Every step of a ring: place i sends to place i + 1. In the end place i holds (or has given) part i."""
    n = len(parts)
    if collective == "broadcast":
        return [[((root + k) % n, (root + k + 1) % n, sum(parts))] for k in range(n - 1)]
    sizes: list[list[int]] = []
    if collective in ("all-reduce", "reduce-scatter"):
        sizes += [[parts[(i - 1 - k) % n] for i in range(n)] for k in range(n - 1)]
    if collective in ("all-reduce", "all-gather"):
        sizes += [[parts[(i - k) % n] for i in range(n)] for k in range(n - 1)]
    if collective == "all-to-all":
        # What started at i - k and has further to go: for i + 1, .., i - k - 1.
        sizes += [[sum(parts[(i + d) % n] for d in range(1, n - k)) for i in range(n)] for k in range(n - 1)]
    return [[(i, (i + 1) % n, step[i]) for i in range(n)] for step in sizes]


def _direct(collective: Collective, parts: Sequence[int], root: int) -> list[Round]:
    """Everyone sends to everyone what they are to have, at once."""
    n = len(parts)
    if collective == "broadcast":
        return [[(root, j, sum(parts)) for j in range(n) if j != root]]
    # A rank begins with its neighbour, so that no receiver is everybody's first.
    pairs = [(i, (i + d) % n) for i in range(n) for d in range(1, n)]
    scatter = [(i, j, parts[j]) for i, j in pairs]
    gather = [(i, j, parts[i]) for i, j in pairs]
    if collective == "all-reduce":
        return [scatter, gather]
    return [gather] if collective == "all-gather" else [scatter]


def _halving_doubling(collective: Collective, parts: Sequence[int], root: int) -> list[Round]:
    """Partners at distance n/2, n/4, .. 1 swap ever smaller halves, at distance 1, 2, .. n/2 ever larger ones."""
    n = len(parts)
    if n & (n - 1):
        raise InputError(f"halving-doubling among {n} ranks; it needs a power of two, or use ring, direct or tree")
    distances = [n >> k for k in range(1, n.bit_length())]

    def theirs(i: int, distance: int) -> int:
        """Bytes of the parts of the partner's half, of those that i still deals with at this distance."""
        first = (i ^ distance) // distance * distance
        return sum(parts[first : first + distance])

    def own(i: int, distance: int) -> int:
        first = i // distance * distance
        return sum(parts[first : first + distance])

    scatter = [[(i, i ^ d, theirs(i, d)) for i in range(n)] for d in distances]
    gather = [[(i, i ^ d, own(i, d)) for i in range(n)] for d in reversed(distances)]
    if collective == "all-to-all":
        # What others have passed on goes along: the further in, the more senders for fewer receivers.
        return [
            [(i, j, size * (n // 2 // d)) for i, j, size in each] for d, each in zip(distances, scatter, strict=True)
        ]
    if collective == "broadcast":
        # The root's parts are dealt out first; at distance d, those hold some that differ from it in higher bits only.
        dealt = [
            [(i, j, size) for i, j, size in each if (i ^ root) % (2 * d) == 0]
            for d, each in zip(distances, scatter, strict=True)
        ]
        return dealt + gather
    return {"all-reduce": scatter + gather, "reduce-scatter": scatter, "all-gather": gather}[collective]


def _tree(collective: Collective, parts: Sequence[int], root: int) -> list[Round]:
    """Up a binary tree, then down; what crosses an edge depends on the m of n ranks below it.

    all-reduce      everything, up and down
    reduce-scatter  everything up, the parts for those below down
    all-gather      the parts from below up, all others down
    all-to-all      what those below have for others, and others for them
    """
    n, total = len(parts), sum(parts)
    below: list[list[int]] = [[k] for k in range(n)]
    for k in range(n - 1, 0, -1):
        below[(k - 1) // 2] += below[k]
    place = [(root + k) % n for k in range(n)]

    def bytes_of(k: int) -> tuple[int, int]:
        """What goes up and down the edge above node k."""
        inside = sum(parts[place[b]] for b in below[k])
        m, outside = len(below[k]), total - inside
        return {
            "all-reduce": (total, total),
            "reduce-scatter": (total, inside),
            "all-gather": (inside, outside),
            "all-to-all": (m * outside, (n - m) * inside),
            "broadcast": (0, total),
        }[collective]

    levels = [[k for k in range(1, n) if (k + 1).bit_length() - 1 == depth] for depth in range(1, n.bit_length())]
    up = [[(place[k], place[(k - 1) // 2], bytes_of(k)[0]) for k in level] for level in reversed(levels)]
    down = [[(place[(k - 1) // 2], place[k], bytes_of(k)[1]) for k in level] for level in levels]
    return down if collective == "broadcast" else up + down
