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
`comm_type` of sends and receives is ignored. Dependencies are those of data and of control. One of control alone on the
node itself, or on one that is not in the file, is let go and counted: traces converted from PyTorch's have such ones.
`control=drop` follows data alone, as Chakra's feeder does; control dependencies may form cycles. A collective on the
CPU without `comm_type` is the call that starts one, so it is a computation on the CPU.

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
from pathlib import Path
from typing import Final, Literal

from echelonflow.errors import InputError
from traffic.workloads.collectives import Collective
from traffic.workloads.formats import _chakra_job
from traffic.workloads.formats import _chakra_messages as messages
from traffic.workloads.formats._account import BOTH_ENDS, LISTED_BY_ALL, SHARDS, Account
from traffic.workloads.formats._chakra_nodes import (
    Control,
    Work,
    by_channel,
    files_by_rank,
    message_bytes,
    read_groups,
    work_of,
)
from traffic.workloads.formats._iteration import Algorithm, Grouping, ImportedIteration
from traffic.workloads.formats._report import Imported, Report

SUMMARY = "Chakra execution traces: NAME.<rank>.et, one file per rank"
LOOKS_LIKE = re.compile(rb"[\x02-\x7f]\x0a.[0-9]+\.[0-9]+\.[0-9]+", re.DOTALL)

GatherSize = Literal["shard", "total"]
_COLLECTIVES: Final[dict[int, Collective]] = {
    0: "all-reduce", 2: "all-gather", 5: "broadcast", 6: "all-to-all", 7: "reduce-scatter", 8: "reduce-scatter",
}  # fmt: skip
_BARRIER: Final = 9
_UNSUPPORTED: Final = {1: "REDUCE", 3: "GATHER", 4: "SCATTER"}
_COMMUNICATIONS: Final = (messages.COMM_COLL, messages.COMM_SEND, messages.COMM_RECV)
_RELEASED: Final[dict[Control, str]] = {
    "keep": "control dependencies on nodes that are not in the file, or on the node itself: let go",
    "drop": "control dependencies: data dependencies are followed alone (control)",
}
_MICROSECOND: Final = 1e-6


def read(
    paths: Sequence[Path],
    *,
    groups: str | None = None,
    compute: Literal["serial", "as-written"] = "serial",
    cpu_ops: Literal["drop", "keep"] = "drop",
    flops: float | None = None,
    control: Control = "keep",
    gather_size: GatherSize = "shard",
    empty: Literal["error", "drop"] = "error",
    algorithm: Algorithm = "ring",
    grouping: Grouping = "paradigm",
) -> Imported:
    """The job in the traces `paths`, one file per rank, all ranks from 0 on.

    `groups` is a JSON file {process group: [ranks]}; without it a group is all ranks that name it. `compute` is serial if a
    rank computes one thing at a time (as ASTRA-sim replays it). `cpu_ops` that are dropped keep their dependencies and lose
    their time. `flops` (operations/s) times nodes that have operations and no duration. `control` says whether control
    dependencies are followed, or data alone, as Chakra's feeder does. `gather_size` says whether an
    all-gather's bytes are each rank's shard, as ASTRA-sim takes them, or the total. Raises InputError naming file and node.
    """
    files = files_by_rank(paths)
    ranks = len(files)
    traces = [messages.read(path) for path in files]
    ours = _chakra_job.marked(files, [metadata for metadata, _ in traces])
    work = [
        w
        for rank, (path, (_, nodes)) in enumerate(zip(files, traces, strict=True))
        for w in work_of(path, rank, nodes, control)
    ]
    if not work:
        raise InputError(f"{files[0]}: the traces have no nodes")
    account = Account()
    iteration = ImportedIteration(
        str(files[0].parent / "*.et"), ranks, account=account, algorithm=algorithm, grouping=grouping
    )
    reader = _Reader(iteration, flops, control, cpu_ops == "keep", empty == "drop", gather_size)
    if ours is not None:
        work.sort(key=lambda w: w.node.id)  # the order of the job's steps
        reader.exact = True
    reader.count(work)
    reader.collectives(work, read_groups(groups, ranks))
    reader.messages(work, files)
    for each in work:
        reader.alone(each)
    if iteration.empty:
        raise InputError(f"{files[0]}: the traces have neither time nor bytes: {'; '.join(account.lost())}")
    try:
        dag = iteration.dag(
            parameters={"imported": "chakra", "files": [path.name for path in files]},
            serial=compute == "serial" and ours is None,
            wrap=ours is None,
        )
    except InputError as error:
        if control == "keep" and "cycle through" in str(error) and any(w.node.control for w in work):
            raise InputError(f"{error}; set control to drop if it is one of control dependencies") from None
        raise
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
        control: Control,
        keep_cpu: bool,
        drop_empty: bool,
        gather_size: GatherSize,
    ) -> None:
        self.assumed: list[str] = []
        self.exact = False
        """Whether names are those of one of our own jobs."""
        self._iteration = iteration
        self._flops = flops
        self._control = control
        self._keep_cpu = keep_cpu
        self._drop_empty = drop_empty
        self._gather_size = gather_size
        self._account = iteration.account

    def count(self, work: Sequence[Work]) -> None:
        """Tell the account what the files list: every node once, whatever becomes of it."""
        coflows = set()
        for each in work:
            if each.node.type in _COMMUNICATIONS:
                self._account.found(size_bytes=message_bytes(each), communications=1)
            elif each.node.type in _TYPE_NAMES:
                self._account.found(compute_s=self._duration_s(each))
            if each.released:
                self._account.dropped(_RELEASED[self._control], things=each.released)
            if each.node.type == messages.COMM_SEND:
                coflows.add(each.node.attributes.get(_chakra_job.COFLOW, each.node.name))
        if self.exact:
            sends = sum(each.node.type == messages.COMM_SEND for each in work)
            self._account.counted("flows of a collective are listed one by one", communications=len(coflows) - sends)

    def collectives(self, work: Sequence[Work], groups: Mapping[str, Sequence[int]] | None) -> None:
        """Match the collectives of all ranks, in each process group by their order."""
        found: dict[str, dict[int, list[Work]]] = defaultdict(lambda: defaultdict(list))
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

    def _collective(self, members: Sequence[int], row: Sequence[Work | None]) -> None:
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

    def messages(self, work: Sequence[Work], files: Sequence[Path]) -> None:
        """Match sends and receives."""
        sends, receives = by_channel(work, messages.COMM_SEND, files), by_channel(work, messages.COMM_RECV, files)
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

    def _message(self, send: Work, receive: Work) -> None:
        size = message_bytes(send)
        if message_bytes(receive) != size:
            raise receive.fault(
                f"receives {message_bytes(receive)} bytes where {send.path.name}, node {send.node.id}, sends {size}"
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

    def alone(self, work: Work) -> None:
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

    def _duration_s(self, work: Work) -> float:
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

    def _comm_type(self, work: Work) -> int:
        code = work.whole("comm_type")
        if code not in _COLLECTIVES and code != _BARRIER:
            what = f"{_UNSUPPORTED[code]}, which names no root" if code in _UNSUPPORTED else f"comm_type {code}"
            raise work.fault(
                f"is {what}; there is: {', '.join(f'{c} {k}' for c, k in _COLLECTIVES.items())}, 9 barrier"
            )
        assert code is not None
        return code

    def _refuse_empty(self, work: Work, what: str) -> None:
        if not self._drop_empty:
            raise work.fault(f"{what} has 0 bytes or no comm_size; set empty to drop if it is meant to send nothing")

    def _pass_on(self, work: Iterable[Work], why: str, compute_s: float = 0.0) -> None:
        """Drop nodes, of `compute_s` each; what waits for them waits for what they wait for."""
        for each in work:
            size_bytes, communications = (message_bytes(each), 1) if each.node.type in _COMMUNICATIONS else (0, 0)
            self._account.dropped(why, compute_s=compute_s, size_bytes=size_bytes, communications=communications)
            self._iteration.join(each.handle, each.rank, each.after)

    def _note(self, words: str) -> None:
        if words not in self.assumed:
            self.assumed.append(words)
