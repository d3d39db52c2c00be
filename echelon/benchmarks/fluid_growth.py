"""How simulation of training jobs grows with GPUs and with flows, and how many small ones there are a second.

Hybrid jobs of 32 ranks (tensor, pipeline and data parallelism) on servers of eight GPUs, spread at random over a
leaf-spine, under policy `echelonflow`. GPUs grow at two iterations, flows grow with the iterations on a thousand GPUs. A
small simulation is two such jobs of four ranks on four hosts, two iterations, again and again with other starts. Each
measurement has a process of its own, in which compiled loops are loaded before time is taken.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
import time

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._own_process import measured_in_own_process
from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.model.network import Network
from echelonflow.scheduling import policies
from simulator import fluid
from traffic.workloads import paradigms

POLICY = "echelonflow"
GPUS = (64, 256, 1024, 4096)
MOST_S, GOAL_S, MOST_GB = 30.0, 8.0, 1.0
"""For the largest of `GPUS`."""
MOST_EXPONENT = 1.2
"""Of growth over the last step."""
FLOWS = (10_000, 100_000, 1_000_000)
FLOWS_GPUS = 1024
SMALL_A_SECOND, SMALL_GOAL = 50.0, 300.0
SMALL_S = 5.0
"""So long small simulations are made."""
RANKS, GPUS_OF_SERVER = 32, 8
RATE_BPS = 100e9
_MIB = 1 << 20


def run(repeat: int, say: Say) -> list[Figure]:
    """Medians of `repeat` measurements each."""
    by_gpus = [_median(f"{gpus:,} GPUs, two iterations", repeat, say, gpus, 2) for gpus in GPUS]
    largest_s, largest_GB = by_gpus[-1]
    figures = [
        Figure(f"hybrid jobs on {gpus:,} GPUs, two iterations", f"{time_s:.2f} s, {peak_GB:.2f} GB", "reported", None)
        for gpus, (time_s, peak_GB) in zip(GPUS[:-1], by_gpus, strict=False)
    ]
    figures.append(
        Figure(
            f"hybrid jobs on {GPUS[-1]:,} GPUs, two iterations",
            f"{largest_s:.2f} s, {largest_GB:.2f} GB",
            f"under {MOST_S:g} s (goal {GOAL_S:g} s) and {MOST_GB:g} GB",
            largest_s < MOST_S and largest_GB < MOST_GB,
        )
    )
    exponent = growth(GPUS[-2:], [time_s for time_s, _ in by_gpus[-2:]])
    figures.append(Figure("growth with GPUs over the last step", f"GPUs^{exponent:.2f}", "reported", None))
    each = flows_of_an_iteration(FLOWS_GPUS)
    by_flows = []
    for flows in FLOWS:
        by_flows.append(_median(f"{flows:,} flows", repeat, say, FLOWS_GPUS, math.ceil(flows / each)))
        measured = f"{by_flows[-1][0]:.2f} s, {by_flows[-1][1]:.2f} GB"
        figures.append(Figure(f"{flows:,} flows, {FLOWS_GPUS:,} GPUs", measured, "finishes", True))
    exponent = growth(FLOWS[-2:], [time_s for time_s, _ in by_flows[-2:]])
    must = f"under flows^{MOST_EXPONENT:g}"
    figures.append(
        Figure("growth with flows over the last step", f"flows^{exponent:.2f}", must, exponent < MOST_EXPONENT)
    )
    return [*figures, _small(repeat, say)]


def growth(sizes: tuple[int, ...], times_s: list[float]) -> float:
    """The exponent of growth from the first size to the last."""
    return math.log(times_s[-1] / times_s[0]) / math.log(sizes[-1] / sizes[0])


def cluster(gpus: int, iterations: int, seed: int = 1) -> tuple[list[Job], Network]:
    """As many hybrid jobs as there is room for, each on four whole servers anywhere."""
    servers = gpus // GPUS_OF_SERVER
    leaves = max(servers // 8, 2)
    options = {"leaves": leaves, "spines": 4, "hosts_per_leaf": servers // leaves, "rate_bps": RATE_BPS, "fabric_rate_bps": RATE_BPS}  # fmt: skip
    network = topologies.build("leaf-spine", options)
    rng = random.Random(seed)
    order = rng.sample(network.hosts, servers)
    own = RANKS // GPUS_OF_SERVER
    jobs = []
    for n in range(gpus // RANKS):
        placement = tuple(host for host in order[n * own : (n + 1) * own] for _ in range(GPUS_OF_SERVER))
        jobs.append(_job(f"j{n:03}", placement, iterations, rng, tensor=4, pipeline=4, data=2))
    return jobs, network


def small_case(seed: int = 1) -> tuple[list[Job], Network]:
    """Two jobs of four ranks that share four hosts, two iterations."""
    network = topologies.build("single-switch", {"hosts": 4, "rate_bps": RATE_BPS})
    rng = random.Random(seed)
    return [_job(name, network.hosts, 2, rng, tensor=1, pipeline=2, data=2) for name in ("a", "b")], network


def _job(
    name: str, placement: tuple[str, ...], iterations: int, rng: random.Random, tensor: int, pipeline: int, data: int
) -> Job:
    forward_s = 0.01 * rng.uniform(0.5, 1.5)
    options = {
        "tensor": tensor, "pipeline": pipeline, "data": data, "layers": 4, "micro_batches": 8,
        "forward_s": forward_s, "backward_s": 2 * forward_s, "update_s": 0.001,
        "activation_bytes": 4 * _MIB, "parameter_bytes": 25 * _MIB,
    }  # fmt: skip
    return Job(name, paradigms.build("hybrid", options), placement, iterations, 1.0, rng.uniform(0, 0.1))


def flows_of_an_iteration(gpus: int) -> int:
    """How many flows of the cluster's jobs go over the network in an iteration."""
    jobs, _ = cluster(GPUS_OF_SERVER * 8, 1)
    flows = sum(not job.is_local(transfer) for job in jobs for transfer in job.dag.transfers)
    return flows * gpus // (GPUS_OF_SERVER * 8)


def run_jobs(gpus: int, iterations: int) -> tuple[float, str]:
    """Seconds that simulating them takes, and what came out."""
    fluid.warm_up()
    jobs, network = cluster(gpus, iterations)
    started_s = time.monotonic()
    record = fluid.simulate(jobs, network, policies.load(POLICY))
    elapsed_s = time.monotonic() - started_s
    return (
        elapsed_s,
        f"{len(record.flows):,} flows, {len(record.computes):,} computations, {record.end_s:.2f} s simulated",
    )


def run_small() -> tuple[float, str]:
    """Seconds that a small simulation takes, on average, and how many were made: each of jobs that start at other times."""
    fluid.warm_up()
    jobs, network = small_case()
    policy, rng = policies.load(POLICY), random.Random(1)
    made, started_s = 0, time.monotonic()
    while (elapsed_s := time.monotonic() - started_s) < SMALL_S:
        moved = [dataclasses.replace(job, start_s=rng.uniform(0, 0.1)) for job in jobs]
        record = fluid.simulate(moved, network, policy)
        made += 1
    return elapsed_s / made, f"{made} simulations of {len(record.flows)} flows"


def _median(what: str, repeat: int, say: Say, gpus: int, iterations: int) -> tuple[float, float]:
    times_s, peaks_GB = measured_in_own_process(what, repeat, say, run_jobs, gpus, iterations)
    return statistics.median(times_s), max(peaks_GB)


def _small(repeat: int, say: Say) -> Figure:
    times_s, _ = measured_in_own_process("small simulations", repeat, say, run_small)
    a_second = 1 / statistics.median(times_s)
    must = f"over {SMALL_A_SECOND:g} a second (goal {SMALL_GOAL:g})"
    return Figure("small simulations, four hosts", f"{a_second:.0f} a second", must, a_second > SMALL_A_SECOND)
