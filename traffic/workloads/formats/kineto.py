"""PyTorch profiler traces (Kineto), one file per rank, with NCCL or Gloo.

One JSON file per rank, or one for all with `symmetric=true`. NCCL's sizes are read from the kernels (`ncclKernel*`,
`ncclDevKernel*`) or from `record_param_comms`; Gloo's from the annotations `gloo:*` (record with
`record_shapes=True`), in the order of their calls.

`step`: a number of ProfilerStep in quotes, `last` (default) or `all`. `compute=busy` (default): kernels' time, gaps
left out (a profiled step is mostly the profiler's); without a GPU operators' time, less calls of collectives.
`elapsed`: all time between communications. A communication kernel's duration includes waiting for peers and is never
used. A collective waits for what its rank computed before it began. A trace does not say when a result is needed.
What is reduced is taken to be needed at the end of the step (`reduced=at-end`: gradients), or at once (`at-once`:
tensor parallelism). All else is needed by the first computation that began after it. Not in the job: copies, other
streams' order, CPU time beside a GPU. Gloo's reduce-scatter is an all-reduce in the trace, because it is one on the
wire.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from echelonflow.errors import InputError
from echelonflow.model.units import format_duration
from traffic.workloads.formats import _kineto_events
from traffic.workloads.formats._account import BOTH_ENDS, LISTED_BY_ALL, Account
from traffic.workloads.formats._iteration import Algorithm, Grouping, ImportedIteration
from traffic.workloads.formats._kineto_events import Communication, RankTrace
from traffic.workloads.formats._report import Imported, Report

SUMMARY = "PyTorch profiler (Kineto) traces: one JSON file per rank, NCCL or Gloo"
LOOKS_LIKE = re.compile(rb'\s*\{[^\0]*"(traceEvents|schemaVersion|deviceProperties)"\s*:')

Reduced = Literal["at-end", "at-once"]


def read(
    paths: Sequence[Path],
    *,
    step: str = "last",
    symmetric: bool = False,
    ranks: int | None = None,
    reduced: Reduced = "at-end",
    compute: Literal["busy", "elapsed"] = "busy",
    empty: Literal["error", "drop"] = "error",
    algorithm: Algorithm = "ring",
    grouping: Grouping = "paradigm",
) -> Imported:
    """One step of the job in the traces `paths`, one file per rank.

    `step` is "last", "all" or the number in ProfilerStep#N. With `symmetric` one file stands for all ranks (`ranks` of them
    where the trace does not say). A collective waits for what its rank computed before it began. What is reduced is
    needed at the end of the step (`reduced` at-end: gradients) or at once (tensor parallelism). What is gathered,
    exchanged, broadcast or received is needed by the first computation after it. `compute` is the time in which kernels
    (without GPU: operators) ran, or all the time that passed between communications. Raises InputError naming file and
    event.
    """
    account = Account()
    traces = _ranked([_kineto_events.read(path, step, empty, account) for path in paths], symmetric, ranks)
    if symmetric:
        _count_for_all(traces, account)
    iteration = ImportedIteration(
        str(traces[0].path), len(traces), account=account, algorithm=algorithm, grouping=grouping
    )
    if not any(trace.communications for trace in traces):
        raise InputError(
            f"{traces[0].path}: {traces[0].step} has no collectives of NCCL or Gloo; choose another step, or record "
            f"the GPU's activity too"
        )
    waits = [_timeline(iteration, trace, reduced, compute) for trace in traces]
    _match(iteration, traces, waits)
    dag = iteration.dag(
        parameters={"imported": "kineto", "files": [t.path.name for t in traces], "step": traces[0].step}
    )
    counts = Counter(c.kind for c in traces[0].communications)
    sizes = sum(c.size_bytes for c in traces[0].communications)
    read_lines = [
        f"{len(paths)} files, {traces[0].step}, {len(traces)} ranks",
        "rank 0: " + ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())) + f", {sizes:,} bytes (S)",
        f"rank 0: computes {format_duration(sum(end - start for start, end in traces[0].busy))}",
    ]
    assumed = [
        f"what is reduced is needed {'at the end of the step' if reduced == 'at-end' else 'at once'} (reduced)",
        "time of computation is "
        + ("that of kernels or operators, gaps left out" if compute == "busy" else "all that passed")
        + " (compute)",
        f"all-reduce, all-gather and reduce-scatter by {algorithm} (algorithm)",
        "collectives of one stream do not wait for each other; broadcasts come from the first rank",
        "a rank's next iteration begins when its last has ended",
    ]
    if symmetric:
        assumed.insert(0, f"all {len(traces)} ranks do what the one in the file does (symmetric)")
    return Imported(dag, Report.of(account, dag, source=iteration.source, read=read_lines, assumed=assumed))


def _count_for_all(traces: Sequence[RankTrace], account: Account) -> None:
    """Tell the account that what the one file lists is done by every rank."""
    others, one = len(traces) - 1, traces[0]
    account.counted(
        "one file stands for all ranks (symmetric)",
        size_bytes=others * sum(c.size_bytes for c in one.communications),
        compute_s=others * sum(end - start for start, end in one.busy),
        communications=others * len(one.communications),
    )


def _ranked(traces: Sequence[RankTrace], symmetric: bool, ranks: int | None) -> list[RankTrace]:
    """One trace for each rank, in order (InputError where a rank's is missing, there twice, or not said)."""
    if not traces:
        raise InputError("no traces were given; name one file per rank")
    path = traces[0].path
    world = traces[0].world or ranks
    if world is None:
        raise InputError(f"{path}: has no distributedInfo.world_size; set ranks")
    if ranks is not None and ranks != world:
        raise InputError(f"{path}: is of {world} ranks; ranks is set to {ranks}")
    if not 2 <= world <= _kineto_events.MOST_RANKS:
        raise InputError(f"{path}: is of {world} ranks; 2 to {_kineto_events.MOST_RANKS} can be imported")
    if symmetric:
        if len(traces) != 1:
            raise InputError(f"{path}: symmetric means that one file stands for all ranks; {len(traces)} were given")
        one = next((c for c in traces[0].communications if c.kind in ("send", "recv")), None)
        if one is not None:
            raise one.fault(f"is a {one.kind}; a job with messages between two ranks is not symmetric")
        return [dataclasses.replace(traces[0], rank=rank) for rank in range(world)]
    found: dict[int, RankTrace] = {}
    for trace in traces:
        if trace.rank is None:
            raise InputError(f"{trace.path}: has no distributedInfo.rank; set symmetric to use it for all ranks")
        if trace.world != world:
            raise InputError(f"{trace.path}: is of {trace.world} ranks; {path} is of {world}")
        if trace.rank in found:
            raise InputError(f"{trace.path}: is of rank {trace.rank}, as is {found[trace.rank].path}")
        found[trace.rank] = trace
    missing = next((rank for rank in range(world) if rank not in found), None)
    if missing is not None:
        raise InputError(
            f"{path}: the file of rank {missing} is missing ({world} ranks, {len(found)} files); give it, or one file with symmetric"
        )
    return [found[rank] for rank in range(world)]


def _timeline(iteration: ImportedIteration, trace: RankTrace, reduced: Reduced, compute: str) -> list[tuple[str, ...]]:
    """Write one rank's computations; returns what each of its communications waits for.

    Time is cut where a communication begins and where one is needed; what was computed between two cuts is one step.
    """
    rank = trace.rank
    assert rank is not None
    last_end_s = max((c.end_s for c in trace.communications if c.kind in ("all-reduce", "reduce-scatter")), default=0.0)
    begins: dict[float, list[int]] = defaultdict(list)
    needed: dict[float, list[int]] = defaultdict(list)
    for i, c in enumerate(trace.communications):
        late = reduced == "at-end" and c.kind in ("all-reduce", "reduce-scatter")
        begins[c.start_s].append(i)
        if c.kind != "send":
            needed[last_end_s if late else c.end_s].append(i)
    busy = list(trace.busy)
    if compute == "elapsed" and busy:
        elapsed = (busy[0][0], max(end for _, end in busy))
        gaps_s = elapsed[1] - elapsed[0] - sum(end - start for start, end in busy)
        iteration.account.added("gaps between computations (compute=elapsed)", things=0, compute_s=gaps_s)
        busy = [elapsed]
    first_s = busy[0][0] if busy else 0.0
    cuts = sorted({*begins, *needed, *([busy[-1][1]] if busy else [])})
    waits: list[tuple[str, ...]] = [()] * len(trace.communications)
    tail: tuple[str, ...] = ()
    at = first_s
    position = 0
    for number, cut in enumerate(cuts):
        spent_s, position = _spent(busy, position, at, cut)
        if spent_s > 0:
            tail = (iteration.compute(f"r{rank} compute {number}", rank, spent_s, tail),)
        for i in begins.get(cut, ()):
            waits[i] = tail
        tail += tuple(_handle(rank, i) for i in needed.get(cut, ()))
        at = cut
    return waits


def _spent(busy: Sequence[tuple[float, float]], position: int, start_s: float, end_s: float) -> tuple[float, int]:
    """Busy seconds between two times, and the first span that reaches beyond; `position` is that of the call before."""
    total = 0.0
    while position < len(busy) and busy[position][0] < end_s:
        total += max(min(busy[position][1], end_s) - max(busy[position][0], start_s), 0.0)
        if busy[position][1] > end_s:
            break
        position += 1
    return total, position


class _ProcessGroups:
    """Numbers the process groups of communications.

    Found by identity first: symmetric ranks share their communications, and comparing thousands of ranks for each of
    thousands of collectives would take minutes.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks: list[tuple[int, ...]] = []
        self.members: list[frozenset[int]] = []
        self._known_ranks = ranks
        self._by_ranks: dict[tuple[int, ...], int] = {}
        self._by_identity: dict[int, int] = {}

    def number(self, communication: Communication) -> int:
        """The number of its process group (InputError where a rank of it has no file)."""
        ranks = communication.ranks
        found = self._by_identity.get(id(ranks))
        if found is None:
            if max(ranks) >= self._known_ranks:
                raise communication.fault(
                    f"names rank {max(ranks)}, whose file is missing; there are {self._known_ranks} ranks"
                )
            found = self._by_identity[id(ranks)] = self._by_ranks.setdefault(ranks, len(self.ranks))
            if found == len(self.ranks):
                self.ranks.append(ranks)
                self.members.append(frozenset(ranks))
        return found


def _match(
    iteration: ImportedIteration, traces: Sequence[RankTrace], waits: Sequence[Sequence[tuple[str, ...]]]
) -> None:
    """Put together what belongs together: in each process group, the n-th collective of every rank."""
    account = iteration.account
    queues: dict[tuple[str, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    groups = _ProcessGroups(len(traces))
    for rank, trace in enumerate(traces):
        for i, c in enumerate(trace.communications):
            kind = "message" if c.kind in ("send", "recv") else "collective"
            group = groups.number(c)
            if rank not in groups.members[group]:
                raise c.fault(f"rank {rank} is not in the process group {list(c.ranks)[:8]}")
            queues[kind, group][rank].append(i)
    number = itertools.count()
    for (kind, group), by_rank in queues.items():
        ranks = groups.ranks[group]
        for row in itertools.zip_longest(*(by_rank.get(rank, []) for rank in ranks)):
            present = [
                (rank, traces[rank].communications[i]) for rank, i in zip(ranks, row, strict=True) if i is not None
            ]
            first = present[0][1]
            if len(present) < len(ranks):
                lacking = next(rank for rank, i in zip(ranks, row, strict=True) if i is None)
                raise first.fault(f"rank {lacking} has no {kind} to match this {first.kind}; is its step the same?")
            _check_alike([c for _, c in present])
            place = dict(zip(ranks, row, strict=True))
            after = {rank: waits[rank][place[rank]] for rank in ranks}
            # Barriers were left out when the trace was read.
            label = f"{next(number)} {'send' if kind == 'message' else first.kind}"
            match first.kind:
                case "send" | "recv" | "barrier":
                    src, dst = ranks
                    account.counted(BOTH_ENDS, size_bytes=-first.size_bytes, communications=-1)
                    iteration.send(
                        f"{label} {src}->{dst}", src, dst, first.size_bytes, after[src], after[dst],
                        sent=_handle(src, place[src]), received=_handle(dst, place[dst]),
                    )  # fmt: skip
                case collective:
                    others = len(ranks) - 1
                    account.counted(LISTED_BY_ALL, size_bytes=-others * first.size_bytes, communications=-others)
                    ends = iteration.collective(label, collective, ranks, first.size_bytes, after)
                    for rank in ranks:
                        iteration.join(_handle(rank, place[rank]), rank, [ends[rank]])


def _check_alike(found: Sequence[Communication]) -> None:
    """Raise InputError unless all ranks do the same thing with as many bytes."""
    first = found[0]
    for other in found[1:]:
        same = {first.kind, other.kind} == {"send", "recv"} or (first.kind == other.kind not in ("send", "recv"))
        if not same or other.size_bytes != first.size_bytes:
            raise other.fault(
                f"is a {other.kind} of {other.size_bytes} bytes where another rank has a {first.kind} of {first.size_bytes} ({first.where})"
            )


def _handle(rank: int, index: int) -> str:
    return f"communication {index} of rank {rank}"
