"""Per-layer text workloads, as ASTRA-sim 1.0 and SimAI write them: the rows and the header. `_layer_loops` runs them.

Row: name, reserved, then for forward pass, input gradient and weight gradient each compute time, collective and bytes, then
the time that an update takes after a collective. Sources: ASTRA-sim's workload README and loops (Workload.cc), SimAI's
Workload.cc, AICB's Work_Item.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from echelonflow.errors import InputError
from traffic.workloads.collectives import Collective
from traffic.workloads.formats import _files
from traffic.workloads.formats._account import Account
from traffic.workloads.traces._lines import Line

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
CHECKPOINTS: Final = "checkpoints"
INITIATES: Final = "checkpoint_initiates"
_LISTS: Final = (CHECKPOINTS, INITIATES)


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
    """A workload file: policy and header, its rows, and the account of what is in them."""

    path: Path
    policy: str
    fields: Mapping[str, int]
    """Fields of the header with one number."""
    layers: Mapping[str, Sequence[int]]
    """Fields of the header that list layers, by their places: CHECKPOINTS and INITIATES."""
    rows: tuple[Row, ...]
    account: Account


def read_table(
    path: Path,
    *,
    policies: Collection[str],
    fields: Collection[str],
    scopes: Sequence[str],
    tick_s: float,
    empty: Empty,
) -> Table:
    """The table in the file at `path`.

    `scopes` are the suffixes that a collective's name may have, `policies` those that are supported, `fields` those of
    the header with one number. A field that is not known is dropped, as SimAI's parser skips it.
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
    written = _header(lines[0], texts[0][1].split()[1:])
    count = lines[1].whole("the number of layers", least=1)
    lines[1].end("the number of layers")
    account = Account()
    rows = [_row(line, scopes, tick_s, empty, account) for line in lines[2:]]
    if len(rows) != count:
        raise lines[-1].fault(f"the header (line {lines[1].number}) says {count} layers and there are {len(rows)}")
    for key in written:
        if key not in fields and key not in _LISTS:
            account.dropped(f"field {_files.shown(key)} of the header: it is not known", things=0)
    numbers = {key: _number(lines[0], key, written[key]) for key in written if key in fields}
    layers = {key: _layers(lines[0], key, written.get(key, ["0"]), len(rows)) for key in _LISTS}
    return Table(path, policy, numbers, layers, tuple(rows), account)


def positive_tick(path: Path, tick_s: float) -> None:
    """Raise InputError unless a unit of time takes time."""
    if not 0 < tick_s < math.inf:
        raise InputError(f"{path}: tick is {tick_s:g} s; one unit of time takes more than 0 s")


def only(paths: Sequence[Path], what: str) -> Path:
    """The one path of `paths` (InputError unless there is just one)."""
    if len(paths) != 1:
        raise InputError(f"{what} is one file for all ranks; {len(paths)} files were given")
    return paths[0]


def evenly(ranks: int, sizes: Sequence[tuple[str, int]], path: Path) -> None:
    """Raise InputError unless the product of the (named) sizes divides the number of ranks."""
    product = math.prod(size for _, size in sizes)
    if min(size for _, size in sizes) < 1 or ranks < 1 or ranks % product:
        words = " x ".join(f"{name} {size}" for name, size in sizes)
        raise InputError(
            f"{path}: {ranks} ranks cannot be divided into groups of {words}; set ranks to a multiple of {product}"
        )


def _row(line: Line, scopes: Sequence[str], tick_s: float, empty: Empty, account: Account) -> Row:
    name = line.text("a layer's name")
    line.number_of("the reserved number")
    compute_s, communication = [], []
    for phase in PHASES:
        compute_s.append(_time(line, f"the {phase} compute time", tick_s))
        communication.append(_communication(line, scopes, phase, empty, account))
    update_s = _time(line, "the update time", tick_s)
    line.end("the update time (a 13th column belongs to HYBRID_CUSTOMIZED, which is not supported)")
    account.found(compute_s=sum(compute_s, update_s))
    return Row(name, line.number, tuple(compute_s), tuple(communication), update_s)


def _communication(
    line: Line, scopes: Sequence[str], phase: str, empty: Empty, account: Account
) -> Communication | None:
    """The next collective of a row; None, and the account told, where it sends nothing."""
    word = line.text(f"the {phase} collective")
    size = _files.whole(line.number_of(f"the {phase} bytes"))
    if size is None:
        raise line.fault(f"the {phase} bytes are no whole number of at least 0")
    if word == "NONE":
        if size:  # AICB writes them where it switched a collective off; ASTRA-sim and SimAI do not look at them
            account.found(size_bytes=size)
            account.dropped("NONEs with bytes: they name no collective", size_bytes=size)
        return None
    base, _, suffix = word.partition("_")
    if base not in COLLECTIVES or suffix not in scopes:
        known = [f"{c}{'_' if s else ''}{s}" for s in scopes for c in COLLECTIVES]
        raise line.fault(f"unknown collective {_files.shown(word)}; there is: NONE, {', '.join(known)}")
    account.found(size_bytes=size, communications=1)
    if not size:
        if empty == "error":
            raise line.fault(f"the {phase} {word} has 0 bytes; set empty to drop if it is meant to send nothing")
        account.dropped("collectives of 0 bytes (empty=drop)", communications=1)
        return None
    return Communication(COLLECTIVES[base], size, suffix)


def _time(line: Line, what: str, tick_s: float) -> float:
    ticks = line.number_of(what)
    if ticks < 0:
        raise line.fault(f"{what} is {ticks:g}; a time cannot be negative")
    return ticks * tick_s


def _header(line: Line, words: Sequence[str]) -> dict[str, list[str]]:
    """The fields after the policy: names, with or without a colon, each with the words that follow it."""
    fields: dict[str, list[str]] = {}
    key = ""
    for word in words:
        if word[0].isalpha():
            key = word.rstrip(":")
            if key in fields:
                raise line.fault(f"the header names {_files.shown(key)} twice")
            fields[key] = []
        else:
            fields.setdefault(key, []).append(word)
    return fields


def _number(line: Line, key: str, words: Sequence[str]) -> int:
    """The one number of the field `key`."""
    numbers = _numbers(line, key, words)
    if len(numbers) != 1:
        raise line.fault(f"{key} has {len(numbers)} numbers; it has 1")
    return numbers[0]


def _layers(line: Line, key: str, words: Sequence[str], rows: int) -> list[int]:
    """The places of layers in the field `key`: how many, and then each."""
    numbers = _numbers(line, key, words)
    if len(numbers) != 1 + (numbers[0] if numbers else 0):
        raise line.fault(f"{key} has a count and {len(numbers) - 1} numbers; they do not match")
    if any(number >= rows for number in numbers[1:]):
        raise line.fault(f"{key} names a layer beyond the {rows} that there are")
    return numbers[1:]


def _numbers(line: Line, key: str, words: Sequence[str]) -> list[int]:
    numbers = []
    for word in words:
        number = _files.whole(_files.finite(word))
        if number is None:
            raise line.fault(f"{_files.shown(word)} stands in {key}, where a whole number of at least 0 was expected")
        numbers.append(number)
    return numbers
