"""What a PyTorch profiler trace (Kineto's JSON) says of one rank: its collectives, and when it computed.

NCCL: kernels `ncclKernel*` / `ncclDevKernel*` with their sizes in args, or in the `record_param_comms` of the same External
id. Gloo: annotations `gloo:*` with dims and types, peers in the `c10d::send` / `c10d::recv_` that called it. A
communication kernel's duration includes waiting for peers, so it is never used. Source: pytorch/kineto
libkineto/src/output_json.cpp, and the traces themselves.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from echelonflow.errors import InputError
from traffic.workloads.collectives import Collective
from traffic.workloads.formats import _files
from traffic.workloads.formats._account import Account

Kind = Collective | Literal["send", "recv", "barrier"]
_KINDS: Final[dict[str, Kind]] = {
    "allreduce": "all-reduce", "allgather": "all-gather", "reducescatter": "reduce-scatter", "alltoall": "all-to-all",
    "broadcast": "broadcast", "send": "send", "recv": "recv", "barrier": "barrier",
}  # fmt: skip
_SIZES: Final = {
    "float": 4, "half": 2, "c10::half": 2, "bfloat16": 2, "c10::bfloat16": 2, "double": 8, "long": 8, "long int": 8, "int": 4,
    "short": 2, "short int": 2, "char": 1, "signed char": 1, "byte": 1, "unsigned char": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip
_MICROSECOND: Final = 1e-6
_NCCL: Final = ("ncclKernel", "ncclDevKernel")
MOST_RANKS = 4096
_GLOO: Final = "gloo:"
_STEP: Final = "ProfilerStep#"
Span = tuple[float, float]


@dataclass(frozen=True)
class Communication:
    """One collective, send or receive of one rank; times in seconds from the trace's zero."""

    where: str
    """File and event, for messages."""
    kind: Kind
    size_bytes: int
    """S as nccl-tests define it; of a send or receive, what is sent."""
    ranks: tuple[int, ...]
    """The process group; of a send or receive, (source, destination)."""
    start_s: float
    end_s: float

    def fault(self, words: str) -> InputError:
        return InputError(f"{self.where}: {words}")


@dataclass(frozen=True)
class RankTrace:
    """One step of one rank. `busy` are disjoint spans of computation in order, seconds."""

    path: Path
    rank: int | None
    world: int | None
    step: str
    communications: tuple[Communication, ...]
    busy: tuple[Span, ...]


@dataclass(frozen=True)
class _Event:
    """A complete event (ph X) of the trace."""

    where: str
    name: str
    category: str
    thread: str
    start_s: float
    end_s: float
    arguments: dict[str, Any]

    def fault(self, words: str) -> InputError:
        return InputError(f"{self.where}: {words}")


def read(path: Path, step: str, empty: Literal["error", "drop"], account: Account) -> RankTrace:
    """One step ("last", "all", or the number in ProfilerStep#N) of the trace in the file at `path`.

    `account` is told what is in the file; of other steps only how many collectives. Raises InputError naming file and
    event.
    """
    data = _files.read_json(path)
    entries = data.get("traceEvents") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        raise InputError(f"{path}: has no list traceEvents; this is no trace of PyTorch's profiler")
    # Times since boot leave a double few digits for nanoseconds; counted from the first event they keep them.
    first = next((entry.get("ts") for entry in entries if isinstance(entry, dict) and entry.get("ph") == "X"), 0)
    events = [
        e for i, entry in enumerate(entries) if (e := _event(path, i, entry, _files.finite(first) or 0.0)) is not None
    ]
    span, name = _step_span(path, events, step)
    inside = [e for e in events if span[0] <= e.start_s < span[1]]
    world = _World(path, data.get("distributedInfo"))
    kernels = [e for e in inside if e.category == "kernel"]
    gloo = [e for e in inside if e.category == "user_annotation" and e.name.startswith(_GLOO)]
    nccl = [e for e in kernels if e.name.startswith(_NCCL)]
    if gloo and nccl:
        raise InputError(
            f"{path}: has collectives of both NCCL and Gloo; which of them carry the training is not clear"
        )
    found = _of_nccl(nccl, events, world) if not gloo else _of_gloo(gloo, inside, world)
    sized = _with_bytes(found, empty, account)
    outside = sum(e.name.startswith((*_NCCL, _GLOO)) for e in events) - len(nccl) - len(gloo)
    if outside:
        account.found(communications=outside)
        account.dropped("collectives of other steps (step)", things=outside, communications=outside)
    busy = _on_gpu(kernels, inside, account) if kernels else _on_cpu(inside, account)
    return RankTrace(path, world.rank, world.size, name, sized, tuple(busy))


def _with_bytes(
    found: Sequence[Communication], empty: Literal["error", "drop"], account: Account
) -> tuple[Communication, ...]:
    """What of `found` sends something (InputError for a collective of 0 bytes, unless they are dropped)."""
    kept = []
    for each in found:
        account.found(size_bytes=each.size_bytes, communications=1)
        if each.kind == "barrier":
            account.dropped(
                "barriers: they carry no bytes, and ranks do not wait for each other without", communications=1
            )
        elif each.size_bytes:
            kept.append(each)
        elif empty == "error":
            raise each.fault("has 0 bytes; set empty to drop if it is meant to send nothing")
        else:
            account.dropped("collectives of 0 bytes (empty=drop)", communications=1)
    return tuple(kept)


class _World:
    """What `distributedInfo` says; all of it may be missing in older traces."""

    def __init__(self, path: Path, info: Any) -> None:
        info = info if isinstance(info, dict) else {}
        self.path = path
        self.rank = _files.whole(info.get("rank"))
        self.size = _files.whole(info.get("world_size"), least=1)
        if self.rank is not None and self.size is not None and self.rank >= self.size:
            raise InputError(f"{path}: distributedInfo: rank {self.rank} of {self.size} ranks")
        if self.size is not None and self.size > MOST_RANKS:
            raise InputError(f"{path}: is of {self.size} ranks; 2 to {MOST_RANKS} can be imported")
        groups = info.get("pg_config")
        self.groups: dict[str, tuple[int, ...]] = {}
        for group in groups if isinstance(groups, list) else ():
            if isinstance(group, dict) and (members := _ranks(group.get("ranks"))):
                self.groups[str(group.get("pg_name"))] = members

    def members(self, event: _Event) -> tuple[int, ...]:
        """The ranks of the process group of a collective's event (InputError where the trace does not say)."""
        written = event.arguments.get("Process Group Ranks")
        if isinstance(written, str) and "..." not in written:
            try:
                written = json.loads(written)
            except (ValueError, RecursionError):
                written = None
        if members := _ranks(written):
            return members
        name = event.arguments.get("Process Group Name")
        if name is not None and str(name) in self.groups:
            return self.groups[str(name)]
        size = _files.whole(event.arguments.get("Group size", self.size))
        if self.size is not None and size == self.size and (name is not None or len(self.groups) <= 1):
            return tuple(range(self.size))
        raise event.fault("the trace does not say which ranks take part, neither here nor in distributedInfo.pg_config")


def _ranks(value: Any) -> tuple[int, ...]:
    """`value` as different ranks in order, () where it is none."""
    if not isinstance(value, list) or not all(type(rank) is int and 0 <= rank < 1 << 20 for rank in value):
        return ()
    return tuple(sorted(set(value)))


def _event(path: Path, index: int, entry: Any, zero_us: float) -> _Event | None:
    if not isinstance(entry, dict):
        raise InputError(f"{path}: traceEvents[{index}]: is no event")
    if entry.get("ph") != "X":
        return None
    name = str(entry.get("name", ""))
    where = f"{path}: traceEvents[{index}] ({_files.shown(name)})"
    start, duration = _files.finite(entry.get("ts")), _files.finite(entry.get("dur", 0))
    if start is None or duration is None or duration < 0:
        raise InputError(
            f"{where}: ts {entry.get('ts')!r} and dur {entry.get('dur')!r} are no times; two numbers were expected"
        )
    arguments = entry.get("args")
    begin_s = (start - zero_us) * _MICROSECOND
    return _Event(
        where, name, str(entry.get("cat", "")), repr(entry.get("tid")), begin_s, begin_s + duration * _MICROSECOND,
        arguments if isinstance(arguments, dict) else {},
    )  # fmt: skip


def _step_span(path: Path, events: Sequence[_Event], step: str) -> tuple[Span, str]:
    """The span of the step that was asked for, and what to call it."""
    steps = {e.name[len(_STEP) :]: e for e in events if e.category == "user_annotation" and e.name.startswith(_STEP)}
    if step == "all" or (step == "last" and not steps):
        return (-math.inf, math.inf), "the whole trace"
    if step == "last":
        step = max(steps, key=lambda number: steps[number].start_s)
    if step not in steps:
        there = ", ".join(sorted(steps)[:10]) or "none"
        raise InputError(f"{path}: there is no step {step!r}; there is: {there} (or last, or all)")
    return (steps[step].start_s, steps[step].end_s), f"step {step}"


def _kind(event: _Event, name: str) -> Kind:
    plain = name.lower().replace("_", "")
    kind = next((kind for start, kind in _KINDS.items() if plain.startswith(start)), None)
    if kind is None:
        raise event.fault(f"unknown collective {_files.shown(name)}; there is: {', '.join(_KINDS)}")
    return kind


def _element_bytes(event: _Event, dtype: Any) -> int:
    size = _SIZES.get(str(dtype).lower())
    if size is None:
        raise event.fault(f"unknown data type {_files.shown(str(dtype))}; there is: {', '.join(_SIZES)}")
    return size


def _of_nccl(kernels: Sequence[_Event], events: Sequence[_Event], world: _World) -> list[Communication]:
    calls = (
        {repr(e.arguments.get("External id")): e for e in events if e.name == "record_param_comms"} if kernels else {}
    )
    found = []
    for event in sorted(kernels, key=lambda e: e.start_s):
        told = event
        if "Collective name" not in event.arguments:
            told = calls.get(repr(event.arguments.get("External id")), event)
        a = told.arguments
        if "Collective name" not in a:
            raise event.fault(
                "the trace does not say the collective's size; record it with a newer PyTorch (2.2 or later)"
            )
        kind = _kind(event, str(a["Collective name"]))
        sizes = [_files.whole(a.get(key, 0)) for key in ("In msg nelems", "Out msg nelems")]
        if sizes[0] is None or sizes[1] is None:
            raise event.fault("In msg nelems and Out msg nelems are no whole numbers")
        size = max(sizes[0], sizes[1]) * _element_bytes(event, a.get("dtype")) if kind != "barrier" else 0
        if kind in ("send", "recv"):
            peer = _files.whole(a.get("Dst Rank" if kind == "send" else "Src Rank"))
            ranks: tuple[int, ...] = _ends(told, kind, world, peer)
        else:
            ranks = world.members(told)
        found.append(Communication(event.where, kind, size, ranks, event.start_s, event.end_s))
    return found


def _of_gloo(annotations: Sequence[_Event], events: Sequence[_Event], world: _World) -> list[Communication]:
    if len(world.groups) > 1:
        raise annotations[0].fault("there are several process groups, and Gloo's events do not say which is theirs")
    calls: dict[tuple[Kind, str], list[_Event]] = defaultdict(list)
    for e in sorted(events, key=lambda e: e.start_s):
        for kind, name in (("send", "c10d::send"), ("recv", "c10d::recv_")):
            if e.name == name:
                calls[kind, e.thread].append(e)  # type: ignore[index]
    found = []
    # Several threads carry the collectives; the id tells in which order they were called for.
    for event in sorted(
        annotations, key=lambda e: (_files.whole(e.arguments.get("Record function id")) or 0, e.start_s)
    ):
        kind = _kind(event, event.name[len(_GLOO) :])
        if kind == "barrier":
            found.append(Communication(event.where, kind, 0, (), event.start_s, event.end_s))
            continue
        size = _tensor_bytes(event)
        if kind in ("send", "recv"):
            queue = calls[kind, event.thread]
            inputs = queue.pop(0).arguments.get("Concrete Inputs") if queue else None
            peer = _files.whole(inputs[2]) if isinstance(inputs, list) and len(inputs) > 2 else None
            ranks: tuple[int, ...] = _ends(event, kind, world, peer)
        else:
            ranks = world.members(event)
            size *= len(ranks) if kind == "all-gather" else 1  # the input is one rank's share
        found.append(Communication(event.where, kind, size, ranks, event.start_s, event.end_s))
    return found


def _ends(event: _Event, kind: Kind, world: _World, peer: int | None) -> tuple[int, int]:
    if peer is None or world.rank is None:
        raise event.fault("the trace does not say between which ranks")
    if world.size is not None and peer >= world.size:
        raise event.fault(f"its peer is rank {peer} of {world.size}")
    if peer == world.rank:
        raise event.fault("goes to the rank that it comes from")
    return (world.rank, peer) if kind == "send" else (peer, world.rank)


def _tensor_bytes(event: _Event) -> int:
    """The bytes of all input tensors of a Gloo annotation."""
    shapes, types = event.arguments.get("Input Dims"), event.arguments.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list) or len(shapes) != len(types):
        raise event.fault("has no Input Dims and Input type; record the trace with record_shapes=True")
    total = 0
    for shape, dtype in zip(shapes, types, strict=True):
        lengths = [_files.whole(length) for length in shape] if isinstance(shape, list) else [None]
        if None in lengths or len(lengths) > 32:
            raise event.fault(f"Input Dims {_files.shown(shape)} is no list of whole numbers")
        if dtype:
            total += math.prod(n for n in lengths if n is not None) * _element_bytes(event, dtype)
    if total >= 1 << 62:
        raise event.fault(f"has {total:.3g} bytes, which no network carries")
    return total


def _on_gpu(kernels: Sequence[_Event], events: Sequence[_Event], account: Account) -> list[Span]:
    """Time in kernels that compute, those of several streams together."""
    copies = [e for e in events if e.category in ("gpu_memcpy", "gpu_memset")]
    if copies:
        spent_s = sum(e.end_s - e.start_s for e in copies)
        account.found(compute_s=spent_s)
        account.dropped("copies on the GPU: they leave the cores free", things=len(copies), compute_s=spent_s)
    return _counted_once([(e.start_s, e.end_s) for e in kernels if not e.name.startswith(_NCCL)], "kernels", account)


def _on_cpu(events: Sequence[_Event], account: Account) -> list[Span]:
    """Time in operators, less that in calls of collectives (which may wait) on the same thread."""
    by_thread: dict[str, list[_Event]] = defaultdict(list)
    for event in events:
        if event.category == "cpu_op":
            by_thread[event.thread].append(event)
    spans: list[Span] = []
    for found in by_thread.values():
        calls = _union([(e.start_s, e.end_s) for e in found if e.name.startswith(("c10d::", "record_param_comms"))])
        operators = _union([(e.start_s, e.end_s) for e in found])
        computing = _without(operators, calls)
        waiting_s = _seconds(operators) - _seconds(computing)
        account.found(compute_s=waiting_s)
        account.dropped("calls of collectives on the CPU: they may wait", things=len(calls), compute_s=waiting_s)
        spans += computing
    return _counted_once(spans, "operators", account)


def _counted_once(spans: Sequence[Span], what: str, account: Account) -> list[Span]:
    """The union of `spans`; the account is told of all, and of those that are in one another."""
    once = _union(spans)
    account.found(compute_s=_seconds(spans))
    account.counted(f"{what} that ran at the same time", compute_s=_seconds(once) - _seconds(spans))
    return once


def _seconds(spans: Sequence[Span]) -> float:
    return sum(end - start for start, end in spans)


def _union(spans: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _without(spans: Sequence[Span], holes: Sequence[Span]) -> list[Span]:
    """Disjoint ordered `spans` less disjoint ordered `holes`."""
    left: list[Span] = []
    first = 0
    for start, end in spans:
        while first < len(holes) and holes[first][1] <= start:
            first += 1
        at = start
        for index in range(first, len(holes)):
            hole_start, hole_end = holes[index]
            if hole_start >= end:
                break
            if hole_start > at:
                left.append((at, hole_start))
            at = max(at, hole_end)
        if at < end:
            left.append((at, end))
    return left
