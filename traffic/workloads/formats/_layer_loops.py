"""The loop over a table of layers (`_layers`): forward, what is computed again, backward; and its account.

A table is what one rank does; all ranks do the same, in step. Sources: ASTRA-sim's and SimAI's Workload.cc.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from echelonflow.errors import InputError
from traffic.workloads.formats._account import SHARDS, Account
from traffic.workloads.formats._iteration import MAX_STEPS, Algorithm, Grouping, ImportedIteration
from traffic.workloads.formats._layers import CHECKPOINTS, INITIATES, PHASES, Communication, Row, Table
from traffic.workloads.formats._report import Imported, Report

GatherSize = Literal["shard", "total"]
InputGradient = Literal["blocking", "overlapped"]
"""Whether the weight gradient of a layer waits for the collective of its input gradient, or goes on beside it."""
FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = range(len(PHASES))
RECOMPUTES: Final = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
"""The one policy that computes activations again."""

_AGAIN: Final = "layers' forward passes before the backward pass: computed again from a checkpoint"
_LATER_UPDATES: Final = "updates after the second and third collective of a layer: listed once"
_NO_UPDATES: Final = "update times of layers: none of their collectives runs"
_EVERY_RANK: Final = "computations of a table run on every rank"
_EVERY_GROUP: Final = "collectives of a table run in every group of ranks"


@dataclass(frozen=True)
class Layout:
    """How ranks are divided into groups, all of one scope of one size."""

    ranks: int
    sizes: Mapping[str, int]
    """By scope, how many ranks a group has."""
    groups: Callable[[str], Sequence[Sequence[int]]]
    """The groups of a scope; asked for once it is known that there are not too many ranks."""
    scopes: tuple[str, str, str]
    """Of collectives that name none, by phase."""


@dataclass(frozen=True)
class Manner:
    """How a table becomes flows, by the options of its user."""

    gather_size: GatherSize
    input_gradient: InputGradient
    algorithm: Algorithm
    grouping: Grouping

    def words(self) -> list[str]:
        """What a report says of it."""
        gradient = {
            "blocking": "a layer's weight gradient waits for the collective of its input gradient",
            "overlapped": "a layer's weight gradient goes on beside the collective of its input gradient",
        }
        return [
            f"bytes of an all-gather are each rank's {self.gather_size} (gather_size)",
            f"{gradient[self.input_gradient]} (input_gradient)",
            f"all-reduce, all-gather and reduce-scatter by {self.algorithm}, all-to-all directly (algorithm)",
        ]


def imported(
    table: Table,
    layout: Layout,
    manner: Manner,
    *,
    only_phase: int | None,
    silent: Collection[int],
    parameters: Mapping[str, object],
    assumed: Sequence[str],
) -> Imported:
    """The job of `table` on the ranks of `layout`.

    A policy runs all phases, or `only_phase` of every layer, one layer after the other. It does not run the collectives
    of the phases in `silent`. Raises InputError for more steps than there may be, and for layers that are to be
    computed again from a checkpoint that there is not.
    """
    found = Counter(c.kind for row in table.rows for c in row.communication if c)
    read = [
        f"{table.path}: {table.policy}, {len(table.rows)} layers",
        "collectives: " + (", ".join(f"{n} {kind}" for kind, n in sorted(found.items())) or "none"),
    ]
    again, idle = _computed_again(table)
    unused = set() if only_phase is None else set(range(len(PHASES))) - {only_phase}
    table = _without(table, collectives={*silent, *unused}, computations=unused)
    table = _placed(table, layout, manner.gather_size)
    _check_size(table, layout.ranks, again)
    iteration = ImportedIteration(
        str(table.path), layout.ranks, account=table.account, algorithm=manner.algorithm, grouping=manner.grouping
    )
    loop = _Loop(iteration, layout)
    if only_phase is None:
        _train(loop, table.rows, again, manner.input_gradient)
    else:
        for i, row in enumerate(table.rows):
            loop.wait(loop.phase(i, row, only_phase))
    loop.account_for_updates(table.rows)
    dag = iteration.dag(
        parameters={**parameters, "file": table.path.name, "policy": table.policy},
        next_iteration=loop.next_iteration(),
        wrap=False,
    )
    report = Report.of(
        table.account, dag, source=str(table.path), read=read, dropped=idle, assumed=[*assumed, *manner.words()]
    )  # fmt: skip
    return Imported(dag, report)


def _computed_again(table: Table) -> tuple[dict[int, range], list[str]]:
    """By layer, those whose forward pass is computed again before its backward pass; and words on what is not.

    Those are the layers from the last checkpoint before it on, itself left out: its own activations are there by then.
    """
    checkpoints, initiates = table.layers[CHECKPOINTS], table.layers[INITIATES]
    if table.policy != RECOMPUTES:
        unused = [name for name in (CHECKPOINTS, INITIATES) if table.layers[name]]
        return {}, [f"{name}: {table.policy} computes nothing again" for name in unused]
    again = {}
    for layer in initiates:
        begin = max((c for c in checkpoints if c < layer), default=None)
        if begin is None or layer in checkpoints:
            raise InputError(
                f"{table.path}: line 1: {INITIATES} names layer {layer}; one of {CHECKPOINTS} before it was expected, "
                f"and that it is none itself"
            )
        again[layer] = range(begin, layer)
        if inside := [other for other in initiates if other in again[layer]]:
            raise InputError(
                f"{table.path}: line 1: {INITIATES} names layer {inside[0]}, which lies between layer {layer} and the "
                f"checkpoint {begin} from which that is computed again; one of {CHECKPOINTS} between them was expected"
            )
    return again, []


def _without(table: Table, *, collectives: Collection[int], computations: Collection[int]) -> Table:
    """`table` without these phases' collectives and computations, which its policy does not run."""
    rows = []
    for row in table.rows:
        for phase in sorted(collectives):
            if (c := row.communication[phase]) is not None:
                table.account.dropped(
                    f"{PHASES[phase]} collectives: {table.policy} does not run them",
                    size_bytes=c.size_bytes, communications=1,
                )  # fmt: skip
        for phase in sorted(computations):
            if row.compute_s[phase]:
                table.account.dropped(
                    f"{PHASES[phase]} computations: {table.policy} does not run them", compute_s=row.compute_s[phase]
                )
        communication = [None if phase in collectives else c for phase, c in enumerate(row.communication)]
        compute_s = [0.0 if phase in computations else s for phase, s in enumerate(row.compute_s)]
        rows.append(dataclasses.replace(row, communication=tuple(communication), compute_s=tuple(compute_s)))
    return dataclasses.replace(table, rows=tuple(rows))


def _placed(table: Table, layout: Layout, gather_size: GatherSize) -> Table:
    """`table` with every collective's scope named, and its bytes those of `traffic.workloads.collectives`."""

    def placed(phase: int, c: Communication) -> Communication:
        scope = c.scope or layout.scopes[phase]
        size_bytes = c.size_bytes
        if c.kind == "all-gather" and gather_size == "shard":
            size_bytes *= layout.sizes[scope]
            table.account.counted(SHARDS, size_bytes=size_bytes - c.size_bytes)
        return Communication(c.kind, size_bytes, scope)

    rows = [
        dataclasses.replace(row, communication=tuple(c and placed(p, c) for p, c in enumerate(row.communication)))
        for row in table.rows
    ]
    return dataclasses.replace(table, rows=tuple(rows))


def _check_size(table: Table, ranks: int, again: Mapping[int, range]) -> None:
    """Raise InputError if the job would have too many steps, before any is made."""
    phases = sum(1 + sum(map(bool, row.compute_s[1:])) + sum(map(bool, row.communication)) for row in table.rows)
    phases += sum(map(len, again.values()))
    if phases * ranks > MAX_STEPS:
        raise InputError(
            f"{table.path}: {len(table.rows)} layers on {ranks} ranks are more than {MAX_STEPS:,} steps, which is the limit; set fewer ranks"
        )


def _train(loop: _Loop, rows: Sequence[Row], again: Mapping[int, range], input_gradient: InputGradient) -> None:
    """Forward over all rows, then backward: what is computed again, input gradient, weight gradient."""
    for i, row in enumerate(rows):
        loop.wait(loop.phase(i, row, FORWARD))
    for i in reversed(range(len(rows))):
        for j in again.get(i, ()):
            loop.wait(loop.phase(j, rows[j], FORWARD, again=True))
        reduced = loop.phase(i, rows[i], INPUT_GRADIENT)
        if input_gradient == "blocking":
            loop.wait(reduced)
        loop.leave(i, loop.phase(i, rows[i], WEIGHT_GRADIENT))
        if input_gradient == "overlapped":
            loop.wait(reduced, beside=True)


class _Loop:
    """Writes one iteration over rows into an iteration, for all ranks in step with each other."""

    def __init__(self, iteration: ImportedIteration, layout: Layout) -> None:
        self._iteration = iteration
        self._layout = layout
        self._tail: list[tuple[str, ...]] = [()] * iteration.ranks
        self._left: list[tuple[str, str]] = []
        self._first: list[str | None] = [None] * iteration.ranks
        self._forward: dict[tuple[int, int], str] = {}
        self._updated: set[int] = set()
        self._groups: dict[str, Sequence[Sequence[int]]] = {}

    def phase(self, index: int, row: Row, phase: int, *, again: bool = False) -> dict[int, str]:
        """One phase of layer `index`; `again` marks a forward pass that is computed a second time.

        Returns by rank the end of its collective, which nothing waits for yet; nothing where it has none.
        """
        communication = row.communication[phase]
        if phase and communication is None and not row.compute_s[phase]:
            return {}
        label = f"{index} {row.name} {PHASES[phase]}" + (" again" if again else "")
        self._compute(label, index, row, phase, again=again)
        if communication is None:
            return {}
        if again:
            self._account.added(_AGAIN, things=0, size_bytes=communication.size_bytes, communications=1)
        return self._collective(label, index, row, phase, communication)

    def wait(self, ends: Mapping[int, str], *, beside: bool = False) -> None:
        """Let ranks go on when these have ended; `beside` those that they already wait for."""
        for rank, end in ends.items():
            self._tail[rank] = (*self._tail[rank], end) if beside else (end,)

    def leave(self, index: int, ends: Mapping[int, str]) -> None:
        """Let the forward pass of layer `index` of the next iteration wait for these."""
        for rank, end in ends.items():
            if (later := self._forward.get((index, rank))) is not None:
                self._left.append((end, later))

    def next_iteration(self) -> Sequence[tuple[str, str]]:
        """The edges to the next iteration: each rank goes on where it ended."""
        ends = [
            (end, first)
            for rank, first in enumerate(self._first)
            if first is not None
            for end in self._tail[rank]
        ]  # fmt: skip
        return [*self._left, *ends]

    def account_for_updates(self, rows: Sequence[Row]) -> None:
        """Tell the account of update times that passed after no collective; called at the end."""
        for index, row in enumerate(rows):
            if row.update_s and index not in self._updated:
                self._account.dropped(_NO_UPDATES, compute_s=row.update_s)

    @property
    def _account(self) -> Account:
        return self._iteration.account

    def _compute(self, label: str, index: int, row: Row, phase: int, *, again: bool) -> None:
        ranks = range(self._iteration.ranks)
        for rank in ranks:
            step = self._iteration.compute(
                f"{label} r{rank}", rank, row.compute_s[phase], self._tail[rank], PHASES[phase]
            )
            self._tail[rank] = (step,)
            if self._first[rank] is None:
                self._first[rank] = step
            if phase == FORWARD and not again:
                self._forward[index, rank] = step
        if again:
            self._account.added(_AGAIN, compute_s=row.compute_s[phase])
        self._account.counted(_EVERY_RANK, compute_s=row.compute_s[phase] * (len(ranks) - 1))

    def _collective(self, label: str, index: int, row: Row, phase: int, communication: Communication) -> dict[int, str]:
        """By rank the end of a collective, and of the update after it."""
        kind, size_bytes, scope = communication.kind, communication.size_bytes, communication.scope
        if self._layout.sizes[scope] == 1:
            self._account.dropped_alone(kind, size_bytes)
            return {}
        if scope not in self._groups:
            self._groups[scope] = self._layout.groups(scope)
        groups = self._groups[scope]
        self._account.counted(_EVERY_GROUP, size_bytes=size_bytes * (len(groups) - 1), communications=len(groups) - 1)
        found: dict[int, str] = {}
        for number, ranks in enumerate(groups):
            name = f"{label} {kind}" + (f" {number}" if len(groups) > 1 else "")
            ends = self._iteration.collective(
                name, kind, ranks, size_bytes, {r: self._tail[r] for r in ranks}, group_kind=f"{PHASES[phase]} {kind}"
            )
            for rank in ranks:
                update = f"{label} update r{rank} g{number}"
                found[rank] = self._update(update, rank, row.update_s, ends[rank]) if row.update_s else ends[rank]
        if row.update_s:
            self._account.counted(_EVERY_RANK, compute_s=row.update_s * (self._iteration.ranks - 1))
            if index in self._updated:
                self._account.added(_LATER_UPDATES, compute_s=row.update_s)
            self._updated.add(index)
        return found

    def _update(self, label: str, rank: int, update_s: float, end: str) -> str:
        return self._iteration.compute(label, rank, update_s, [end], "update")
