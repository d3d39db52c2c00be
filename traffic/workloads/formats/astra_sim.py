"""ASTRA-sim 1.0 text workloads: one table of layers for all ranks.

One table of layers for `ranks` ranks. Policies: MICRO, DATA, MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA,
HYBRID_TRANSFORMER (also _FWD_IN_BCKWD), DISTRIBUTED_INFERENCE; DLRM's and HYBRID_CUSTOMIZED are not supported. The
format says "cycles": `tick` is one, 1 ns unless given. Forward and input-gradient collectives block; a weight
gradient's is waited for by the same layer's next forward pass. The update time passes after every collective.
Model-parallel groups are neighbouring ranks (HYBRID_DATA_MODEL: data-parallel ones). `gather_size=shard` is
ASTRA-sim's reading. Collectives of phases that a policy does not run are dropped and reported.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

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

SUMMARY = "ASTRA-sim 1.0 text workload: one file for all ranks"
LOOKS_LIKE = re.compile(
    rb"(?!.*\b(all_gpus|pp_comm|vpp|checkpoints):)(MICRO|DATA|MODEL|HYBRID_[A-Z_]+|DISTRIBUTED_INFERENCE)\b.*\s+\d+\s*\n.*\b(NONE|ALL\w+|REDUCE\w+)\b"
)
EXAMPLE_FILES = {
    "w.txt": """\
HYBRID_TRANSFORMER	model_parallel_NPU_group: 2
2
embedding	-1	1000	ALLGATHER	4096	0	NONE	0	10	NONE	0	5
dense	-1	2000	NONE	0	3000	ALLREDUCE	1024	4000	ALLREDUCE	2048	5
"""
}
EXAMPLE = {"ranks": 4}

_MODEL_INSIDE, _DATA_INSIDE = "model inside", "data inside"
_LAYOUTS: Final = {
    "MICRO": "micro",
    "DATA": "data",
    "MODEL": "model",
    "HYBRID_DATA_MODEL": _DATA_INSIDE,
    "HYBRID_MODEL_DATA": _MODEL_INSIDE,
    "HYBRID_TRANSFORMER": _MODEL_INSIDE,
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": _MODEL_INSIDE,
    "DISTRIBUTED_INFERENCE": "inference",
}
_SILENT: Final = {"data": {0, 1}, "model": {2}, "micro": {0, 1}, "inference": {1, 2}}
"""Phases whose collectives a layout does not run (ASTRA-sim, Workload.cc)."""


def read(
    paths: Sequence[Path],
    *,
    ranks: int,
    model_parallel: int | None = None,
    tick_s: float = 1e-9,
    gather_size: GatherSize = "shard",
    empty: Empty = "error",
    algorithm: Algorithm = "ring",
    grouping: Grouping = "paradigm",
) -> Imported:
    """The workload in the one file of `paths`, on `ranks` ranks, of which every `model_parallel` form a group.

    `model_parallel` is taken from the header where it is there. `tick_s` is one unit of compute time in seconds (the
    format says "cycles"). `gather_size` says whether an all-gather's bytes are each rank's shard, as ASTRA-sim's ring takes
    them, or the total. Raises InputError naming file and line.
    """
    path = only(paths, "an ASTRA-sim workload")
    table = read_table(path, policies=_LAYOUTS, scopes=("",), tick_s=tick_s, empty=empty)
    layout = _LAYOUTS[table.policy]
    inner = _model_parallel(table, layout, ranks, model_parallel)
    sizes = {"model": inner, "data": ranks // inner}
    table, dropped = silenced(table, _SILENT.get(layout, ()))

    def scoped(phase: int, c: Communication) -> Communication:
        scope = "data" if phase == 2 else "model"
        total = c.kind == "all-gather" and gather_size == "shard"
        return Communication(c.kind, c.size_bytes * (sizes[scope] if total else 1), scope)

    table = dataclasses.replace(table, rows=replaced(table.rows, scoped))
    check_size(table, ranks)
    iteration = ImportedIteration(str(path), ranks, algorithm=algorithm, grouping=grouping)
    loop = Loop(
        iteration, lambda scope: _groups(ranks, sizes[scope], contiguous=(scope == "model") != (layout == _DATA_INSIDE))
    )
    if layout in ("micro", "inference"):
        for i, row in enumerate(table.rows):
            loop.phase(i, row, 2 if layout == "micro" else 0, blocking=True)
    else:
        train(loop, table.rows)
    dag = iteration.dag(
        parameters={"imported": "astra-sim", "file": path.name, "policy": table.policy, **sizes},
        next_iteration=loop.close(),
        wrap=False,
    )
    assumed = [
        f"{ranks} ranks, model-parallel groups of {inner}, data-parallel groups of {ranks // inner}",
        f"one unit of compute time is {tick_s:g} s (tick)",
        f"bytes of an all-gather are each rank's {gather_size} (gather_size)",
        f"all-reduce, all-gather and reduce-scatter by {algorithm} (algorithm)",
    ]
    return Imported(dag, report(table, iteration, dag, dropped=dropped, assumed=assumed))


def _model_parallel(table: Table, layout: str, ranks: int, given: int | None) -> int:
    """The size of a model-parallel group: of the policy, the option or the header (InputError where they fail)."""
    if layout in ("data", "micro"):
        return 1
    if layout in ("model", "inference"):
        return ranks
    written = table.header.get("model_parallel_NPU_group", [])
    size = given or (written[0] if written else None)
    if size is None:
        raise InputError(f"{table.path}: line 1: the header has no model_parallel_NPU_group; set model_parallel")
    evenly(ranks, [("model_parallel", size)], table.path)
    return size


def _groups(ranks: int, size: int, *, contiguous: bool) -> list[list[int]]:
    """The ranks in groups of `size`: neighbours, or every (ranks / size)-th."""
    step = ranks // size
    if contiguous:
        return [list(range(first, first + size)) for first in range(0, ranks, size)]
    return [list(range(first, ranks, step)) for first in range(step)]
