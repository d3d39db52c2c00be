"""The nodes of Chakra traces, rank by rank: which files they come from, what they wait for, and which belong together."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from echelonflow.errors import InputError
from traffic.workloads.formats import _chakra_messages as messages
from traffic.workloads.formats import _files
from traffic.workloads.formats._chakra_messages import Node

Control = Literal["keep", "drop"]
_NAME: Final = re.compile(r"(.*)\.([0-9]{1,9})\.et(\.gz)?")


@dataclass(frozen=True)
class Work:
    """A node of one rank, its place in the files, and the handles that it waits for."""

    path: Path
    rank: int
    node: Node
    after: tuple[str, ...]
    released: int = 0
    """How many control dependencies were let go."""

    @property
    def handle(self) -> str:
        return _handle(self.rank, self.node.id)

    @property
    def label(self) -> str:
        return f"r{self.rank} n{self.node.id} {self.node.name}"

    def fault(self, words: str) -> InputError:
        return InputError(f"{self.path}: node {self.node.id} ({_files.shown(self.node.name)}): {words}")

    def whole(self, name: str, least: int = 0) -> int | None:
        """Attribute `name` as a whole number; None where it is missing (InputError where it is something else)."""
        if name not in self.node.attributes:
            return None
        value = _files.whole(self.node.attributes[name], least)
        if value is None:
            raise self.fault(
                f"{name} is {self.node.attributes[name]!r}; a whole number of at least {least} was expected"
            )
        return value


def _handle(rank: int, node_id: int) -> str:
    return f"node {node_id} of rank {rank}"


def files_by_rank(paths: Sequence[Path]) -> list[Path]:
    """The files in order of their ranks (InputError unless they are NAME.0.et .. NAME.n.et)."""
    found: dict[int, Path] = {}
    names = set()
    for path in paths:
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise InputError(f"{path}: is not called NAME.<rank>.et, which is how a Chakra trace says its rank")
        rank = int(match[2])
        if rank in found:
            raise InputError(f"{path}: rank {rank} has two files; the other is {found[rank]}")
        found[rank] = path
        names.add(match[1])
    if not found:
        raise InputError("no Chakra traces were given; name one file per rank")
    if len(names) > 1:
        raise InputError(f"the files are of different traces: {', '.join(sorted(names)[:5])}")
    missing = next((rank for rank in range(max(found)) if rank not in found), None)
    if missing is not None:
        raise InputError(
            f"the file of rank {missing} is missing: {names.pop()}.{missing}.et; there are {len(found)} files up to rank {max(found)}"
        )
    return [found[rank] for rank in sorted(found)]


def work_of(path: Path, rank: int, nodes: Sequence[Node], control: Control) -> list[Work]:
    """The nodes of one rank as work.

    A control dependency on the node itself, or on one that is not in the file, is let go. Converters of PyTorch's traces
    leave such ones, and Chakra's feeder resolves data dependencies alone. With `control` drop, all are.
    """
    known = Counter(node.id for node in nodes)
    work = []
    for node in nodes:
        before = list(dict.fromkeys(node.after))
        there = [other for other in before if other not in node.control]
        if control == "keep":
            there = [o for o in before if o not in node.control or (o in known and o != node.id)]
        handles = tuple(_handle(rank, other) for other in there)
        each = Work(path, rank, _called(node), handles, len(before) - len(there))
        if known[node.id] > 1:
            raise each.fault("there are two nodes of this id")
        unknown = next((other for other in there if other not in known), None)
        if unknown is not None:
            raise each.fault(f"waits for node {unknown}, which is not in the file")
        if node.id in there:
            raise each.fault("waits for itself")
        work.append(each)
    return work


def _called(node: Node) -> Node:
    """`node`, as a computation if it is the call on the CPU that starts a collective, which is a node of its own."""
    call = node.type == messages.COMM_COLL and node.attributes.get("is_cpu_op") and "comm_type" not in node.attributes
    return dataclasses.replace(node, type=messages.COMP) if call else node


def read_groups(path: str | None, ranks: int) -> dict[str, list[int]] | None:
    """The process groups in the JSON file at `path` (InputError where it is not {name: [ranks]})."""
    if path is None:
        return None
    data = _files.read_json(Path(path))
    if not isinstance(data, dict):
        raise InputError(f"{path}: is not a mapping of process groups to ranks")
    for name, members in data.items():
        right = isinstance(members, list) and members and all(type(m) is int and 0 <= m < ranks for m in members)
        if not right or len(set(members)) != len(members):
            raise InputError(f"{path}: process group {name!r} is not a list of different ranks from 0 to {ranks - 1}")
    return data


def by_channel(work: Sequence[Work], kind: int, files: Sequence[Path]) -> dict[tuple[int, int, int], list[Work]]:
    """Sends or receives by (source, destination, tag), in order of their ids."""
    peer_name, own_name = ("comm_dst", "comm_src") if kind == messages.COMM_SEND else ("comm_src", "comm_dst")
    found: dict[tuple[int, int, int], list[Work]] = defaultdict(list)
    for each in sorted((w for w in work if w.node.type == kind), key=lambda w: w.node.id):
        peer = each.whole(peer_name)
        if peer is None:
            raise each.fault(f"names no {peer_name}; without, nobody knows where the bytes go")
        if peer >= len(files):
            raise each.fault(
                f"{peer_name} is rank {peer}, whose file is missing; there are ranks 0 to {len(files) - 1}"
            )
        own = each.whole(own_name)
        if own is not None and own != each.rank:
            raise each.fault(f"{own_name} is rank {own} in the file of rank {each.rank}")
        if peer == each.rank:
            raise each.fault("goes to the rank that it comes from")
        ends = (each.rank, peer) if kind == messages.COMM_SEND else (peer, each.rank)
        found[ends[0], ends[1], each.whole("comm_tag") or 0].append(each)
    return found


def message_bytes(work: Work) -> int:
    size = work.whole("comm_size")
    return size if size is not None else work.whole("tensor_size") or 0
