"""One iteration as an importer finds it: computations, collectives and messages on ranks, tied by what each piece waits for.

Importers speak of handles: names of pieces of work, each on one rank, given in any order. A piece waits for handles of
its own rank only. Communication is what ties ranks, as in a real job, so every agent can notice what it waits for
(`traffic.agent.plan.check_observable`). `DagBuilder` makes the DAG.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from echelonflow.bounds import MOST_STEPS
from echelonflow.errors import InputError
from echelonflow.model.dag import JobDag
from traffic.workloads.collectives import Collective
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.formats._account import AS_FLOWS, SHARES, Account
from traffic.workloads.formats._ordering import one_at_a_time, without_overlap

MAX_STEPS = MOST_STEPS
"""More than this is refused before the memory is full: it is a trace of another scale than a testbed's."""
Grouping = Literal["paradigm", "collective"]
Algorithm = Literal["ring", "ring-steps", "halving-doubling", "direct"]
"""How all-reduce, all-gather and reduce-scatter go; all send the same bytes. All-to-all goes directly, broadcast by a tree."""


def network_bytes(kind: Collective, ranks: int, size_bytes: int) -> int:
    """Bytes that a collective of `ranks` ranks puts on the network, all ranks together, in closed form.

    `size_bytes` is S as nccl-tests (and `traffic.workloads.collectives`) define it.
    """
    return (2 if kind == "all-reduce" else 1) * (ranks - 1) * size_bytes


class ImportedIteration:
    """The work of one iteration as a file has it.

    `source` (a file's name) begins every message; `ranks` is the number of ranks. `account` is told how collectives
    become flows. What was read is its reader's to tell.
    """

    def __init__(
        self, source: str, ranks: int, *, account: Account, algorithm: Algorithm, grouping: Grouping = "paradigm"
    ) -> None:
        self.source = source
        self.ranks = ranks
        self.account = account
        self._algorithm = algorithm
        self._grouping = grouping
        with named(source):
            self._builder = DagBuilder(ranks)
        self._kind: dict[str, str] = {}
        self._uses: dict[str, int] = {}

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do yet."""
        return self._builder.empty

    def compute(self, handle: str, rank: int, duration_s: float, after: Sequence[str], kind: str = "compute") -> str:
        """A computation; its handle is its step's name."""
        with named(self.source):
            return self._builder.beside(rank, handle, duration_s, after, kind)

    def join(self, handle: str, rank: int, after: Sequence[str]) -> str:
        """Nothing but the end of all of `after`."""
        with named(self.source):
            return self._builder.join(handle, rank, after)

    def collective(
        self,
        name: str,
        kind: Collective,
        ranks: Sequence[int],
        size_bytes: int,
        after: Mapping[int, Sequence[str]],
        *,
        group_kind: str | None = None,
    ) -> dict[int, str]:
        """A collective of `size_bytes` (see `network_bytes`) among `ranks`; each waits for `after[rank]`.

        Returns every rank's handle of its end. All-gathers among the same ranks form one EchelonFlow (as FSDP's do),
        unless `group_kind` is given or the grouping is `collective`; any other collective is one of its own. A
        collective of one rank is dropped: it ends when what it waits for has.
        """  # fmt: skip
        count = self._uses[name] = self._uses.get(name, 0) + 1
        label = name if count == 1 else f"{name} #{count}"
        if len(ranks) == 1:
            self.account.dropped_alone(kind, size_bytes)
            return {rank: self.join(f"{label} @{rank}", rank, after[rank]) for rank in ranks}
        group = label
        if kind == "all-gather" and group_kind is None and self._grouping == "paradigm":
            group = f"all-gathers of {short(ranks)}"
        self._declare(group, group_kind or kind)
        special: dict[Collective, Literal["direct", "tree"]] = {"all-to-all": "direct", "broadcast": "tree"}
        algorithm = special.get(kind, self._algorithm)
        with named(self.source):
            inputs = [after[rank] for rank in ranks]
            done = self._builder.collective(label, kind, algorithm, ranks, size_bytes, inputs, group)
        self.account.counted(AS_FLOWS, size_bytes=network_bytes(kind, len(ranks), size_bytes) - size_bytes)
        if size_bytes < len(ranks):
            padding_bytes = network_bytes(kind, len(ranks), len(ranks) - size_bytes)
            self.account.added(SHARES, things=padding_bytes, size_bytes=padding_bytes)
        return {rank: self.join(f"{label} @{rank}", rank, done[rank]) for rank in ranks}

    def send(
        self,
        name: str,
        src: int,
        dst: int,
        size_bytes: int,
        src_after: Sequence[str],
        dst_after: Sequence[str],
        *,
        sent: str,
        received: str,
        group: str | None = None,
        coflow: str | None = None,
    ) -> None:
        """A message; `sent` and `received` become the handles of its end at either rank.

        What the receiver waits for before it receives does not hold the data back; it delays who waits for `received`.
        Messages from one rank to another form one EchelonFlow, as a pipeline's micro-batches do.
        """  # fmt: skip
        group = group or (f"sends {src}->{dst}" if self._grouping == "paradigm" else name)
        self._declare(group, self._kind.get(group, "send"))
        with named(self.source):
            self._builder.transfer(name, src, dst, size_bytes, group, coflow or name, src_after)
        self.join(sent, src, (name,))
        self.join(received, dst, (name, *dst_after))

    def dag(
        self,
        *,
        parameters: Mapping[str, object],
        serial: bool = False,
        next_iteration: Sequence[tuple[str, str]] = (),
        wrap: bool = True,
    ) -> JobDag:
        """The DAG, with groups whose offsets are derived from it.

        `serial` chains the computations of each rank (one at a time, in the order in which they become ready).
        `next_iteration` has pairs of handle and step; with `wrap`, each rank's first steps wait for its last.
        Raises InputError for a piece that waits for one that does not exist or for itself.
        """  # fmt: skip
        for earlier, later in next_iteration:
            self._builder.next_iteration(earlier, later)
        changes = [*([one_at_a_time] if serial else []), *([without_overlap] if wrap else [])]
        with named(self.source):
            return self._builder.dag(parameters, changes)

    def _declare(self, group: str, kind: str) -> None:
        self._kind[group] = kind
        self._builder.group(group, kind, "derived")


@contextlib.contextmanager
def named(source: str) -> Iterator[None]:
    """Puts the name of the file before the message of an InputError."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def short(ranks: Sequence[int]) -> str:
    """Ranks as text, such as "0-7"; exact, because groups are told apart by it."""
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    regular = all(b - a == step for a, b in itertools.pairwise(ranks))
    if regular and len(ranks) > 3:
        return f"{ranks[0]}-{ranks[-1]}" + ("" if step == 1 else f" by {step}")
    return ",".join(map(str, ranks))
