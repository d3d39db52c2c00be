"""ASTRA-sim 1.0 text workloads: one table of layers for all ranks.

One table of layers for `ranks` ranks. Policies: MICRO, DATA, MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA,
HYBRID_TRANSFORMER (also _FWD_IN_BCKWD), DISTRIBUTED_INFERENCE; DLRM's and HYBRID_CUSTOMIZED are not supported. The
format says "cycles": `tick` is one, 1 ns unless given. Forward collectives block; a weight gradient's is waited for by
the same layer's next forward pass. `input_gradient=overlapped` is ASTRA-sim's loop: the weight gradient goes on beside
the collective of the input gradient, and the next layer waits for both. `blocking` (default) is SimAI's. With
_FWD_IN_BCKWD, layers from a checkpoint on are computed again before the backward pass of a layer in
`checkpoint_initiates`, that layer left out. The update time passes after every collective. Model-parallel groups are
neighbouring ranks, as `decode_involved_dimensions` has it; with HYBRID_MODEL_DATA the data-parallel ones are.
`gather_size=shard` is ASTRA-sim's reading. What a policy does not run is dropped and reported: its collectives, with
MICRO and DISTRIBUTED_INFERENCE computations too. ASTRA-sim never runs the first layer's input gradient (DATA) or its
collective (MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA); here they are in the job, as they are in the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from echelonflow.errors import InputError
from traffic.workloads.formats._iteration import Algorithm, Grouping
from traffic.workloads.formats._layer_loops import (
    FORWARD,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
    GatherSize,
    InputGradient,
    Layout,
    Manner,
    imported,
)
from traffic.workloads.formats._layers import Empty, Table, evenly, only, read_table
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
    "HYBRID_DATA_MODEL": _MODEL_INSIDE,
    "HYBRID_MODEL_DATA": _DATA_INSIDE,
    "HYBRID_TRANSFORMER": _MODEL_INSIDE,
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": _MODEL_INSIDE,
    "DISTRIBUTED_INFERENCE": "inference",
}
_SILENT: Final = {"data": {FORWARD, INPUT_GRADIENT}, "model": {WEIGHT_GRADIENT}}
"""Phases that a layout runs without their collectives (ASTRA-sim, Workload.cc)."""
_ONLY: Final = {"micro": WEIGHT_GRADIENT, "inference": FORWARD}
"""The one phase that a layout runs."""
_GROUP: Final = "model_parallel_NPU_group"


def read(
    paths: Sequence[Path],
    *,
    ranks: int,
    model_parallel: int | None = None,
    tick_s: float = 1e-9,
    gather_size: GatherSize = "shard",
    input_gradient: InputGradient = "blocking",
    empty: Empty = "error",
    algorithm: Algorithm = "ring",
    grouping: Grouping = "paradigm",
) -> Imported:
    """The workload in the one file of `paths`, on `ranks` ranks, of which every `model_parallel` form a group.

    `model_parallel` is taken from the header where it is there. `tick_s` is one unit of compute time in seconds (the
    format says "cycles"). `gather_size` says whether an all-gather's bytes are each rank's shard, as ASTRA-sim's ring takes
    them, or the total. `input_gradient` says whether the weight gradient waits for the collective of the input gradient.
    Raises InputError naming file and line.
    """
    path = only(paths, "an ASTRA-sim workload")
    table = read_table(path, policies=_LAYOUTS, fields=(_GROUP,), scopes=("",), tick_s=tick_s, empty=empty)
    layout = _LAYOUTS[table.policy]
    inner = _model_parallel(table, layout, ranks, model_parallel)
    sizes = {"model": inner, "data": ranks // inner}

    def groups(scope: str) -> list[list[int]]:
        return _groups(ranks, sizes[scope], contiguous=(scope == "data") == (layout == _DATA_INSIDE))

    return imported(
        table,
        Layout(ranks, sizes, groups, ("model", "model", "data")),
        Manner(gather_size, input_gradient, algorithm, grouping),
        only_phase=_ONLY.get(layout),
        silent=_SILENT.get(layout, ()),
        parameters={"imported": "astra-sim", **sizes},
        assumed=[
            f"{ranks} ranks, model-parallel groups of {inner}, data-parallel groups of {ranks // inner}",
            f"one unit of compute time is {tick_s:g} s (tick)",
        ],
    )


def _model_parallel(table: Table, layout: str, ranks: int, given: int | None) -> int:
    """The size of a model-parallel group: of the policy, the option or the header (InputError where they fail)."""
    if layout in ("data", "micro"):
        return 1
    if layout in ("model", "inference"):
        return ranks
    size = given or table.fields.get(_GROUP)
    if size is None:
        raise InputError(f"{table.path}: line 1: the header has no {_GROUP}; set model_parallel")
    evenly(ranks, [("model_parallel", size)], table.path)
    return size


def _groups(ranks: int, size: int, *, contiguous: bool) -> list[list[int]]:
    """The ranks in groups of `size`: neighbours, or every (ranks / size)-th."""
    step = ranks // size
    if contiguous:
        return [list(range(first, first + size)) for first in range(0, ranks, size)]
    return [list(range(first, ranks, step)) for first in range(step)]
