"""A dask.distributed cluster of real processes on loopback, for benchmarks and tests of sweeps."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from echelonflow.child_process import module_argv
from echelonflow.errors import RunError

_START_LIMIT_S = 60.0
_LOOK_S = 0.05


@dataclass(frozen=True)
class DaskCluster:
    """A scheduler, and workers of one thread each."""

    address: str
    workers: Sequence[subprocess.Popen[bytes]]


@contextlib.contextmanager
def dask_cluster(folder: Path, workers: int, *options: str) -> Iterator[DaskCluster]:
    """A cluster whose logs and files are in `folder`; `options` are its workers'. All of it is killed in the end.

    RunError where the scheduler does not start.
    """
    file = folder / "scheduler.json"
    at = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file))
    started = [_started(folder / "scheduler.log", "distributed.cli.dask_scheduler", *at, "--port", "0")]
    try:
        address = _address(file, started[0])
        for number in range(workers):
            place = folder / f"worker-{number}"
            own = ("--nthreads", "1", "--no-nanny", "--local-directory", str(place))
            started.append(_started(place.with_suffix(".log"), "distributed.cli.dask_worker", *at, *own, *options))
        yield DaskCluster(address, started[1:])
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def _started(log: Path, module: str, *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(module_argv(module, *arguments), stdout=file, stderr=file, stdin=subprocess.DEVNULL)


def _address(file: Path, scheduler: subprocess.Popen[bytes]) -> str:
    """What the scheduler says of itself when it listens."""
    until_s = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < until_s:
        with contextlib.suppress(OSError, ValueError, KeyError):
            return str(json.loads(file.read_text())["address"])
        if scheduler.poll() is not None:
            raise RunError(f"the dask scheduler ended with {scheduler.returncode}; is dask.distributed installed?")
        time.sleep(_LOOK_S)
    raise RunError(f"the dask scheduler did not listen after {_START_LIMIT_S:.0f} s")
