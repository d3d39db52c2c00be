"""SimAI / AICB text workloads, with the old header and with the new one.

The same table with the old header or the new one, and groups `_EP`, `_DP_EP`: rank = t + TP (e + EP d). `ranks` is
all_gpus / pp unless given. `tick` is 1 ns (AICB writes nanoseconds), `gather_size=total`. The rows are one pipeline
stage's and do not say where micro-batches begin, so the other stages and pp_comm are dropped and reported. Collectives
of forward pass and input gradient block, as in SimAI's loop; `input_gradient=overlapped` is ASTRA-sim's. Layers from a
checkpoint on are computed again before the backward pass of a layer in `checkpoint_initiates`, that layer left out.
Also dropped and reported: fields of the header that are not known, bytes beside NONE (AICB writes them), collectives in
groups of one rank (ZeRO-3 without tensor parallelism has them). AICB's CSV of single calls is not read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from echelonflow.errors import InputError
from traffic.workloads.formats._iteration import Algorithm, Grouping
from traffic.workloads.formats._layer_loops import (
    RECOMPUTES,
    WEIGHT_GRADIENT,
    GatherSize,
    InputGradient,
    Layout,
    Manner,
    imported,
)
from traffic.workloads.formats._layers import Empty, Table, evenly, only, read_table
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

_POLICIES: Final = ("HYBRID_TRANSFORMER", RECOMPUTES, "MICRO")
_SCOPES: Final = ("", "EP", "DP_EP")
_TP, _SIZES = "model_parallel_NPU_group", ("ep", "pp", "all_gpus")
_FIELDS: Final = (_TP, *_SIZES, "vpp", "ga", "pp_comm")


def read(
    paths: Sequence[Path],
    *,
    ranks: int | None = None,
    tick_s: float = 1e-9,
    gather_size: GatherSize = "total",
    input_gradient: InputGradient = "blocking",
    empty: Empty = "error",
    algorithm: Algorithm = "ring",
    grouping: Grouping = "paradigm",
) -> Imported:
    """The workload in the one file of `paths`, on `ranks` ranks (by default all_gpus / pp of the header).

    Rank = t + TP (e + EP d). Groups without suffix are the TP ranks t for forward pass and input gradient, and the
    data-parallel ranks for the weight gradient. _EP are the ranks e, _DP_EP the ranks d. `tick_s` is one unit of
    compute time in seconds; AICB writes nanoseconds. `gather_size` says whether an all-gather's bytes are the total, as
    AICB writes them, or each rank's shard. `input_gradient` says whether the weight gradient waits for the collective of
    the input gradient. The rows are those of one pipeline stage. Raises InputError naming file and line.
    """
    path = only(paths, "a SimAI workload")
    table = read_table(path, policies=_POLICIES, fields=_FIELDS, scopes=_SCOPES, tick_s=tick_s, empty=empty)
    layout = _layout(table, ranks)
    sizes = layout.sizes
    _drop_other_stages(table)
    return imported(
        table,
        layout,
        Manner(gather_size, input_gradient, algorithm, grouping),
        only_phase=WEIGHT_GRADIENT if table.policy == "MICRO" else None,
        silent=(),
        parameters={"imported": "simai", **sizes},
        assumed=[
            f"{layout.ranks} ranks: TP {sizes['TP']}, EP {sizes['EP']}, DP {sizes['DP']}",
            f"one unit of compute time is {tick_s:g} s (tick)",
        ],
    )


def _layout(table: Table, ranks: int | None) -> Layout:
    """How ranks are divided, all_gpus / pp of them unless given (InputError for sizes that do not divide them)."""
    path, fields = table.path, table.fields
    for key in (_TP, *_SIZES):
        if fields.get(key, 1) < 1:
            raise InputError(f"{path}: line 1: {key} is {fields[key]}; at least 1 is needed")
    if ranks is None:
        if "all_gpus" not in fields:
            raise InputError(f"{path}: line 1: the header does not say all_gpus; set ranks")
        pp = fields.get("pp", 1)
        evenly(fields["all_gpus"], [("pp", pp)], path)
        ranks = fields["all_gpus"] // pp
    tp, ep = (1, 1) if table.policy == "MICRO" else (fields.get(_TP, 1), fields.get("ep", 1))
    evenly(ranks, [("TP", tp), ("ep", ep)], path)
    sizes = {"TP": tp, "DP": ranks // tp, "EP": ep, "DP_EP": ranks // tp // ep}
    return Layout(ranks, sizes, functools.partial(_groups, ranks, tp, ep), ("TP", "TP", "DP"))


def _drop_other_stages(table: Table) -> None:
    """Tell the account of the pipeline stages that the rows are not of, and of what passes between stages."""
    pp, size_bytes = table.fields.get("pp", 1), table.fields.get("pp_comm", 0)
    table.account.found(size_bytes=size_bytes)
    if pp > 1:
        words = (
            f"{pp - 1} of {pp} pipeline stages and their transfers (pp_comm, {size_bytes:,} bytes a micro-batch): "
            f"the rows are one stage's and do not say where a micro-batch begins"
        )
        table.account.dropped(words, things=0, size_bytes=size_bytes)
    elif size_bytes:
        table.account.dropped("pp_comm: there is one pipeline stage", things=0, size_bytes=size_bytes)


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
