"""Chakra execution traces (MLCommons): one file per rank, nodes with dependencies; read and written.

What a node is: the schema (et_def.proto); what it does: ASTRA-sim's Workload.cc and its feeder. Collectives are matched
across ranks by process group and order, messages by source, destination, tag and order.

One file per rank, `NAME.<rank>.et`, packed by gzip or not. No library is needed.

| node | becomes |
|---|---|
| COMP | a computation of duration_micros; `num_ops` without duration needs `flops`. On the CPU (`is_cpu_op`): dropped, its order kept, unless `cpu_ops=keep` |
| COMM_COLL | all-reduce, all-gather, all-to-all, reduce-scatter (also "block"), broadcast; matched across ranks by process group and order. REDUCE, GATHER, SCATTER name no root and are refused |
| COMM_SEND, COMM_RECV | one transfer; matched by source, destination, tag and order |
| MEM_LOAD, MEM_STORE | a computation if they take time, else nothing |
| METADATA, barriers | nothing; what waits for them waits for what they wait for |

`compute=serial` (default): a rank computes one thing at a time, in the order in which things become ready, as
ASTRA-sim replays. `gather_size=shard` (default): an all-gather's bytes are each rank's input, as ASTRA-sim takes
them. `groups=FILE`: a JSON file of process groups (relative to where the command runs); without it a group is the
ranks that name it. A rank's next iteration begins when its last has ended. The type that some generators write into
`comm_type` of sends and receives is ignored. Dependencies are those of data and of control. One of control alone on a
node that is not in the file is let go, and counted: traces converted from PyTorch's have such ones.

**Written**, too: computations as COMP, transfers as COMM_SEND and COMM_RECV (collectives are flows by then). Chakra
has whole microseconds, and neither groups nor following iterations: those travel in attributes `echelon_*`, which
other readers ignore. A job that is written and read comes back equal in every step, dependency, size, time, group and
offset. The DAG must be one that hosts can follow (above).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from echelonflow.errors import InputError
from traffic.workloads.collectives import Collective
from traffic.workloads.formats import _chakra_job, _files
from traffic.workloads.formats import _chakra_messages as messages
from traffic.workloads.formats._account import BOTH_ENDS, LISTED_BY_ALL, SHARDS, Account
from traffic.workloads.formats._chakra_messages import Node
from traffic.workloads.formats._iteration import Algorithm, Grouping, ImportedIteration
from traffic.workloads.formats._report import Imported, Report

SUMMARY = "Chakra execution traces: NAME.<rank>.et, one file per rank"
LOOKS_LIKE = re.compile(rb"[\x02-\x7f]\x0a.[0-9]+\.[0-9]+\.[0-9]+", re.DOTALL)

GatherSize = Literal["shard", "total"]
_NAME: Final = re.compile(r"(.*)\.([0-9]{1,9})\.et(\.gz)?")
_COLLECTIVES: Final[dict[int, Collective]] = {
    0: "all-reduce", 2: "all-gather", 5: "broadcast", 6: "all-to-all", 7: "reduce-scatter", 8: "reduce-scatter",
}  # fmt: skip
_BARRIER: Final = 9
_UNSUPPORTED: Final = {1: "REDUCE", 3: "GATHER", 4: "SCATTER"}
_COMMUNICATIONS: Final = (messages.COMM_COLL, messages.COMM_SEND, messages.COMM_RECV)
_RELEASED: Final = "control dependencies on nodes that are not in the file: let go, as Chakra's feeder does"
_MICROSECOND: Final = 1e-6


@dataclass(frozen=True)
class _Work:
    """A node of one rank, its place in the files, and the handles that it waits for."""

    path: Path
    rank: int
    node: Node
    after: tuple[str, ...]
    released: int = 0
    """How many nodes it waits for by control alone and that are not in the file."""

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


def read(
    paths: Sequence[Path],
    *,
    groups: str | None = None,
    compute: Literal["serial", "as-written"] = "serial",
    cpu_ops: Literal["drop", "keep"] = "drop",
    flops: float | None = None,
    gather_size: GatherSize = "shard",
    empty: Literal["error", "drop"] = "error",
    algorithm: Algorithm = "ring",
    grouping: Grouping = "paradigm",
) -> Imported:
    """The job in the traces `paths`, one file per rank, all ranks from 0 on.

    `groups` is a JSON file {process group: [ranks]}; without it a group is all ranks that name it. `compute` is serial if a
    rank computes one thing at a time (as ASTRA-sim replays it). `cpu_ops` that are dropped keep their dependencies and lose
    their time. `flops` (operations/s) times nodes that have operations and no duration. `gather_size` says whether an
    all-gather's bytes are each rank's shard, as ASTRA-sim takes them, or the total. Raises InputError naming file and node.
    """
    files = _by_rank(paths)
    ranks = len(files)
    traces = [messages.read(path) for path in files]
    ours = _chakra_job.marked(files, [metadata for metadata, _ in traces])
    work = [
        w for rank, (path, (_, nodes)) in enumerate(zip(files, traces, strict=True)) for w in _work(path, rank, nodes)
    ]
    if not work:
        raise InputError(f"{files[0]}: the traces have no nodes")
    account = Account()
    iteration = ImportedIteration(
        str(files[0].parent / "*.et"), ranks, account=account, algorithm=algorithm, grouping=grouping
    )
    reader = _Reader(iteration, flops, cpu_ops == "keep", empty == "drop", gather_size)
    if ours is not None:
        work.sort(key=lambda w: w.node.id)  # the order of the job's steps
        reader.exact = True
    reader.count(work)
    reader.collectives(work, _read_groups(groups, ranks))
    reader.messages(work, files)
    for each in work:
        reader.alone(each)
    if iteration.empty:
        raise InputError(f"{files[0]}: the traces have neither time nor bytes: {'; '.join(account.lost())}")
    dag = iteration.dag(
        parameters={"imported": "chakra", "files": [path.name for path in files]},
        serial=compute == "serial" and ours is None,
        wrap=ours is None,
    )
    if ours is not None:
        order = [w.node.name for w in work if w.node.type != messages.COMM_RECV]
        dag = _chakra_job.restored(dag, ours, order, files[0])
    if ours is None:
        reader.assumed += [
            f"computations of a rank run {'one at a time' if compute == 'serial' else 'as soon as they can'} (compute)",
            f"all-reduce, all-gather and reduce-scatter by {algorithm} (algorithm)",
            "a rank's next iteration begins when its last has ended",
        ]
    found = Counter(_TYPE_NAMES.get(w.node.type, "?") for w in work)
    kinds = ", ".join(f"{n} {what}" for what, n in sorted(found.items()))
    read_lines = [f"{dag.ranks} rank files, {len(work)} nodes: {kinds}"]
    return Imported(dag, Report.of(account, dag, source=iteration.source, read=read_lines, assumed=reader.assumed))


_TYPE_NAMES: Final = {
    messages.METADATA: "metadata", messages.MEM_LOAD: "memory loads", messages.MEM_STORE: "memory stores",
    messages.COMP: "computations", messages.COMM_SEND: "sends", messages.COMM_RECV: "receives",
    messages.COMM_COLL: "collectives",
}  # fmt: skip


class _Reader:
    """Turns nodes into work of an iteration, and tells the iteration's account what it read and left out."""

    def __init__(
        self,
        iteration: ImportedIteration,
        flops: float | None,
        keep_cpu: bool,
        drop_empty: bool,
        gather_size: GatherSize,
    ) -> None:
        self.assumed: list[str] = []
        self.exact = False
        """Whether names are those of one of our own jobs."""
        self._iteration = iteration
        self._flops = flops
        self._keep_cpu = keep_cpu
        self._drop_empty = drop_empty
        self._gather_size = gather_size
        self._account = iteration.account

    def count(self, work: Sequence[_Work]) -> None:
        """Tell the account what the files list: every node once, whatever becomes of it."""
        coflows = set()
        for each in work:
            if each.node.type in _COMMUNICATIONS:
                self._account.found(size_bytes=_message_bytes(each), communications=1)
            elif each.node.type in _TYPE_NAMES:
                self._account.found(compute_s=self._duration_s(each))
            if each.released:
                self._account.dropped(_RELEASED, things=each.released)
            if each.node.type == messages.COMM_SEND:
                coflows.add(each.node.attributes.get(_chakra_job.COFLOW, each.node.name))
        if self.exact:
            sends = sum(each.node.type == messages.COMM_SEND for each in work)
            self._account.counted("flows of a collective are listed one by one", communications=len(coflows) - sends)

    def collectives(self, work: Sequence[_Work], groups: Mapping[str, Sequence[int]] | None) -> None:
        """Match the collectives of all ranks, in each process group by their order."""
        found: dict[str, dict[int, list[_Work]]] = defaultdict(lambda: defaultdict(list))
        for each in sorted((w for w in work if w.node.type == messages.COMM_COLL), key=lambda w: w.node.id):
            name = str(each.node.attributes.get("pg_name", ""))
            found[name][each.rank].append(each)
        for name, by_rank in found.items():
            if groups is not None and name in groups:
                members: Sequence[int] = groups[name]
            elif name and groups is not None:
                raise next(iter(by_rank.values()))[0].fault(f"process group {name!r} is not in the file of groups")
            elif name:
                members = sorted(by_rank)
                self.assumed.append(f"process group {name!r} is the ranks that name it: {members} (groups)")
            else:
                members = range(self._iteration.ranks)
            strangers = sorted(set(by_rank) - set(members))
            if strangers:
                raise by_rank[strangers[0]][0].fault(f"rank {strangers[0]} is not in process group {name!r}")
            for row in itertools.zip_longest(*(by_rank.get(rank, []) for rank in members)):
                self._collective(members, row)

    def _collective(self, members: Sequence[int], row: Sequence[_Work | None]) -> None:
        first = next(w for w in row if w is not None)
        kind_code = self._comm_type(first)
        size = first.whole("comm_size")
        for rank, each in zip(members, row, strict=True):
            if each is None:
                raise first.fault(
                    f"rank {rank} has no such collective; {len(members)} ranks were expected to take part"
                )
            if (self._comm_type(each), each.whole("comm_size")) != (kind_code, size):
                raise each.fault(
                    f"is another collective or size than rank {first.rank} has there (node {first.node.id})"
                )
        matched = [w for w in row if w is not None]
        if kind_code == _BARRIER:
            self._pass_on(matched, "barriers: they carry no bytes, and ranks do not wait for each other without")
            return
        if not size:
            self._refuse_empty(first, "a collective")
            self._pass_on(matched, "collectives of 0 bytes (empty=drop)")
            return
        kind = _COLLECTIVES[kind_code]
        others = len(members) - 1
        self._account.counted(LISTED_BY_ALL, size_bytes=-others * size, communications=-others)
        if kind == "all-gather" and self._gather_size == "shard":
            self._account.counted(SHARDS, size_bytes=others * size)
            size *= len(members)
        if kind == "broadcast":
            self._note("the first rank of a group is the root of its broadcasts")
        if kind == "all-gather":
            self._note(f"bytes of an all-gather are each rank's {self._gather_size} (gather_size)")
        after = {w.rank: w.after for w in matched}
        ends = self._iteration.collective(f"n{first.node.id} {first.node.name}", kind, members, size, after)
        for each in matched:
            self._iteration.join(each.handle, each.rank, [ends[each.rank]])

    def messages(self, work: Sequence[_Work], files: Sequence[Path]) -> None:
        """Match sends and receives."""
        sends, receives = _by_channel(work, messages.COMM_SEND, files), _by_channel(work, messages.COMM_RECV, files)
        for channel in (*sends, *(c for c in receives if c not in sends)):
            src, dst, tag = channel
            for send, receive in itertools.zip_longest(sends.get(channel, []), receives.get(channel, [])):
                if send is None or receive is None:
                    one, other = (
                        (receive, f"rank {src} does not send")
                        if send is None
                        else (send, f"rank {dst} does not receive")
                    )
                    raise one.fault(f"{other} it: there is no such node with tag {tag}")
                self._message(send, receive)

    def _message(self, send: _Work, receive: _Work) -> None:
        size = _message_bytes(send)
        if _message_bytes(receive) != size:
            raise receive.fault(
                f"receives {_message_bytes(receive)} bytes where {send.path.name}, node {send.node.id}, sends {size}"
            )
        if not size:
            self._refuse_empty(send, "a message")
            self._pass_on([send, receive], "sends and receives of 0 bytes (empty=drop)")
            return
        self._account.counted(BOTH_ENDS, size_bytes=-size, communications=-1)
        group, coflow = (send.node.attributes.get(name) for name in (_chakra_job.GROUP, _chakra_job.COFLOW))
        self._iteration.send(
            send.node.name if self.exact else f"{send.label} to r{receive.rank}", send.rank, receive.rank, size, send.after, receive.after,
            sent=send.handle, received=receive.handle,
            group=str(group) if group is not None and self.exact else None,
            coflow=str(coflow) if coflow is not None and self.exact else None,
        )  # fmt: skip

    def alone(self, work: _Work) -> None:
        """Work that concerns one rank only."""
        kind, attributes = work.node.type, work.node.attributes
        if kind in _COMMUNICATIONS:
            return
        if kind not in _TYPE_NAMES:
            raise work.fault(f"node type {kind} is not known; there is: {', '.join(map(str, _TYPE_NAMES))}")
        duration_s = self._duration_s(work)
        if kind == messages.METADATA:
            self._pass_on([work], "metadata nodes: nothing of theirs is computed or sent", duration_s)
        elif kind != messages.COMP and not duration_s:
            self._pass_on([work], f"{_TYPE_NAMES[kind]} without time: nothing of theirs is on the network")
        elif attributes.get("is_cpu_op") and not self._keep_cpu and not self.exact:
            self._pass_on(
                [work], "computations on the CPU: their order is kept, their time is not (cpu_ops)", duration_s
            )
        else:
            label = work.node.name if self.exact else work.label
            step_kind = str(attributes.get(_chakra_job.KIND, "compute" if kind == messages.COMP else "memory"))
            self._iteration.compute(label, work.rank, duration_s, work.after, step_kind)
            self._iteration.join(work.handle, work.rank, [label])

    def _duration_s(self, work: _Work) -> float:
        exact = work.node.attributes.get(_chakra_job.DURATION)
        if isinstance(exact, float):
            return exact
        if work.node.duration_us >= 1 << 53:
            raise work.fault(f"lasts {work.node.duration_us} us, which is no time that a job takes")
        if work.node.duration_us or work.node.type != messages.COMP:
            return work.node.duration_us * _MICROSECOND
        operations = work.whole("num_ops")
        if not operations:
            return 0.0
        if self._flops is None or not self._flops > 0:
            raise work.fault(f"has {operations} operations and no duration; set flops (operations per second)")
        self._note(f"a computation without duration takes its operations / {self._flops:g} per s (flops)")
        return operations / self._flops

    def _comm_type(self, work: _Work) -> int:
        code = work.whole("comm_type")
        if code not in _COLLECTIVES and code != _BARRIER:
            what = f"{_UNSUPPORTED[code]}, which names no root" if code in _UNSUPPORTED else f"comm_type {code}"
            raise work.fault(
                f"is {what}; there is: {', '.join(f'{c} {k}' for c, k in _COLLECTIVES.items())}, 9 barrier"
            )
        assert code is not None
        return code

    def _refuse_empty(self, work: _Work, what: str) -> None:
        if not self._drop_empty:
            raise work.fault(f"{what} has 0 bytes or no comm_size; set empty to drop if it is meant to send nothing")

    def _pass_on(self, work: Iterable[_Work], why: str, compute_s: float = 0.0) -> None:
        """Drop nodes, of `compute_s` each; what waits for them waits for what they wait for."""
        for each in work:
            size_bytes, communications = (_message_bytes(each), 1) if each.node.type in _COMMUNICATIONS else (0, 0)
            self._account.dropped(why, compute_s=compute_s, size_bytes=size_bytes, communications=communications)
            self._iteration.join(each.handle, each.rank, each.after)

    def _note(self, words: str) -> None:
        if words not in self.assumed:
            self.assumed.append(words)


def _handle(rank: int, node_id: int) -> str:
    return f"node {node_id} of rank {rank}"


def _by_rank(paths: Sequence[Path]) -> list[Path]:
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


def _work(path: Path, rank: int, nodes: Sequence[Node]) -> list[_Work]:
    """The nodes of one rank as work.

    A control dependency on a node that is not in the file is let go: converters of PyTorch's traces leave such ones, and
    Chakra's feeder resolves data dependencies alone.
    """
    known = Counter(node.id for node in nodes)
    work = []
    for node in nodes:
        before = list(dict.fromkeys(node.after))
        there = [other for other in before if other in known or other not in node.control]
        handles = tuple(_handle(rank, other) for other in there)
        each = _Work(path, rank, node, handles, len(before) - len(there))
        if known[node.id] > 1:
            raise each.fault("there are two nodes of this id")
        unknown = next((other for other in there if other not in known), None)
        if unknown is not None:
            raise each.fault(f"waits for node {unknown}, which is not in the file")
        if node.id in node.after:
            raise each.fault("waits for itself")
        work.append(each)
    return work


def _read_groups(path: str | None, ranks: int) -> dict[str, list[int]] | None:
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


def _by_channel(work: Sequence[_Work], kind: int, files: Sequence[Path]) -> dict[tuple[int, int, int], list[_Work]]:
    """Sends or receives by (source, destination, tag), in order of their ids."""
    peer_name, own_name = ("comm_dst", "comm_src") if kind == messages.COMM_SEND else ("comm_src", "comm_dst")
    found: dict[tuple[int, int, int], list[_Work]] = defaultdict(list)
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


def _message_bytes(work: _Work) -> int:
    size = work.whole("comm_size")
    return size if size is not None else work.whole("tensor_size") or 0
