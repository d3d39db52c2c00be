"""Writes experiments/steady/: `python -m echelon.documents.steady_files`. Nothing in them is chosen for how it comes out.

Eight files have two jobs each, whose paradigms, hosts, sizes and iteration times are drawn from a seed, which is the file's
number. Two more have a parameter server whose buckets wait for their own pulls alone, across the end of the iteration, beside
a job that is drawn. Models have three equal layers. A job is made longer, computation and bytes alike, until its shortest
transfer takes `SHORTEST_S` at the hosts' rate: what is much shorter, the emulated network does not time well. All jobs have
so many iterations that they last about equally long at the pace that they can keep up together: what counts is what
happens while all run (`echelon/study/steady.py`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from echelon.documents import drawn_jobs
from echelon.documents.drawn_jobs import BUCKETS, SIZE_KB, TIMES_MS
from echelon.places import EXPERIMENTS
from echelonflow.files import write_whole
from echelonflow.model.dag import Job

FOLDER = EXPERIMENTS / "steady"
DRAWN, CROSSING = 8, 2
LINK_MBIT = 30
HOSTS = 8
ITERATION_S = (1.5, 2.5)
"""How long a job's computation and communication take, added up, before it is made longer; drawn."""
INTENSITY = (0.4, 2.0)
"""Communication over computation; drawn log-uniformly."""
SHORTEST_S = 0.1
"""What the shortest transfer of a job takes at the hosts' rate, at least."""
LASTS_S = 14.0
"""How long jobs are to last together, behind their first iterations."""
LAYERS = {"layers": 3, **TIMES_MS}
PIPELINE = {"stages": 4, "micro_batches": 4, **TIMES_MS, "activation": SIZE_KB}
PARADIGMS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "data-parallel": {"ranks": 4, **LAYERS, **BUCKETS},
        "parameter-server": {"workers": 4, "servers": 2, **LAYERS, **BUCKETS},
        "fsdp": {"ranks": 4, **LAYERS, "parameter": SIZE_KB},
        "zero": {"ranks": 4, **LAYERS, **BUCKETS},
        "gpipe": PIPELINE,
        "pipeline-1f1b": PIPELINE,
        "tensor-parallel": {"ranks": 2, **LAYERS, "activation": SIZE_KB},
        "expert-parallel": {"ranks": 4, **LAYERS, "dispatch": SIZE_KB, "expert_every": 3},
    }
)
CROSSING_JOB: Mapping[str, Any] = MappingProxyType(
    {"paradigm": "parameter-server", "workers": 3, "servers": 1, **LAYERS, **BUCKETS}
)
POLICIES = (
    "fair", "fifo", "coflow(grouping=collective)", "echelonflow(order=tardiness,within=strict)",
    "echelonflow(order=due,within=strict)", "clock", "lookahead",
)  # fmt: skip


def drawn(number: int) -> str:
    """The text of file `number`, from 0; those behind the eighth have dependencies that cross iterations."""
    rng = random.Random(f"steady/{number}")
    network = _network(rng)
    crosses = number >= DRAWN
    names = [rng.choice(list(PARADIGMS)) for _ in range(2)]
    jobs = [{"paradigm": name, **PARADIGMS[name]} for name in names]
    if crosses:
        jobs[0] = dict(CROSSING_JOB)
    name = name_of(number)
    title = " and ".join(f"{job['paradigm']}" for job in jobs)
    source: dict[str, Any] = {
        "name": name,
        "title": f"{title} on shared links" + (", buckets waiting for their own pulls" if crosses else ""),
        "network": network,
        "jobs": [],
        "policies": list(POLICIES),
        "repeats": 3,
    }
    for place, job in enumerate(jobs):
        source["jobs"].append(_job(rng, f"job{place + 1}", job, network))
    drawn_jobs.set_iterations(source, LASTS_S)
    return drawn_jobs.text_of(
        source,
        [
            f"{source['title']}.",
            "",
            "Paradigms, hosts, iteration times and the share of communication are drawn by chance; nothing is chosen for how it",
            f"comes out. No transfer takes less than {SHORTEST_S * 1e3:g} ms at the hosts' rate.",
            "Written by `python -m echelon.documents.steady_files`.",
        ],
    )


def name_of(number: int) -> str:
    """What file `number` is called."""
    return f"drawn-{number + 1}" if number < DRAWN else f"crossing-{number - DRAWN + 1}"


def _network(rng: random.Random) -> dict[str, Any]:
    rate = f"{LINK_MBIT} Mbit/s"
    if rng.random() < 0.5:
        return {"topology": "single-switch", "hosts": HOSTS, "rate": rate}
    half = HOSTS // 2
    fabric = f"{2 * LINK_MBIT} Mbit/s"
    return {
        "topology": "leaf-spine",
        "leaves": 2,
        "spines": 1,
        "hosts_per_leaf": half,
        "rate": rate,
        "fabric_rate": fabric,
    }


def _job(rng: random.Random, name: str, job: dict[str, Any], network: dict[str, Any]) -> dict[str, Any]:
    """The job on hosts that are drawn, with times and bytes as they are drawn."""
    ranks = job.get("ranks") or job.get("stages") or job["workers"] + job["servers"]
    hosts = rng.sample([f"h{number + 1}" for number in range(HOSTS)], ranks)
    lasts_s = rng.uniform(*ITERATION_S)
    intensity = drawn_jobs.log_uniform(rng, *INTENSITY)
    plain = {"name": name, **job, "placement": hosts}
    built, on = drawn_jobs.built({"network": network, "jobs": [drawn_jobs.scaled(plain, 1.0, 1.0) | {"iterations": 2}]})
    time, size = drawn_jobs.factors(built[0], on, lasts_s, intensity)
    longer = max(1.0, SHORTEST_S / (size * shortest_transfer_s(built[0])))
    return drawn_jobs.scaled(plain, time * longer, size * longer)


def shortest_transfer_s(job: Job) -> float:
    """How long the smallest of a job's flows takes at the hosts' rate, in seconds."""
    return min(transfer.size_bytes for transfer in job.dag.transfers) * 8 / (LINK_MBIT * 1e6)


def main(folder: Path = FOLDER) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(DRAWN + CROSSING):
        write_whole(folder / f"{name_of(number)}.yaml", drawn(number))


if __name__ == "__main__":
    main()
