"""Training programs without us: on this machine alone, with the backend that they ask for themselves, started by torchrun."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from echelonflow.child_process import module_argv
from echelonflow.errors import RunError
from testbed.processes import end

LIMIT_S = 1800.0
_END_LIMIT_S = 10.0
"""For torchrun to end its ranks."""


def train(program: str, arguments: Sequence[str], ranks: int, output: Path, limit_s: float = LIMIT_S) -> None:
    """Let a program train to its end with so many ranks, each with one thread; what they print goes to `output`.

    Raises RunError, naming the program and `output`, where a rank fails or `limit_s` pass.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    torchrun = module_argv("torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    with output.open("wb") as said:
        process = subprocess.Popen(
            [*torchrun, program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise RunError(f"{Path(program).name} with gloo did not end within {limit_s:g} s; see {output}") from None
        finally:
            if process.poll() is None:
                end(process, _END_LIMIT_S)
    if code:
        raise RunError(f"{Path(program).name} with gloo ended with {code}; see {output}")
