"""Ranks of a training program as processes on loopback that are forked from one which has loaded PyTorch: that is what takes long."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path

from tests.live.processes import LIMIT_S

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "torch.distributed._functional_collectives",
        "torch._dynamo",  # which the first step of an optimizer loads
        "traffic.live.script",
        "traffic.live.performance",
        "traffic.live.process_group",
    ]
)


@contextmanager
def forked(folder, ranks, *argv, **environment):
    """`ranks` processes that run a script, and print into rank<r>.txt; those that are left are killed."""
    started = []
    for rank in range(ranks):
        settings = {
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "ECHELON_STORE": str(folder / "store"),
            "OMP_NUM_THREADS": "1",
            **{name: value.format(rank=rank) for name, value in environment.items()},
        }
        started.append(_CONTEXT.Process(target=_be_rank, args=(str(folder / f"rank{rank}.txt"), settings, argv)))
        started[-1].start()
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.join()


def codes_of(started):
    """Exit codes of processes that end by themselves."""
    for process in started:
        process.join(LIMIT_S)
    return [process.exitcode for process in started]


def _be_rank(output, settings, argv):
    file = Path(output).open("w", buffering=1)  # noqa: SIM115 it is open until this process ends
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    sys.stdout = sys.stderr = file
    os.environ.update(settings)
    from traffic.live.__main__ import main

    try:
        code = main(list(map(str, argv)))
    except BaseException:  # noqa: BLE001 as Python does with what a program raises
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()  # which ends of children do not
    sys.exit(code)
