"""Random cases: a few jobs of all patterns, or of one, on one shared link or on a leaf-spine.

Everything follows from the random generator that is given, so a case can be made again from its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from echelon.cases import patterns as communication
from echelonflow.model import topologies
from echelonflow.model.dag import Job, JobDag, iteration_times_without_network
from echelonflow.model.network import Network
from traffic.workloads import paradigms

TOPOLOGIES = ("one-link", "leaf-spine")
FABRIC = "fabric-"
"""With a number of hosts behind it, a multiple of eight: a leaf-spine of so many."""
_HOSTS_PER_LEAF = 8
RATE_BPS = 1e9
WORK_S = 0.1
"""Scale of an iteration's computation; a case's meaning does not depend on it."""
INTENSITY = (0.25, 2.0)
"""Range of a job's network time alone over its computation time; drawn log-uniformly."""
_MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """Jobs on a network, and what they are in words."""

    jobs: tuple[Job, ...]
    network: Network
    words: str


def draw(rng: random.Random, topology: str, patterns: Sequence[str] = (), jobs: int = 0, iterations: int = 3) -> Case:
    """A case on `topology` (one of `TOPOLOGIES`, or such as "fabric-64").

    `jobs` jobs (2 to 4 unless given), each of a pattern drawn from `patterns` (all of `PATTERNS` unless given).
    Each job's transfers are scaled so that alone they would keep its slowest link busy for `INTENSITY` times as
    long as an iteration lasts without a network. Jobs start within the first one's first iteration.
    """
    network = _network(topology)
    names = [rng.choice(list(patterns or PATTERNS)) for _ in range(jobs or rng.randint(2, 4))]
    found = []
    for place, name in enumerate(names):
        dag = PATTERNS[name](rng)
        ranks = _place(rng, topology, network, dag.ranks)
        computing_s = iteration_times_without_network(dag, 2)[1]
        intensity = INTENSITY[0] * (INTENSITY[1] / INTENSITY[0]) ** rng.random()
        dag = communication.resized(dag, intensity * computing_s / alone_s(Job("probe", dag, ranks), network))
        start_s = rng.uniform(0, WORK_S) if place else 0.0
        found.append(Job(f"j{place} {name}", dag, ranks, iterations, 1.0, start_s))
    return Case(tuple(found), network, f"{topology}: {', '.join(sorted(names))}")


def alone_s(job: Job, network: Network) -> float:
    """Seconds that the bytes of one iteration of `job` need at its slowest link, alone."""
    volume: dict[int, int] = {}
    for transfer in job.dag.transfers:
        for link in network.path(*job.hosts_of(transfer)):
            volume[link] = volume.get(link, 0) + transfer.size_bytes
    return max(size_bytes / network.capacity_Bps[link] for link, size_bytes in volume.items())


def _network(topology: str) -> Network:
    """One link: two halves joined by one cable, everything else ten times as wide. Leaf-spine and fabric: 2:1 oversubscribed."""
    if topology == "one-link":
        return topologies.build("dumbbell", {"hosts": 16, "rate_bps": 10 * RATE_BPS, "bottleneck_rate_bps": RATE_BPS})
    if topology.startswith(FABRIC):
        leaves = int(topology.removeprefix(FABRIC)) // _HOSTS_PER_LEAF
        options = {
            "leaves": leaves,
            "spines": 4,
            "hosts_per_leaf": 8,
            "rate_bps": RATE_BPS,
            "fabric_rate_bps": RATE_BPS,
        }
        return topologies.build("leaf-spine", options)
    options = {"leaves": 3, "spines": 2, "hosts_per_leaf": 4, "rate_bps": RATE_BPS, "fabric_rate_bps": RATE_BPS}
    return topologies.build("leaf-spine", options)


def _place(rng: random.Random, topology: str, network: Network, ranks: int) -> tuple[str, ...]:
    """Neighbouring ranks on different sides of the one link; anywhere on a leaf-spine, hosts shared between jobs."""
    if topology != "one-link":
        return tuple(rng.sample(network.hosts, ranks))
    half = len(network.hosts) // 2
    sides = [rng.sample(network.hosts[:half], half), rng.sample(network.hosts[half:], half)]
    return tuple(sides[r % 2][r // 2] for r in range(ranks))


def _times_s(rng: random.Random, count: int) -> list[float]:
    """`count` durations that differ by up to a factor of three, together about a third of `WORK_S`."""
    return [WORK_S / 3 / count * rng.uniform(0.5, 1.5) for _ in range(count)]


def _pipeline(rng: random.Random) -> JobDag:
    stages, micro_batches = rng.randint(2, 4), rng.randint(3, 6)
    options = {
        "stages": stages,
        "micro_batches": micro_batches,
        "forward_s": [WORK_S / micro_batches * rng.uniform(0.5, 1.5) for _ in range(stages)],
        "activation_bytes": _MIB,
    }
    return paradigms.build("pipeline", options)


def _gpipe(rng: random.Random) -> JobDag:
    stages, micro_batches = rng.randint(2, 4), rng.randint(3, 6)
    forward_s = [WORK_S / 3 / micro_batches * rng.uniform(0.7, 1.3) for _ in range(stages)]
    options = {
        "stages": stages,
        "micro_batches": micro_batches,
        "forward_s": forward_s,
        "backward_s": [2 * duration_s for duration_s in forward_s],
        "activation_bytes": _MIB,
    }
    return paradigms.build("gpipe", options)


def _one_forward_one_backward(rng: random.Random) -> JobDag:
    stages, micro_batches = rng.randint(2, 4), rng.randint(3, 6)
    forward_s = [WORK_S / 3 / micro_batches * rng.uniform(0.7, 1.3) for _ in range(stages)]
    return communication.one_forward_one_backward(
        stages=stages,
        micro_batches=micro_batches,
        forward_s=forward_s,
        backward_s=[2 * duration_s for duration_s in forward_s],
        boundary_bytes=_MIB,
    )


def _data_parallel(rng: random.Random) -> JobDag:
    layers = rng.randint(3, 6)
    forward_s = _times_s(rng, layers)
    sizes = [round(_MIB * rng.uniform(0.3, 3)) for _ in range(layers)]
    return communication.data_parallel(
        ranks=rng.choice([2, 4]), forward_s=forward_s, backward_s=[2 * t for t in forward_s], bucket_bytes=sizes
    )


def _parameter_server(rng: random.Random) -> JobDag:
    layers = rng.randint(3, 6)
    forward_s = _times_s(rng, layers)
    sizes = [round(_MIB * rng.uniform(0.3, 3)) for _ in range(layers)]
    return communication.parameter_server(
        ranks=rng.choice([2, 3, 4]), forward_s=forward_s, backward_s=[2 * t for t in forward_s], bucket_bytes=sizes
    )


def _fsdp(rng: random.Random) -> JobDag:
    layers = rng.randint(3, 5)
    forward_s = _times_s(rng, layers)
    sizes = [round(_MIB * rng.uniform(0.5, 2)) for _ in range(layers)]
    return communication.fsdp(
        ranks=rng.choice([2, 4]),
        forward_s=forward_s,
        backward_s=[2 * t for t in forward_s],
        layer_bytes=sizes,
        ahead=rng.choice([1, 2, 3, 2 * layers]),
    )


def _tensor_parallel(rng: random.Random) -> JobDag:
    return communication.tensor_parallel(ranks=2, layer_s=_times_s(rng, rng.randint(2, 4)), reduced_bytes=_MIB)


def _expert_parallel(rng: random.Random) -> JobDag:
    layers = rng.randint(1, 2)
    return communication.expert_parallel(rng, ranks=rng.choice([2, 3]), layer_s=_times_s(rng, layers), mean_bytes=_MIB)


def _layered(rng: random.Random) -> JobDag:
    ranks, layers = rng.randint(2, 4), rng.randint(3, 6)
    flows = rng.randint(4, 12)
    return communication.layered(
        rng, ranks=ranks, layers=layers, flows=flows, duration_s=WORK_S / layers, mean_bytes=_MIB
    )


PATTERNS: dict[str, Callable[[random.Random], JobDag]] = {
    "pipeline": _pipeline,
    "gpipe": _gpipe,
    "1f1b": _one_forward_one_backward,
    "data-parallel": _data_parallel,
    "parameter-server": _parameter_server,
    "fsdp": _fsdp,
    "tensor-parallel": _tensor_parallel,
    "expert-parallel": _expert_parallel,
    "layered": _layered,
}
"""Random DAGs by the name of their pattern."""
