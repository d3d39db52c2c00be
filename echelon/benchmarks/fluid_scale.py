"""How long fluid simulation takes at scale: the whole Facebook trace, and training jobs on a thousand GPUs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from echelon.benchmarks import Figure, Say, _traces
from echelon.benchmarks._own_process import timed_in_own_process
from echelon.cases import patterns, random_jobs
from echelonflow.model import topologies
from echelonflow.model.dag import Job, JobDag, iteration_times_without_network
from echelonflow.model.network import Network
from echelonflow.scheduling import kernels, policies
from simulator import fluid
from simulator import trace as trace_simulation
from traffic.workloads import paradigms, traces

PORT_BPS = 1e9
JOBS, RANKS, ITERATIONS = 32, 32, 100
GPUS = 8
"""Of a server."""
MOST_GB = 2.0

_MIB = 1 << 20


def run(repeat: int, say: Say) -> list[Figure]:
    """Each of the three simulations `repeat` times, each time in a fresh process, so that peak memory is its own."""
    figures = []
    if kernels.warm_up() != "numba":
        say("trace left out: whole traces need compiled kernels; install the extra `fast`: pip install '.[fast]'")
    elif (place := _traces.find(_traces.FACEBOOK, say)) is not None:
        for policy, limit_s, goal_s in (("coflow", 60.0, 10.0), ("fair", 600.0, 60.0)):
            what = f"Facebook trace at 1 Gbit/s, {policy}"
            limits = {"goal_s": goal_s, "most_GB": MOST_GB}
            figures.append(timed_in_own_process(what, limit_s, repeat, say, run_trace, str(place), policy, **limits))
    what = f"{JOBS} jobs, {JOBS * RANKS:,} GPUs, {ITERATIONS} iterations, echelonflow"
    limits = {"goal_s": 10.0, "most_GB": MOST_GB}
    figures.append(timed_in_own_process(what, 60.0, repeat, say, run_jobs, "echelonflow", ITERATIONS, **limits))
    return figures


def run_trace(place: str, policy: str) -> tuple[float, str]:
    """Seconds that simulating the trace in the file `place` takes, and what came out."""
    trace_simulation.warm_up()
    given = traces.read("coflow-benchmark", Path(place), {})
    network = topologies.build("big-switch", {"ports": 150, "rate_bps": PORT_BPS})
    started_s = time.monotonic()
    record = trace_simulation.simulate_trace(given, network, policies.load(policy))
    elapsed_s = time.monotonic() - started_s
    mean_s = record.completion_s.mean()
    return elapsed_s, f"{given.flows:,} flows, {record.events:,} events, mean completion {mean_s:.2f} s"


def run_jobs(policy: str, iterations: int) -> tuple[float, str]:
    """The same of `iterations` iterations of jobs on a cluster."""
    fluid.warm_up()
    jobs, network = cluster(iterations)
    started_s = time.monotonic()
    record = fluid.simulate(jobs, network, policies.load(policy))
    elapsed_s = time.monotonic() - started_s
    ended_s = record.end_s
    words = f"{len(record.flows):,} flows, {len(record.computes):,} computations, {ended_s:.0f} s simulated"
    return elapsed_s, words


def cluster(iterations: int, *, jobs_per_server: int = 1, seed: int = 1) -> tuple[list[Job], Network]:
    """`JOBS` jobs of `RANKS` ranks of all kinds of groups in turn, on servers of eight GPUs, one rank on each GPU.

    A server's GPUs belong to one job, or equal parts of them to `jobs_per_server` jobs. Servers are spread at random
    over the leaves of a network whose fabric is 2:1 oversubscribed, so jobs meet there. Alone, a job would keep its
    slowest link busy for a quarter to twice as long as it computes.
    """
    servers, part = JOBS * RANKS // GPUS, GPUS // jobs_per_server
    options = {"leaves": 16, "spines": 4, "hosts_per_leaf": servers // 16, "rate_bps": 100e9, "fabric_rate_bps": 100e9}
    network = topologies.build("leaf-spine", options)
    rng = random.Random(seed)
    parts = [host for _ in range(jobs_per_server) for host in rng.sample(network.hosts, servers)]
    found = []
    for n in range(JOBS):
        dag = _PATTERNS[n % len(_PATTERNS)](rng, RANKS)
        own = parts[n * RANKS // part : (n + 1) * RANKS // part]
        placement = tuple(host for host in own for _ in range(part))
        low, high = random_jobs.INTENSITY
        busy_s = low * (high / low) ** rng.random() * iteration_times_without_network(dag, 2)[1]
        dag = patterns.resized(dag, busy_s / random_jobs.alone_s(Job("probe", dag, placement), network))
        found.append(Job(f"j{n:02}", dag, placement, iterations, 1.0, rng.uniform(0, 0.1)))
    return found, network


def _layer_times_s(rng: random.Random, layers: int = 4) -> list[float]:
    return [0.1 / layers * rng.uniform(0.5, 1.5) for _ in range(layers)]


def _data_parallel(rng: random.Random, ranks: int) -> JobDag:
    forward_s = _layer_times_s(rng)
    backward_s, sizes = [2 * t for t in forward_s], [_MIB] * len(forward_s)
    return patterns.data_parallel(ranks=ranks, forward_s=forward_s, backward_s=backward_s, bucket_bytes=sizes)


def _parameter_server(rng: random.Random, ranks: int) -> JobDag:
    forward_s = _layer_times_s(rng)
    backward_s, sizes = [2 * t for t in forward_s], [_MIB] * len(forward_s)
    return patterns.parameter_server(ranks=ranks, forward_s=forward_s, backward_s=backward_s, bucket_bytes=sizes)


def _fsdp(rng: random.Random, ranks: int) -> JobDag:
    forward_s = _layer_times_s(rng)
    backward_s, sizes = [2 * t for t in forward_s], [_MIB] * len(forward_s)
    return patterns.fsdp(ranks=ranks, forward_s=forward_s, backward_s=backward_s, layer_bytes=sizes, ahead=2)


def _tensor_parallel(rng: random.Random, ranks: int) -> JobDag:
    return patterns.tensor_parallel(ranks=ranks, layer_s=_layer_times_s(rng), reduced_bytes=_MIB)


def _gpipe(rng: random.Random, ranks: int) -> JobDag:
    forward_s = 0.1 / 8 * rng.uniform(0.5, 1.5)
    options = {
        "stages": ranks,
        "micro_batches": 8,
        "forward_s": forward_s,
        "backward_s": 2 * forward_s,
        "activation_bytes": _MIB,
    }
    return paradigms.build("gpipe", options)


def _one_forward_one_backward(rng: random.Random, ranks: int) -> JobDag:
    forward_s = [0.1 / 8 * rng.uniform(0.5, 1.5)] * ranks
    return patterns.one_forward_one_backward(
        stages=ranks, micro_batches=8, forward_s=forward_s, backward_s=[2 * t for t in forward_s], boundary_bytes=_MIB
    )


_PATTERNS: tuple[Callable[[random.Random, int], JobDag], ...] = (
    _data_parallel, _gpipe, _fsdp, _parameter_server, _tensor_parallel, _one_forward_one_backward,
)  # fmt: skip
