"""Per-layer text workloads, as ASTRA-sim 1.0 and SimAI write them: the rows, the header, and the loop over them.

Row: name, reserved, then for forward pass, input gradient and weight gradient each compute time, collective and bytes, then
the time that an update takes after a collective. Sources: ASTRA-sim's workload README and loops (Workload.cc), SimAI's
Workload.cc, AICB's Work_Item.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from echelonflow.errors import InputError
from echelonflow.model.dag import JobDag
from echelonflow.model.units import format_size
from traffic.workloads.collectives import Collective
from traffic.workloads.formats import _files
from traffic.workloads.formats._iteration import MAX_STEPS, ImportedIteration
from traffic.workloads.formats._report import Report
from traffic.workloads.traces._lines import Line

Groups = Callable[[str], Sequence[Sequence[int]]]
GatherSize = Literal["shard", "total"]
Empty = Literal["error", "drop"]
COLLECTIVES: dict[str, Collective] = {
    "ALLREDUCE": "all-reduce",
    "ALLGATHER": "all-gather",
    "REDUCESCATTER": "reduce-scatter",
    "ALLTOALL": "all-to-all",
    "BROADCAST": "broadcast",
}
_MOST_LINES = 1_000_000
PHASES = ("forward", "input-gradient", "weight-gradient")


@dataclass(frozen=True, slots=True)
class Communication:
    """A collective of S = `size_bytes` among the ranks of each group that `scope` names ("" where the row does not)."""

    kind: Collective
    size_bytes: int
    scope: str


@dataclass(frozen=True, slots=True)
class Row:
    """One layer; entries of `compute_s` and `communication` are those of PHASES."""

    name: str
    line: int
    compute_s: tuple[float, ...]
    communication: tuple[Communication | None, ...]
    update_s: float


@dataclass(frozen=True)
class Table:
    """A workload file: policy and header fields as written, and its rows."""

    path: Path
    policy: str
    header: dict[str, list[int]]
    rows: tuple[Row, ...]
    empty: int
    """Collectives of 0 bytes that were left out."""


def read_table(path: Path, *, policies: Collection[str], scopes: Sequence[str], tick_s: float, empty: Empty) -> Table:
    """The table in the file at `path`.

    `scopes` are the suffixes that a collective's name may have, `policies` those that are supported.
    Raises InputError naming file and line for anything that is not as the format says, and for a collective of 0
    bytes unless `empty` is "drop".
    """
    positive_tick(path, tick_s)
    texts = [(i, text) for i, text in enumerate(_files.read_text(path).split("\n"), 1) if text.strip()]
    if len(texts) > _MOST_LINES:
        raise InputError(f"{path}: has more than {_MOST_LINES:,} lines, which is the limit; this is no table of layers")
    lines = [Line(path, i, text) for i, text in texts]
    if len(lines) < 2:
        raise InputError(
            f"{path}: line {len(lines) + 1}: the file ends where a policy and a number of layers were expected"
        )
    policy = lines[0].text("the policy, such as DATA")
    if policy not in policies:
        raise lines[0].fault(f"{_files.shown(policy)} is no policy that is supported; there is: {', '.join(policies)}")
    header = _header(lines[0], texts[0][1].split()[1:])
    count = lines[1].whole("the number of layers", least=1)
    lines[1].end("the number of layers")
    dropped: list[int] = []
    rows = [_row(line, scopes, tick_s, empty, dropped) for line in lines[2:]]
    if len(rows) != count:
        raise lines[-1].fault(f"the header (line {lines[1].number}) says {count} layers and there are {len(rows)}")
    return Table(path, policy, header, tuple(rows), len(dropped))


def positive_tick(path: Path, tick_s: float) -> None:
    """Raise InputError unless a unit of time takes time."""
    if not 0 < tick_s < math.inf:
        raise InputError(f"{path}: tick is {tick_s:g} s; one unit of time takes more than 0 s")


def only(paths: Sequence[Path], what: str) -> Path:
    """The one path of `paths` (InputError unless there is just one)."""
    if len(paths) != 1:
        raise InputError(f"{what} is one file for all ranks; {len(paths)} files were given")
    return paths[0]


def replaced(rows: Sequence[Row], change: Callable[[int, Communication], Communication | None]) -> tuple[Row, ...]:
    """`rows` with each communication (its phase's position in PHASES beside it) replaced by what `change` makes of it."""
    return tuple(
        dataclasses.replace(row, communication=tuple(c and change(p, c) for p, c in enumerate(row.communication)))
        for row in rows
    )


def silenced(table: Table, phases: Collection[int]) -> tuple[Table, list[str]]:
    """`table` without the communication of these phases, which its policy does not run, and words on what that is."""
    left = []
    for phase in sorted(phases):
        gone = [c for row in table.rows if (c := row.communication[phase])]
        if gone:
            size = format_size(sum(c.size_bytes for c in gone))
            left.append(f"{len(gone)} {PHASES[phase]} collectives ({size}): {table.policy} does not run them")
    rows = replaced(table.rows, lambda phase, c: None if phase in phases else c)
    return dataclasses.replace(table, rows=rows), left


def evenly(ranks: int, sizes: Sequence[tuple[str, int]], path: Path) -> None:
    """Raise InputError unless the product of the (named) sizes divides the number of ranks."""
    product = math.prod(size for _, size in sizes)
    if min(size for _, size in sizes) < 1 or ranks < 1 or ranks % product:
        words = " x ".join(f"{name} {size}" for name, size in sizes)
        raise InputError(
            f"{path}: {ranks} ranks cannot be divided into groups of {words}; set ranks to a multiple of {product}"
        )


def check_size(table: Table, ranks: int) -> None:
    """Raise InputError if the job would have too many steps, before any is made."""
    phases = sum(1 + sum(map(bool, row.compute_s[1:])) + sum(map(bool, row.communication)) for row in table.rows)
    if phases * ranks > MAX_STEPS:
        raise InputError(
            f"{table.path}: {len(table.rows)} layers on {ranks} ranks are more than {MAX_STEPS:,} steps, which is the limit; set fewer ranks"
        )


def report(
    table: Table, iteration: ImportedIteration, dag: JobDag, *, dropped: Sequence[str], assumed: Sequence[str]
) -> Report:
    """The account of a table that was turned into `dag`."""
    found = Counter(c.kind for row in table.rows for c in row.communication if c)
    read = [
        f"{table.path}: {table.policy}, {len(table.rows)} layers",
        "collectives: " + (", ".join(f"{n} {kind}" for kind, n in sorted(found.items())) or "none"),
    ]
    left = [f"{table.empty} collectives of 0 bytes (empty=drop)"] if table.empty else []
    if iteration.padding_bytes:
        assumed = [*assumed, f"{iteration.padding_bytes} bytes added: every share of a collective is at least 1 byte"]
    sent = sum(t.size_bytes for t in dag.transfers)
    return Report(tuple(read), (*left, *dropped), tuple(assumed), iteration.bytes_in, sent - iteration.padding_bytes)


@dataclass
class Loop:
    """Writes one iteration over rows into an iteration, for all ranks in step with each other.

    `groups` gives the groups of ranks of a scope. Collectives of forward pass and input gradient block, those of the weight
    gradient do not: the same layer's forward pass of the next iteration waits for them.
    """

    iteration: ImportedIteration
    groups: Groups

    def __post_init__(self) -> None:
        self.tail: list[tuple[str, ...]] = [()] * self.iteration.ranks
        self.next_iteration: list[tuple[str, str]] = []
        self._first: list[str | None] = [None] * self.iteration.ranks
        self._forward: dict[tuple[int, int], str] = {}

    def phase(self, index: int, row: Row, phase: int, *, blocking: bool, again: bool = False) -> None:
        """One phase of layer `index`; `again` marks a forward pass that is computed a second time."""
        communication = row.communication[phase]
        if phase and communication is None and not row.compute_s[phase]:
            return
        label = f"{index} {row.name} {PHASES[phase]}" + (" again" if again else "")
        for rank in range(self.iteration.ranks):
            step = self.iteration.compute(
                f"{label} r{rank}", rank, row.compute_s[phase], self.tail[rank], PHASES[phase]
            )
            self.tail[rank] = (step,)
            if self._first[rank] is None:
                self._first[rank] = step
            if phase == 0 and not again:
                self._forward[index, rank] = step
        if communication is None:
            return
        groups = self.groups(communication.scope)
        for number, ranks in enumerate(groups):
            if len(ranks) < 2:
                continue
            name = f"{label} {communication.kind}" + (f" {number}" if len(groups) > 1 else "")
            ends = self.iteration.collective(
                name, communication.kind, ranks, communication.size_bytes, {r: self.tail[r] for r in ranks},
                group_kind=f"{PHASES[phase]} {communication.kind}",
            )  # fmt: skip
            for rank in ranks:
                end = ends[rank]
                if row.update_s:
                    end = self.iteration.compute(
                        f"{label} update r{rank} g{number}", rank, row.update_s, [end], "update"
                    )
                if blocking:
                    self.tail[rank] = (end,)
                elif (later := self._forward.get((index, rank))) is not None:
                    self.next_iteration.append((end, later))

    def close(self) -> Sequence[tuple[str, str]]:
        """The edges to the next iteration: each rank goes on where it ended."""
        ends = [
            (end, first)
            for rank, first in enumerate(self._first)
            if first is not None
            for end in self.tail[rank]
        ]  # fmt: skip
        return [*self.next_iteration, *ends]


def train(loop: Loop, rows: Sequence[Row], *, checkpoints: Sequence[int] = (), initiates: Sequence[int] = ()) -> None:
    """Forward over all rows, then backward: input gradient, weight gradient.

    Before the backward pass of a row in `initiates`, the forward pass from the last of `checkpoints` before it up to this
    row is computed again.
    """
    for i, row in enumerate(rows):
        loop.phase(i, row, 0, blocking=True)
    for i in reversed(range(len(rows))):
        if i in initiates:
            begin = max((c for c in checkpoints if c <= i), default=0)
            for j in range(begin, i + 1):
                loop.phase(j, rows[j], 0, blocking=True, again=True)
        loop.phase(i, rows[i], 1, blocking=True)
        loop.phase(i, rows[i], 2, blocking=False)


def _row(line: Line, scopes: Sequence[str], tick_s: float, empty: Empty, dropped: list[int]) -> Row:
    name = line.text("a layer's name")
    line.number_of("the reserved number")
    compute_s, communication = [], []
    for phase in PHASES:
        compute_s.append(_time(line, f"the {phase} compute time", tick_s))
        word = line.text(f"the {phase} collective")
        size = _files.whole(line.number_of(f"the {phase} bytes"))
        if size is None:
            raise line.fault(f"the {phase} bytes are no whole number of at least 0")
        found = _communication(line, word, size, scopes, phase)
        if found is not None and not size:
            if empty == "error":
                raise line.fault(f"the {phase} {word} has 0 bytes; set empty to drop if it is meant to send nothing")
            dropped.append(line.number)
            found = None
        communication.append(found)
    update_s = _time(line, "the update time", tick_s)
    line.end("the update time (a 13th column belongs to HYBRID_CUSTOMIZED, which is not supported)")
    return Row(name, line.number, tuple(compute_s), tuple(communication), update_s)


def _communication(line: Line, word: str, size: int, scopes: Sequence[str], phase: str) -> Communication | None:
    if word == "NONE":
        if size:
            raise line.fault(f"the {phase} collective is NONE and has {size} bytes")
        return None
    base, _, suffix = word.partition("_")
    if base not in COLLECTIVES or suffix not in scopes:
        known = [f"{c}{'_' if s else ''}{s}" for s in scopes for c in COLLECTIVES]
        raise line.fault(f"unknown collective {_files.shown(word)}; there is: NONE, {', '.join(known)}")
    return Communication(COLLECTIVES[base], size, suffix)


def _time(line: Line, what: str, tick_s: float) -> float:
    ticks = line.number_of(what)
    if ticks < 0:
        raise line.fault(f"{what} is {ticks:g}; a time cannot be negative")
    return ticks * tick_s


def _header(line: Line, words: Sequence[str]) -> dict[str, list[int]]:
    """The fields after the policy: names, with or without a colon, each followed by whole numbers."""
    fields: dict[str, list[int]] = {}
    key = ""
    for word in words:
        number = _files.whole(_files.finite(word))
        if number is not None:
            fields.setdefault(key, []).append(number)
        elif word[0].isalpha():
            key = word.rstrip(":")
            if key in fields:
                raise line.fault(f"the header names {_files.shown(key)} twice")
            fields[key] = []
        else:
            raise line.fault(f"{_files.shown(word)} stands in the header where a field or its number was expected")
    return fields
