"""A policy file of a user's own: first runs on a busy machine, by both backends, and what the process around it costs.

Each run is a fresh `echelon run` with nothing compiled yet, while a busy loop holds every processor. `repeat` runs
for each backend. The cost is that of one decision, in this process and through the pipe, without the busy loops.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from echelon.benchmarks import Figure, Say
from echelon.benchmarks.scaling import random_state
from echelonflow.child_process import module_argv
from echelonflow.errors import EXIT_INVALID, EXIT_VALID, InputError
from echelonflow.model import topologies
from echelonflow.scheduling import kernels, policies
from results.analysis.summary import read_summary
from testbed import preflight

LIMIT_S = 300.0
SHIPPED = "fair"
SIZES = (100, 1_000, 10_000)
SAMPLES = 50
EXPERIMENT = """
name: own-policy
network: {topology: single-switch, hosts: 2, rate: 50 Mbit/s}
jobs: [{name: p, paradigm: pipeline, stages: 2, micro_batches: 2, forward: 50 ms, activation: 100 ms of link}]
policies: [./mine.py]
"""
_MILLI = 1e3


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` first runs by each backend (emulation where this machine can), and the cost of a decision."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="echelon-own-policy-") as folder:
        mine = Path(folder) / "mine.py"
        mine.write_text(Path(policies.module(SHIPPED).__file__ or "").read_text(encoding="utf-8"), encoding="utf-8")
        (Path(folder) / "own-policy.yaml").write_text(EXPERIMENT, encoding="utf-8")
        figures += [_first_runs(backend, repeat, Path(folder), say) for backend in _backends(say)]
        figures += [_cost(flows, mine, say) for flows in SIZES]
    return figures


def _backends(say: Say) -> list[Literal["fluid", "emulation"]]:
    try:
        preflight.require()
    except InputError as error:
        say(f"not emulated: {error}")
        return ["fluid"]
    return ["fluid", "emulation"]


def _first_runs(backend: str, repeat: int, folder: Path, say: Say) -> Figure:
    ended, valid, times_s = 0, 0, []
    for n in range(repeat):
        with busy_processors():
            began_s = time.monotonic()
            code, words = _first_run(backend, folder, n)
            times_s.append(time.monotonic() - began_s)
        ended += code in (EXIT_VALID, EXIT_INVALID)
        valid += code == EXIT_VALID
        say(f"{backend}, first run {n + 1} of {repeat}: exit code {code}, {times_s[-1]:.1f} s{words}")
    return Figure(
        f"a policy file's first run, nothing compiled, every processor busy ({backend})",
        f"{ended} of {repeat} ended with results ({valid} valid), {max(times_s):.0f} s at most",
        "all",
        ended == repeat,
    )


def _first_run(backend: str, folder: Path, n: int) -> tuple[int, str]:
    """Exit code, and what was said where it is no success."""
    out, cache = folder / f"{backend}-{n}", folder / f"cache-{backend}-{n}"
    cache.mkdir()
    command = module_argv("echelon.cli", "run", "own-policy.yaml", "--backend", backend, "--out", str(out))
    # Where compiled loops are kept: an empty folder for each run.
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, f"; had not ended after {LIMIT_S:g} s"
    if done.returncode == EXIT_INVALID:  # as it should be: a machine that is busy with other things measures nothing
        return done.returncode, "".join(f"; {reason}" for reason in read_summary(out / "summary.json").reasons)
    if done.returncode == EXIT_VALID:
        return done.returncode, ""
    return done.returncode, f"; {done.stderr.strip().rpartition(chr(10))[2]}"


@contextlib.contextmanager
def busy_processors() -> Iterator[None]:
    """A busy loop for every processor, until the block ends."""
    context = multiprocessing.get_context("spawn")
    loops = [context.Process(target=_spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.join()


def _spin() -> None:
    while os.getppid() != 1:
        pass


def _cost(flows: int, mine: Path, say: Say) -> Figure:
    """Median milliseconds of one decision by the same code, here and in its process."""
    kernels.warm_up()
    network = topologies.build(
        "leaf-spine", {"leaves": 32, "spines": 8, "hosts_per_leaf": 32, "rate_bps": 1e9, "fabric_rate_bps": 4e9}
    )
    snapshot = random_state(network, flows).snapshot(3.0)[0]
    took_ms = {}
    for text in (SHIPPED, str(mine)):
        with contextlib.closing(policies.load(text)) as policy:
            times_s = []
            for _ in range(SAMPLES):
                began_s = time.perf_counter()
                policy(snapshot)
                times_s.append(time.perf_counter() - began_s)
            took_ms[text] = statistics.median(times_s) * _MILLI
    here_ms, there_ms = took_ms[SHIPPED], took_ms[str(mine)]
    say(f"{flows:,} flows: {here_ms:.2f} ms here, {there_ms:.2f} ms in a process of its own")
    return Figure(
        f"a decision by {SHIPPED}, {flows:,} flows, as a policy file in its process",
        f"{there_ms:.2f} ms ({here_ms:.2f} ms here)",
        "reported",
        None,
    )
