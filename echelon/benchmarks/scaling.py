"""How the time of a decision grows with the number of flows, for three policies, compiled and not.

Random groups on a leaf-spine of 1,024 hosts: a tenth as many groups as flows (at most 1,000), of staggered stages of
two flows each. A tenth of the flows is still to be released, and many are partly sent. One decision is what a
controller does: an event, the arrays built from the state, the policy, the check of its answer. The picture goes beside
`--out`, or into the working folder.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from echelon.benchmarks import Figure, Say
from echelonflow.child_process import module_argv
from echelonflow.errors import RunError
from echelonflow.model import topologies
from echelonflow.model.network import Network
from echelonflow.scheduling import kernels, policies
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowDeclaration
from results.pictures.scaling_plots import Curve, draw_scaling

POLICIES = ("fair", "coflow", "echelonflow")
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
MUST_MS = {10_000: (20.0, 5.0), 100_000: (300.0, 50.0)}
"""What `echelonflow` must take at most, and the goal, with so many flows."""
MOST_GROUPS = 1_000
FLOWS_OF_STAGE = 2
PICTURE = "decision-scaling.png"
_MILLI = 1e3


def run(repeat: int, say: Say, folder: Path) -> list[Figure]:
    """Medians of `repeat` times five decisions, each after an event, in one process for each way to run kernels."""
    ways = ["plain"] if kernels.warm_up() == "plain" else ["numba", "plain"]
    found = {way: _in_fresh_process(way, 5 * repeat, say) for way in ways}
    curves = [
        Curve(f"{policy}, {way}", policy, way == "plain", tuple(SIZES), tuple(found[way][policy]))
        for way in ways
        for policy in POLICIES
    ]
    picture = folder / PICTURE
    draw_scaling(curves, {flows: must for flows, (must, _) in MUST_MS.items()}, picture)
    say(f"picture: {picture}")
    figures = []
    for way in ways:
        for flows, (must_ms, goal_ms) in MUST_MS.items():
            took_ms = found[way]["echelonflow"][SIZES.index(flows)]
            demanded = way == ways[0]
            figures.append(
                Figure(
                    f"decision by echelonflow, {flows:,} flows, {_groups(flows):,} groups, 1,024 hosts ({way})",
                    f"{took_ms:.1f} ms",
                    f"under {must_ms:g} ms (goal {goal_ms:g} ms)" if demanded else "reported",
                    took_ms < must_ms if demanded else None,
                )
            )
    for curve in curves:
        exponent = fitted_exponent(curve.flows, curve.milliseconds)
        figures.append(Figure(f"growth of decision time, {curve.name}", f"flows^{exponent:.2f}", "reported", None))
    return figures


def fitted_exponent(flows: Sequence[int], times: Sequence[float]) -> float:
    """Slope of the least-squares line through log time over log flows."""
    return float(np.polyfit(np.log(flows), np.log(times), 1)[0])


def measure(samples: int, say: Say) -> dict[str, list[float]]:
    """Median milliseconds of a decision, by policy, for each of `SIZES`."""
    kernels.warm_up()
    network = topologies.build(
        "leaf-spine", {"leaves": 32, "spines": 8, "hosts_per_leaf": 32, "rate_bps": 1e9, "fabric_rate_bps": 4e9}
    )
    found: dict[str, list[float]] = {name: [] for name in POLICIES}
    for flows in SIZES:
        state = random_state(network, flows)
        for name in POLICIES:
            policy = policies.load(name)
            times_ms = [_decision_ms(state, policy, now_s=3.0 + i) for i in range(samples + 1)][1:]
            found[name].append(statistics.median(times_ms))
        say(f"{flows:,} flows: " + ", ".join(f"{name} {times[-1]:.2f} ms" for name, times in found.items()))
    return found


def random_state(network: Network, flows: int) -> SchedulerState:
    """So many flows in flight, and a tenth as many that are declared and wait."""
    rng = random.Random(flows)
    state = SchedulerState(network)
    groups = _groups(flows)
    size = flows // groups
    waiting = max(size // 10, 1)
    for g in range(groups):
        hosts = rng.sample(network.hosts, min(max(size, 2), 8))
        declared = []
        for i in range(size + waiting):
            src, dst = rng.sample(hosts, 2)
            stage = i // FLOWS_OF_STAGE
            size_bytes, port = rng.randrange(10**5, 10**8), 10_000 + i
            declared.append(
                FlowDeclaration(f"g{g}f{i}", i, f"g{g}c{stage}", src, dst, size_bytes, 0.1 * stage, port, 5001)
            )
        job = f"job{g:04}"
        state.declare(Declare(job, f"g{g}", "pipeline", 1.0, tuple(declared), 1.0))
        began_s = rng.random()
        for flow in declared[:size]:
            key = (job, 0, flow.flow)
            state.release(key, began_s + flow.offset_s * rng.random())
            state.progress(key, flow.size_bytes * rng.choice([0.0, 0.0, rng.random()]))
    return state


def _groups(flows: int) -> int:
    return min(max(flows // 10, 1), MOST_GROUPS)


def _decision_ms(state: SchedulerState, policy: policies.Policy, now_s: float) -> float:
    """One flow ends and another begins: the next iteration of the same, so that the number stays."""
    job, iteration, name = next(iter(state.active))
    started_s = time.perf_counter()
    state.finish((job, iteration, name), now_s)
    state.release((job, iteration + 1, name), now_s)
    snapshot, _ = state.snapshot(now_s)
    policy(snapshot)
    return (time.perf_counter() - started_s) * _MILLI


def _in_fresh_process(way: str, samples: int, say: Say) -> dict[str, list[float]]:
    """`measure` where kernels run as `way` says, which a process decides once."""
    environment = {**os.environ, kernels.PLAIN_VARIABLE: "1" if way == "plain" else ""}
    command = module_argv(__name__, str(samples))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(f"measuring with {way} kernels failed: {done.stderr.strip().rpartition(chr(10))[2]}")
    for line in done.stderr.splitlines():
        say(f"{way}: {line}")
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    json.dump(measure(int(sys.argv[1]), lambda words: print(words, file=sys.stderr)), sys.stdout)
