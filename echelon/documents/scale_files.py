"""Writes experiments/scale/: `python -m echelon.documents.scale_files`. Nothing in them is chosen for how it comes out.

Clusters of 64 to 4,096 GPUs, eight to a host, on oversubscribed leaves and spines. Jobs have 4 to 128 GPUs, of paradigms that
are trained at that size; they fill most of the cluster, and lie where earlier jobs left gaps. Iteration times and the share of
communication are drawn from a seed, which is the file's name. Each file has a sweep over the hosts' rate: rates are found
at which the fabric has each of `LOADS`. Small clusters are swept over what earlier jobs left, too.

The load is the mean over all cables between leaves and spines, both directions. Some have several times as much: jobs lie as they
lie, and paths are chosen by a hash.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from echelon.documents import drawn_jobs
from echelon.documents.drawn_jobs import BUCKETS, SIZE_KB, TIMES_MS
from echelon.places import EXPERIMENTS
from echelon.study import steady
from echelonflow.files import write_whole
from echelonflow.model.dag import Job
from echelonflow.model.network import Network

FOLDER = EXPERIMENTS / "scale"
GPUS_PER_HOST = 8
RATE_GBIT = 25.0
"""At which the share of communication is drawn. The rates of the sweep are found."""
OVERSUBSCRIPTION = 2
LOADS = (0.3, 0.6, 0.9)
"""What jobs ask of the fabric's cables at the pace that each has alone, over what these have."""
CLOSE = 1e-3
"""Relative: a load this close to what is wanted is that."""
FILLED = (0.8, 0.95)
"""Share of the GPUs that jobs have."""
ITERATION_S = (0.5, 2.0)
"""How long a job's computation and communication take, added up; drawn."""
INTENSITY = (0.25, 2.0)
"""Communication over computation; drawn log-uniformly."""
ROUNDS = 32
"""So many iterations of the slowest job, alone, fit into the time that all are to run together. Those that share links are slowed
down unequally; with eight, some job had ended before another had warmed up, under every policy on a thousand GPUs."""
LAYERS = {"layers": 4, **TIMES_MS}
STAGES = {**TIMES_MS, "activation": SIZE_KB}
POLICIES = (
    "fair", "fifo", "coflow(grouping=collective)", "echelonflow(order=tardiness,within=strict)",
    "echelonflow(order=due,within=strict)", "weighted(per=job)", "clock",
)  # fmt: skip


@dataclass(frozen=True)
class Size:
    """A cluster, and how many jobs share it."""

    gpus: int
    leaves: int
    spines: int
    jobs: int
    largest: int
    """GPUs of the largest job."""
    seeds: int
    """Clusters that earlier jobs left gaps in, each another one."""


SIZES = (
    Size(64, leaves=2, spines=2, jobs=6, largest=16, seeds=10),
    Size(256, leaves=4, spines=4, jobs=10, largest=64, seeds=5),
    Size(1024, leaves=8, spines=4, jobs=25, largest=128, seeds=3),
    Size(4096, leaves=32, spines=8, jobs=100, largest=128, seeds=1),
)


def _replicas(ranks: int) -> dict[str, Any]:
    return {"ranks": ranks, **LAYERS, **BUCKETS}


def _pipeline(ranks: int) -> dict[str, Any]:
    return {"stages": ranks, "micro_batches": ranks, **STAGES}


_OPTIONS: Mapping[str, Callable[[int], dict[str, Any]]] = MappingProxyType(
    {
        "data-parallel": _replicas,
        "zero": _replicas,
        "fsdp": lambda ranks: {"ranks": ranks, **LAYERS, "parameter": SIZE_KB},
        "parameter-server": lambda ranks: {"workers": ranks * 3 // 4, "servers": ranks // 4, **LAYERS, **BUCKETS},
        "gpipe": _pipeline,
        "pipeline-1f1b": _pipeline,
        "expert-parallel": lambda ranks: {"ranks": ranks, **LAYERS, "dispatch": SIZE_KB, "expert_every": 2},
        "tensor-parallel": lambda ranks: {"ranks": ranks, **LAYERS, "activation": SIZE_KB},
    }
)
RANKS: Mapping[str, range] = MappingProxyType(
    {
        "data-parallel": range(4, 129),
        "zero": range(4, 129),
        "fsdp": range(4, 129),
        "parameter-server": range(4, 33),
        "gpipe": range(4, 17),
        "pipeline-1f1b": range(4, 17),
        "expert-parallel": range(4, 17),
        "tensor-parallel": range(4, 9),
    }
)
"""Sizes at which each paradigm is trained by itself; larger jobs are replicas, as the others' communication does not scale so far."""


def name_of(size: Size) -> str:
    """What the file of a cluster is called."""
    return f"gpus-{size.gpus}"


def drawn(size: Size) -> str:
    """The text of the file of a cluster."""
    rng = random.Random(f"scale/{size.gpus}")
    network = {
        "topology": "leaf-spine",
        "leaves": size.leaves,
        "spines": size.spines,
        "hosts_per_leaf": size.gpus // GPUS_PER_HOST // size.leaves,
        "rate": f"{RATE_GBIT:g} Gbit/s",
        "oversubscription": OVERSUBSCRIPTION,
        "gpus_per_host": GPUS_PER_HOST,
        "routing": "ecmp",
    }
    ranks = _ranks(rng, size)
    plain = [_job(rng, f"job{number + 1}", count) for number, count in enumerate(ranks)]
    source: dict[str, Any] = {
        "name": name_of(size),
        "title": f"{size.jobs} jobs of {size.gpus:,} GPUs",
        "network": network,
        "placement": "fragmented",
        "jobs": [drawn_jobs.scaled(job, 1.0, 1.0) | {"iterations": 2} for job in plain],
    }
    jobs, on = drawn_jobs.built(source)
    source["jobs"] = [_sized(rng, own, job, on) for own, job in zip(plain, jobs, strict=True)]
    jobs, on = drawn_jobs.built({**source, "jobs": [job | {"iterations": 2} for job in source["jobs"]]})
    alone_s = steady.loads_of(jobs, on).iteration_s
    rates = [f"{RATE_GBIT * rate_for(jobs, on, load):.4g} Gbit/s" for load in LOADS]
    network["rate"] = rates[len(rates) // 2]
    drawn_jobs.set_iterations(source, ROUNDS * float(alone_s.max()))
    over: dict[str, Any] = {"network.rate": rates}
    if size.seeds > 1:
        over["placement"] = [f"fragmented(seed={seed})" for seed in range(size.seeds)]
    source |= {"window": "steady", "policies": list(POLICIES)}
    source["sweep"] = {"over": over}
    comment = [
        f"{source['title']}, on leaves and spines that are {OVERSUBSCRIPTION}:1 oversubscribed.",
        "",
        "Paradigms, numbers of ranks, iteration times and the share of communication are drawn by chance; nothing is chosen for how",
        f"it comes out. At the rates of the sweep the fabric has a load of {', '.join(f'{load:g}' for load in LOADS)},",
        "with the first placement and as each job would go alone. Written by `python -m echelon.documents.scale_files`.",
        "",
        f"    echelon sweep experiments/scale/{name_of(size)}.yaml",
    ]
    return drawn_jobs.text_of(source, comment)


def _ranks(rng: random.Random, size: Size) -> list[int]:
    """How many ranks each job has: powers of two, each as likely, drawn again until they fill the cluster."""
    possible = [4 << power for power in range(size.largest.bit_length() - 2)]
    least, most = (share * size.gpus for share in FILLED)
    while True:
        ranks = [rng.choice(possible) for _ in range(size.jobs)]
        if least <= sum(ranks) <= most:
            return ranks


def _job(rng: random.Random, name: str, ranks: int) -> dict[str, Any]:
    paradigm = rng.choice([paradigm for paradigm, sizes in RANKS.items() if ranks in sizes])
    return {"name": name, "paradigm": paradigm, **_OPTIONS[paradigm](ranks)}


def _sized(rng: random.Random, plain: dict[str, Any], job: Job, network: Network) -> dict[str, Any]:
    lasts_s, intensity = rng.uniform(*ITERATION_S), drawn_jobs.log_uniform(rng, *INTENSITY)
    return drawn_jobs.scaled(plain, *drawn_jobs.factors(job, network, lasts_s, intensity))


def rate_for(jobs: Sequence[Job], network: Network, load: float) -> float:
    """By what all rates are to be multiplied for the fabric to have `load`."""
    low, high = 1e-3, 1e3
    while high / low > 1 + CLOSE:
        factor = (low * high) ** 0.5
        low, high = (factor, high) if fabric_load_of(jobs, _faster(network, factor)) > load else (low, factor)
    return high


def fabric_load_of(jobs: Sequence[Job], network: Network) -> float:
    """What jobs ask of the cables between switches at the pace that each has alone, over what these have: the mean over them."""
    fabric = np.array([link.kind == "fabric" for link in network.links])
    return float(steady.load_by_link(jobs, network)[fabric].mean())


def _faster(network: Network, factor: float) -> Network:
    cables = tuple(dataclasses.replace(cable, rate_bps=cable.rate_bps * factor) for cable in network.cables)
    return dataclasses.replace(network, cables=cables)


def main(folder: Path = FOLDER, sizes: Sequence[Size] = SIZES) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    for size in sizes:
        write_whole(folder / f"{name_of(size)}.yaml", drawn(size))


if __name__ == "__main__":
    main()
