"""Kills (-9) of every kind of process at random moments: nothing may be left, and the next run must work."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelonflow.errors import EXIT_BAD_INPUT, EXIT_INVALID, EXIT_VALID, RunError
from testbed import preflight
from testbed.processes import alive, descendants

KINDS = {
    "echelon run": "",
    "the world's first process": "init.py serve",
    "controller": "controller.main",
    "agent": "traffic.agent",
    "switch daemon": "ovs-vswitchd",
}
"""Kind of process, and what its command line holds (empty: the command itself)."""
END_LIMIT_S = 20.0
EXPERIMENT = """
name: kills
network: {topology: single-switch, hosts: 2, rate: 50 Mbit/s}
jobs: [{name: p, paradigm: pipeline, stages: 2, micro_batches: 3, forward: 200 ms, activation: 400 ms of link}]
policies: [fair]
"""


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` kills of each kind; after the last one a run must come out."""
    preflight.require()
    rng = random.Random(repeat)
    figures = []
    with tempfile.TemporaryDirectory(prefix="echelon-kills-") as folder:
        file = Path(folder) / "kills.yaml"
        file.write_text(EXPERIMENT)
        for kind, words in KINDS.items():
            clean = 0
            for n in range(repeat):
                fault = _kill(file, Path(folder) / f"{words or 'run'}-{n}", words, rng)
                clean += fault is None
                if fault is not None:
                    say(f"{kind}, kill {n + 1}: {fault}")
            say(f"{kind}: {clean} of {repeat}")
            figures.append(Figure(f"{kind} killed, nothing left", f"{clean} of {repeat}", "all", clean == repeat))
        done = _echelon(file, Path(folder) / "after").wait()
        figures.append(
            Figure("the next run ends by itself (exit code)", str(done), "0 or 3", done in (EXIT_VALID, EXIT_INVALID))
        )
    return figures


def _echelon(file: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "echelon.cli", "run", str(file), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _interfaces() -> set[str]:
    """Names of this machine's network interfaces."""
    return {path.name for path in Path("/sys/class/net").iterdir()}


def _kill(file: Path, out: Path, words: str, rng: random.Random) -> str | None:
    """Start a run, kill one of its processes at a random moment of its life; None, or what was wrong afterwards."""
    before = _interfaces()
    process = _echelon(file, out)
    victim = process.pid
    if words:
        found = _wait(lambda: next((p for p, line in descendants(process.pid).items() if words in line), 0), process)
        if not found and process.wait() == EXIT_BAD_INPUT:
            raise RunError("`echelon run` refused to start; is another emulation running on this machine?")
        if not found:
            return f"no process with {words!r} came up"
        victim = found
    time.sleep(rng.uniform(0.0, 2.0))
    family = {process.pid, *descendants(process.pid)}
    if alive(victim):
        os.kill(victim, signal.SIGKILL)
    try:
        process.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"the run had not ended {END_LIMIT_S:.0f} s later"
    deadline_s = time.monotonic() + 5.0
    while any(alive(pid) for pid in family):
        if time.monotonic() > deadline_s:
            return f"{sum(alive(pid) for pid in family)} processes are left"
        time.sleep(0.05)
    left = _interfaces() - before
    return f"interfaces are left: {', '.join(sorted(left))}" if left else None


def _wait(condition: Callable[[], int], process: subprocess.Popen[bytes]) -> int:
    while process.poll() is None:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    return 0
