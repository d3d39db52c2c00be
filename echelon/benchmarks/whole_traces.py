"""How long `echelon run` takes for the whole Facebook trace, policy by policy: 526 Coflows, 706,397 flows.

Each run is a process of its own, from the command to the last file. Loops have been compiled before, as they are once
after installation. What comes out (average completion) is shown beside it.
"""

from __future__ import annotations

import fnmatch
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from echelon.benchmarks import Figure, Say, _traces
from echelonflow.child_process import module_argv
from echelonflow.errors import RunError
from echelonflow.scheduling import kernels, policies
from simulator import trace as trace_simulation

LIMITS_S = {"coflow": (8.0, 3.0), "fair": (15.0, 5.0), "echelonflow": (15.0, 5.0)}
"""What a run must take at most, and the goal, in seconds."""
OTHERS_S = (120.0, 20.0)
EXPERIMENT = """name: whole-trace
network:
  topology: big-switch
  ports: 150
  rate: 1 Gbit/s
jobs:
  - name: facebook
    trace:
      format: coflow-benchmark
      file: {file}
policies:
  - {policy}
"""


def run(repeat: int, say: Say, only: Sequence[str]) -> list[Figure]:
    """Each policy with its defaults `repeat` times; `only` are patterns of names of policies."""
    place = _traces.find(_traces.FACEBOOK, say)
    if place is None:
        return []
    if kernels.warm_up() != "numba":
        say("left out: whole traces need compiled loops; install the extra `fast`: pip install '.[fast]'")
        return []
    trace_simulation.warm_up()
    chosen = [
        name for name in policies.deciding_alone() if not only or any(fnmatch.fnmatch(name, each) for each in only)
    ]
    return [_figure(name, place, repeat, say) for name in chosen]


def _figure(policy: str, place: Path, repeat: int, say: Say) -> Figure:
    times_s, average_s = [], 0.0
    for n in range(repeat):
        wall_s, cpu_s, average_s = measure(policy, place)
        say(
            f"{policy}, {n + 1} of {repeat}: {wall_s:.2f} s, {cpu_s:.2f} s of CPU; average completion {average_s:.2f} s"
        )
        times_s.append(wall_s)
    must_s, goal_s = LIMITS_S.get(policy, OTHERS_S)
    median_s = statistics.median(times_s)
    measured = f"{median_s:.2f} s ({min(times_s):.2f} to {max(times_s):.2f}); average completion {average_s:.2f} s"
    must = f"under {must_s:g} s (goal {goal_s:g} s)"
    return Figure(f"run of the whole Facebook trace, {policy}", measured, must, median_s < must_s)


def measure(policy: str, place: Path) -> tuple[float, float, float]:
    """Seconds of wall and of CPU that a run of the trace in `place` takes, and the average completion time in seconds."""
    with tempfile.TemporaryDirectory(prefix="echelon-whole-traces-") as folder:
        file, out = Path(folder) / "trace.yaml", Path(folder) / "out"
        file.write_text(EXPERIMENT.format(file=place, policy=policy), encoding="utf-8")
        started_s, before = time.monotonic(), os.times()
        command = module_argv("echelon.cli", "run", str(file), "--backend", "fluid", "--out", str(out))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wall_s, after = time.monotonic() - started_s, os.times()
        if done.returncode:
            raise RunError(f"{policy}: the run failed: {done.stderr.strip().rpartition(chr(10))[2]}")
        summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return wall_s, cpu_s, float(summary["coflows"][0]["average_s"])
