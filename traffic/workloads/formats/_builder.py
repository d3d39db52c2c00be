"""Makes a job of what an importer finds: work on ranks, tied by what each piece waits for.

Importers speak of handles: names of pieces of work, each on one rank, given in any order. A piece waits for handles of
its own rank only; communication is what ties ranks, as in a real job, so that every agent can notice what it
waits for (`traffic.agent.plan.check_observable`).
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from echelonflow.errors import InputError, RunError
from echelonflow.model.dag import Compute, Group, JobDag, Step, Transfer, derived_offsets
from traffic.workloads.collectives import Collective, expand

MAX_STEPS = 1_000_000
"""More than this is refused before the memory is full: it is a trace of another scale than a testbed's."""
_MOST_PASSED_ON = 8
"""A join of at most so many steps is written out where it is waited for; a larger one becomes a step of 0 s."""
Grouping = Literal["paradigm", "collective"]
Algorithm = Literal["ring", "ring-steps", "halving-doubling", "direct"]
"""How all-reduce, all-gather and reduce-scatter go; all send the same bytes. All-to-all goes directly, broadcast by a tree."""


def network_bytes(kind: Collective, ranks: int, size_bytes: int) -> int:
    """Bytes that a collective of `ranks` ranks puts on the network, all ranks together, in closed form.

    `size_bytes` is S as nccl-tests (and `traffic.workloads.collectives`) define it.
    """
    return (2 if kind == "all-reduce" else 1) * (ranks - 1) * size_bytes


@dataclass
class _Piece:
    """What stands behind a handle: it ends when all of `ends`, steps or handles, have ended."""

    rank: int
    ends: tuple[str, ...]


class Builder:
    """Collects the work of one iteration and builds its DAG.

    `source` (a file's name) begins every message; `ranks` is the number of ranks.
    """

    def __init__(self, source: str, ranks: int, *, algorithm: Algorithm, grouping: Grouping = "paradigm") -> None:
        self.source = source
        self.ranks = ranks
        self.bytes_in = 0
        self._algorithm = algorithm
        self._grouping = grouping
        self.padding_bytes = 0
        """What is sent beyond `bytes_in`, because every share of a collective is at least one byte."""
        self._pieces: dict[str, _Piece] = {}
        self._steps: dict[str, Step] = {}
        """Steps by name; their `after` names handles or steps until `build`."""
        self._kind: dict[str, str] = {}
        self._uses: dict[str, int] = {}

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do yet."""
        return not self._steps

    def compute(self, handle: str, rank: int, duration_s: float, after: Sequence[str], kind: str = "compute") -> str:
        """A computation; its handle is its step's name."""
        self._piece(handle, rank, (handle,))
        self._step(Compute(handle, rank, duration_s, tuple(after), kind))
        return handle

    def join(self, handle: str, rank: int, after: Sequence[str]) -> str:
        """Nothing but the end of all of `after`."""
        self._piece(handle, rank, after)
        return handle

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
        unless `group_kind` is given or the grouping is `collective`; any other collective is one of its own.
        """  # fmt: skip
        count = self._uses[name] = self._uses.get(name, 0) + 1
        label = name if count == 1 else f"{name} #{count}"
        group = label
        if kind == "all-gather" and group_kind is None and self._grouping == "paradigm":
            group = f"all-gathers of {_short(ranks)}"
        self._kind[group] = group_kind or kind
        special: dict[Collective, Literal["direct", "tree"]] = {"all-to-all": "direct", "broadcast": "tree"}
        algorithm = special.get(kind, self._algorithm)
        # Refused before it is made: everyone to everyone is the square of the ranks, and all-reduce has two halves.
        rounds = {"direct": len(ranks), "ring-steps": len(ranks), "halving-doubling": len(ranks).bit_length()}
        self._check_room(2 * len(ranks) * rounds.get(algorithm, 0))
        expansion = expand(
            label, kind, algorithm, ranks=ranks, size_bytes=size_bytes, after=[after[r] for r in ranks], group=group
        )
        for flow in expansion.transfers:
            self._step(flow)
        self.bytes_in += network_bytes(kind, len(ranks), size_bytes)
        self.padding_bytes += network_bytes(kind, len(ranks), max(len(ranks) - size_bytes, 0))
        handles = {rank: f"{label} @{rank}" for rank in ranks}
        for rank, done in zip(ranks, expansion.done, strict=True):
            self._piece(handles[rank], rank, done)
        return handles

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
        self.bytes_in += size_bytes
        group = group or (f"sends {src}->{dst}" if self._grouping == "paradigm" else name)
        self._step(Transfer(name, src, dst, size_bytes, group, coflow or name, tuple(src_after)))
        self._piece(sent, src, (name,))
        self._piece(received, dst, (name, *dst_after))
        self._kind.setdefault(group, "send")

    def build(
        self,
        *,
        parameters: Mapping[str, object],
        serial: bool = False,
        next_iteration: Sequence[tuple[str, str]] | None = None,
        wrap: bool = True,
    ) -> JobDag:
        """The DAG, with groups whose offsets are derived from it.

        `serial` chains the computations of each rank (one at a time, in the order in which they become ready).
        `next_iteration` has pairs of handle and step; with `wrap`, each rank's first steps wait for its last.
        Raises InputError for a piece that waits for one that does not exist or for itself.
        """  # fmt: skip
        ends = self._resolved()
        steps = [
            dataclasses.replace(
                step, after=tuple(dict.fromkeys(end for name in step.after for end in ends.get(name, (name,))))
            )
            for step in self._steps.values()
        ]
        pairs = [(end, later) for earlier, later in next_iteration or () for end in ends[earlier]]
        try:
            dag = JobDag(self.ranks, tuple(steps), self._groups(steps), tuple(dict.fromkeys(pairs)), dict(parameters))
            if serial:
                dag = _one_at_a_time(dag)
            if wrap:
                dag = _wrapped(dag)
            dag = _arranged(dag)
        except InputError as error:
            raise InputError(f"{self.source}: {error}") from None
        sent = sum(transfer.size_bytes for transfer in dag.transfers)
        if sent != self.bytes_in + self.padding_bytes:
            raise RunError(
                f"{self.source}: {self.bytes_in} bytes (and {self.padding_bytes} to round shares up) were read and {sent} would "
                f"be sent; this is a fault of the importer"
            )
        return dag

    def _piece(self, handle: str, rank: int, ends: Sequence[str]) -> None:
        if handle in self._pieces:
            raise InputError(f"{self.source}: two pieces of work are called {handle!r}")
        self._pieces[handle] = _Piece(rank, tuple(ends))

    def _step(self, step: Step) -> None:
        if step.name in self._steps:
            raise InputError(f"{self.source}: two steps are called {step.name!r}")
        self._check_room(1)
        self._steps[step.name] = step

    def _check_room(self, more: int) -> None:
        if len(self._steps) + more > MAX_STEPS:
            raise InputError(
                f"{self.source}: the job has more than {MAX_STEPS:,} steps, which is the limit; import fewer ranks or layers"
            )

    def _resolved(self) -> dict[str, tuple[str, ...]]:
        """For every handle, the steps whose end is its end.

        Iterative, because a trace may be a chain of a million joins.
        """
        done: dict[str, tuple[str, ...]] = {}
        opened: set[str] = set()
        for first in self._pieces:
            stack = [first]
            while stack:
                handle = stack[-1]
                ends = self._pieces[handle].ends
                missing = next((e for e in ends if e not in done and e not in self._steps), None)
                if handle in done or missing is None:
                    stack.pop()
                    opened.discard(handle)
                    if handle not in done:
                        done[handle] = self._ends_of(handle, ends, done)
                    continue
                opened.add(handle)
                if missing in opened:
                    raise InputError(f"{self.source}: there is a cycle through {missing!r}")
                if missing not in self._pieces:
                    raise InputError(f"{self.source}: {handle!r} waits for {missing!r}, which does not exist")
                stack.append(missing)
        return done

    def _ends_of(self, handle: str, ends: Sequence[str], done: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        own = [e for e in ends if e in self._steps]
        passed = [step for e in ends if e not in self._steps for step in done[e]]
        found = tuple(dict.fromkeys([*own, *passed]))
        if len(passed) <= _MOST_PASSED_ON:
            return found
        self._step(Compute(handle, self._pieces[handle].rank, 0.0, found, "join"))
        return (handle,)

    def _groups(self, steps: Sequence[Step]) -> tuple[Group, ...]:
        members: dict[str, list[str]] = {}
        for step in steps:
            if isinstance(step, Transfer):
                members.setdefault(step.group, []).append(step.name)
        return tuple(Group(name, self._kind[name], tuple(m), (0.0,) * len(m)) for name, m in members.items())


def _arranged(dag: JobDag) -> JobDag:
    """`dag` with every group's offsets from the DAG, its flows in order of consumption."""
    offsets = derived_offsets(dag)
    groups = []
    for group in dag.groups:
        ordered = tuple(sorted(group.transfers, key=lambda name: offsets[name]))
        groups.append(dataclasses.replace(group, transfers=ordered, offsets_s=tuple(offsets[n] for n in ordered)))
    return dag.with_groups(groups)


def _one_at_a_time(dag: JobDag) -> JobDag:
    """`dag` with the computations of every rank chained in the order in which they would start without a network.

    That order is a topological one, so chaining along it closes no cycle.
    """
    position = {step.name: i for i, step in enumerate(dag.steps)}
    waiting = {step.name: len(step.after) for step in dag.steps}
    ready_s = dict.fromkeys(waiting, 0.0)
    free_s = [0.0] * dag.ranks
    last: list[str | None] = [None] * dag.ranks
    chained: dict[str, str] = {}
    queue = [(0.0, position[name], name) for name, count in waiting.items() if not count]
    heapq.heapify(queue)
    while queue:
        start_s, _, name = heapq.heappop(queue)
        step = dag.by_name[name]
        finish_s = start_s
        if isinstance(step, Compute):
            before = last[step.rank]
            if before is not None and before not in step.after:
                chained[name] = before
            last[step.rank] = name
            finish_s = free_s[step.rank] = max(start_s, free_s[step.rank]) + step.duration_s
        for follower in dag.followers[name]:
            waiting[follower] -= 1
            ready_s[follower] = max(ready_s[follower], finish_s)
            if not waiting[follower]:
                heapq.heappush(queue, (ready_s[follower], position[follower], follower))
    steps = [dataclasses.replace(s, after=(chained[s.name], *s.after)) if s.name in chained else s for s in dag.steps]
    return dataclasses.replace(dag, steps=tuple(steps))


def _wrapped(dag: JobDag) -> JobDag:
    """`dag` with every rank's next iteration waiting for the end of its last: nothing of a rank overlaps itself."""
    ends: list[list[str]] = [[] for _ in range(dag.ranks)]
    starts: list[list[str]] = [[] for _ in range(dag.ranks)]
    home = {step.name: step.rank if isinstance(step, Compute) else step.src_rank for step in dag.steps}
    for step in dag.steps:
        if not step.after:
            starts[home[step.name]].append(step.name)
        waited = {home[name] for name in dag.followers[step.name]}
        for rank in {step.rank} if isinstance(step, Compute) else {step.src_rank, step.dst_rank}:
            if rank not in waited:
                ends[rank].append(step.name)
    pairs: list[tuple[str, str]] = []
    steps = list(dag.steps)
    for rank in range(dag.ranks):
        if len(ends[rank]) > 1 and len(starts[rank]) > 1:
            end = Compute(f"end of rank {rank}", rank, 0.0, tuple(ends[rank]), "join")
            steps.append(end)
            ends[rank] = [end.name]
        pairs += [(end, start) for end in ends[rank] for start in starts[rank]]
    return dataclasses.replace(dag, steps=tuple(steps), next_iteration=(*dag.next_iteration, *pairs))


def _short(ranks: Sequence[int]) -> str:
    """Ranks as text, such as "0-7"; exact, because groups are told apart by it."""
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    regular = all(b - a == step for a, b in itertools.pairwise(ranks))
    if regular and len(ranks) > 3:
        return f"{ranks[0]}-{ranks[-1]}" + ("" if step == 1 else f" by {step}")
    return ",".join(map(str, ranks))
