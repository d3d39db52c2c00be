"""SimAI / AICB text workloads, with the old header and with the new one.

The same table with the old header or the new one, and groups `_EP`, `_DP_EP`: rank = t + TP (e + EP d). `ranks` is
all_gpus / pp unless given. `tick` is 1 ns (AICB writes nanoseconds), `gather_size=total`. The rows are one pipeline
stage's and do not say where micro-batches begin, so the other stages and pp_comm are dropped and reported.
Checkpointed layers are computed again before their backward pass. AICB's CSV of single calls is not read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from echelonflow.errors import InputError
from traffic.workloads.formats._iteration import Algorithm, Grouping, ImportedIteration
from traffic.workloads.formats._layers import (
    Communication,
    Empty,
    GatherSize,
    Loop,
    Table,
    check_size,
    evenly,
    only,
    read_table,
    replaced,
    report,
    silenced,
    train,
)
from traffic.workloads.formats._report import Imported

SUMMARY = "SimAI / AICB text workload: one file for all ranks of a pipeline stage"
LOOKS_LIKE = re.compile(rb"(MICRO|HYBRID_TRANSFORMER\w*)\b.*\b(all_gpus|pp_comm|vpp|checkpoints):")
EXAMPLE_FILES = {
    "w.txt": """\
HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 2 vpp: 1 ga: 1 all_gpus: 16 checkpoints: 0 checkpoint_initiates: 0 pp_comm 512
3
attention	-1	100	ALLREDUCE	4096	200	ALLREDUCE	4096	300	NONE	0	0
moe	-1	100	ALLTOALL_EP	8192	200	ALLTOALL_EP	8192	300	NONE	0	0
grads	-1	1	NONE	0	1	NONE	0	1	REDUCESCATTER_DP_EP	1600	100
"""
}

_POLICIES = ("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO")
_SCOPES = ("", "EP", "DP_EP")
_SINGLE = ("model_parallel_NPU_group", "ep", "pp", "vpp", "ga", "all_gpus", "pp_comm")
_LISTS = ("checkpoints", "checkpoint_initiates")


def read(
    paths: Sequence[Path],
    *,
    ranks: int | None = None,
    tick_s: float = 1e-9,
    gather_size: GatherSize = "total",
    empty: Empty = "error",
    algorithm: Algorithm = "ring",
    grouping: Grouping = "paradigm",
) -> Imported:
    """The workload in the one file of `paths`, on `ranks` ranks (by default all_gpus / pp of the header).

    Rank = t + TP (e + EP d). Groups without suffix are the TP ranks t for forward pass and input gradient, and the
    data-parallel ranks for the weight gradient. _EP are the ranks e, _DP_EP the ranks d. `tick_s` is one unit of
    compute time in seconds; AICB writes nanoseconds. `gather_size` says whether an all-gather's bytes are the total, as
    AICB writes them, or each rank's shard. The rows are those of one pipeline stage. Raises InputError naming file and
    line.
    """
    path = only(paths, "a SimAI workload")
    table = read_table(path, policies=_POLICIES, scopes=_SCOPES, tick_s=tick_s, empty=empty)
    fields = _fields(table)
    pp = fields.get("pp", 1)
    micro = table.policy == "MICRO"
    if ranks is None:
        if "all_gpus" not in fields:
            raise InputError(f"{path}: line 1: the header does not say all_gpus; set ranks")
        evenly(fields["all_gpus"], [("pp", pp)], path)
        ranks = fields["all_gpus"] // pp
    tp, ep = (1, 1) if micro else (fields.get("model_parallel_NPU_group", 1), fields.get("ep", 1))
    evenly(ranks, [("TP", tp), ("ep", ep)], path)
    sizes = {"TP": tp, "DP": ranks // tp, "EP": ep, "DP_EP": ranks // tp // ep}

    table, dropped = silenced(table, (0, 1) if micro else ())

    def scoped(phase: int, c: Communication) -> Communication:
        scope = c.scope or ("DP" if phase == 2 else "TP")
        shard = c.kind == "all-gather" and gather_size == "shard"
        return Communication(c.kind, c.size_bytes * (sizes[scope] if shard else 1), scope)

    table = dataclasses.replace(table, rows=replaced(table.rows, scoped))
    check_size(table, ranks)
    iteration = ImportedIteration(str(path), ranks, algorithm=algorithm, grouping=grouping)
    loop = Loop(iteration, lambda scope: _groups(ranks, tp, ep, scope))
    if micro:
        for i, row in enumerate(table.rows):
            loop.phase(i, row, 2, blocking=True)
    else:
        train(loop, table.rows, checkpoints=table.header.get("checkpoints", [0])[1:], initiates=_initiates(table))
    dag = iteration.dag(
        parameters={"imported": "simai", "file": path.name, "policy": table.policy, **sizes},
        next_iteration=loop.close(),
        wrap=False,
    )
    assumed = [
        f"{ranks} ranks: TP {tp}, EP {ep}, DP {ranks // tp}",
        f"one unit of compute time is {tick_s:g} s (tick)",
        f"bytes of an all-gather are each rank's {gather_size} (gather_size)",
        f"all-reduce, all-gather and reduce-scatter by {algorithm}, all-to-all directly (algorithm)",
    ]
    if pp > 1:
        dropped.append(
            f"{pp - 1} of {pp} pipeline stages and their transfers (pp_comm, {fields.get('pp_comm', 0)} bytes a micro-batch): "
            f"the rows are one stage's and do not say where a micro-batch begins"
        )
    return Imported(dag, report(table, iteration, dag, dropped=dropped, assumed=assumed))


def _fields(table: Table) -> dict[str, int]:
    """The header's single numbers (InputError for a field that is unknown, or has not as many numbers as it should)."""
    found: dict[str, int] = {}
    for key, numbers in table.header.items():
        if key in _LISTS:
            if len(numbers) != 1 + (numbers[0] if numbers else 0):
                raise InputError(
                    f"{table.path}: line 1: {key} has a count and {len(numbers) - 1} numbers; they do not match"
                )
            if any(n >= len(table.rows) for n in numbers[1:]):
                raise InputError(
                    f"{table.path}: line 1: {key} names a layer beyond the {len(table.rows)} that there are"
                )
        elif key not in _SINGLE:
            raise InputError(f"{table.path}: line 1: unknown field {key!r}; there is: {', '.join((*_SINGLE, *_LISTS))}")
        elif len(numbers) != 1:
            raise InputError(f"{table.path}: line 1: {key} has {len(numbers)} numbers; it has 1")
        else:
            found[key] = numbers[0]
    for key in ("model_parallel_NPU_group", "ep", "pp", "all_gpus"):
        if found.get(key, 1) < 1:
            raise InputError(f"{table.path}: line 1: {key} is {found[key]}; at least 1 is needed")
    return found


def _initiates(table: Table) -> list[int]:
    """Layers before whose backward pass activations are computed again: only this policy does."""
    if table.policy != "HYBRID_TRANSFORMER_FWD_IN_BCKWD":
        return []
    return table.header.get("checkpoint_initiates", [0])[1:]


def _groups(ranks: int, tp: int, ep: int, scope: str) -> list[list[int]]:
    """The groups of `scope`; rank = t + tp (e + ep d)."""
    if scope == "TP":
        return [list(range(first, first + tp)) for first in range(0, ranks, tp)]
    if scope == "DP":
        return [list(range(first, ranks, tp)) for first in range(tp)]
    if scope == "EP":
        block = tp * ep
        return [list(range(d + t, d + block, tp)) for d in range(0, ranks, block) for t in range(tp)]
    return [list(range(first, ranks, tp * ep)) for first in range(tp * ep)]
