"""Runs a training script as it is, with the process group `echelon` in the place of whatever it asks for."""

from __future__ import annotations

import functools
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import traffic.live
from echelonflow.errors import InputError

STORE_VARIABLE = "ECHELON_STORE"
"""A file by which the processes of a job find each other, in the place of MASTER_ADDR and MASTER_PORT."""
REPLACED = (None, "gloo", "cpu:gloo", traffic.live.BACKEND)
"""Backends that a script may name."""


def run(path: Path, arguments: list[str], scheduler: str | None = None) -> None:
    """Run the script at `path` with `arguments` as __main__ (InputError where there is none), with a job scheduler if one is named."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such program")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    _replace_backend()
    if scheduler is not None:
        from traffic.live.layerwise import replace_ddp

        replace_ddp(scheduler)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


def _replace_backend() -> None:
    """Every process group of the program is ours, whatever it names."""
    original, new_group = dist.init_process_group, dist.new_group

    @functools.wraps(original)
    def init_process_group(backend: str | None = None, *arguments: Any, **named: Any) -> None:
        store = os.environ.get(STORE_VARIABLE)
        if store is not None and not arguments and not {"store", "init_method"} & set(named):
            ranks = int(os.environ["WORLD_SIZE"])
            named |= {"store": dist.FileStore(store, ranks), "rank": int(os.environ["RANK"]), "world_size": ranks}
        original(_ours(backend), *arguments, **named)

    @functools.wraps(new_group)
    def our_group(ranks: Any = None, timeout: Any = None, backend: str | None = None, **named: Any) -> Any:
        return new_group(ranks, timeout, None if backend is None else _ours(backend), **named)

    dist.init_process_group = dist.distributed_c10d.init_process_group = init_process_group
    dist.new_group = dist.distributed_c10d.new_group = our_group


def _ours(backend: str | None) -> str:
    if backend not in REPLACED:
        raise InputError(
            f"the program asks for backend {backend!r}; emulated hosts have no GPU: let it name none, or gloo"
        )
    return traffic.live.BACKEND
