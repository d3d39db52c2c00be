"""Writes experiments/steady/: `python -m echelon.documents.steady_files`. Nothing in them is chosen for how it comes out.

Eight files have two jobs each, whose paradigms, hosts, sizes and iteration times are drawn from a seed, which is the file's
number. Two more have a parameter server whose buckets wait for their own pulls alone, across the end of the iteration, beside
a job that is drawn. Models have three equal layers. A job is made longer, computation and bytes alike, until its shortest
transfer takes `SHORTEST_S` at the hosts' rate: what is much shorter, the emulated network does not time well. All jobs have
so many iterations that they last about equally long at the pace that they can keep up together: what counts is what
happens while all run (`echelon/study/steady.py`).
"""

from __future__ import annotations

import io
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ruamel.yaml import YAML

from echelon.experiment import schema
from echelon.places import EXPERIMENTS
from echelon.study import steady
from echelonflow.files import write_whole
from echelonflow.model.clock import link_loads_s
from echelonflow.model.dag import Job, iteration_times_without_network
from echelonflow.model.network import Network

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
TIMES_MS: Mapping[str, float] = MappingProxyType({"forward": 100.0, "backward": 200.0})
SIZE_KB = 1000.0
SIZES = ("parameter", "bucket", "activation", "dispatch")
"""What jobs have before they are scaled: times by name, and one size."""
BUCKETS = {"parameter": SIZE_KB, "bucket": SIZE_KB}
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


@dataclass(frozen=True)
class _Drawn:
    """An experiment as its file says it."""

    source: dict[str, Any]

    def text(self, words: str) -> str:
        head = [
            f"# {words}.",
            "#",
            "# Paradigms, hosts, iteration times and the share of communication are drawn by chance; nothing is chosen for how it",
            f"# comes out. No transfer takes less than {SHORTEST_S * 1e3:g} ms at the hosts' rate.",
            "# Written by `python -m echelon.documents.steady_files`.",
        ]
        made = io.StringIO()
        writer = YAML()
        writer.width = 120
        writer.dump(self.source, made)
        return "\n".join(head) + "\n" + made.getvalue()


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
    _set_iterations(source)
    return _Drawn(source).text(source["title"])


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
    least, most = INTENSITY
    intensity = least * (most / least) ** rng.random()
    plain = {"name": name, **job, "placement": hosts}
    built, on = _built({"network": network, "jobs": [_scaled(plain, 1.0, 1.0) | {"iterations": 2}]})
    time = lasts_s / (1 + intensity) / iteration_times_without_network(built[0].dag, 2)[1]
    size = lasts_s * intensity / (1 + intensity) / max(link_loads_s(built[0], on).values())
    longer = max(1.0, SHORTEST_S / (size * shortest_transfer_s(built[0])))
    return _scaled(plain, time * longer, size * longer)


def _scaled(job: dict[str, Any], time: float, size: float) -> dict[str, Any]:
    """The job with times and sizes multiplied. Sizes are rounded up, so that no transfer takes less than it must."""
    times = {key: f"{value * time:.3g} ms" for key, value in job.items() if key in TIMES_MS}
    return job | times | {key: f"{math.ceil(value * size)} kB" for key, value in job.items() if key in SIZES}


def shortest_transfer_s(job: Job) -> float:
    """How long the smallest of a job's flows takes at the hosts' rate, in seconds."""
    return min(transfer.size_bytes for transfer in job.dag.transfers) * 8 / (LINK_MBIT * 1e6)


def _set_iterations(source: dict[str, Any]) -> None:
    """Give each job so many iterations that all last about equally long."""
    jobs, network = _built({**source, "jobs": [job | {"iterations": 2} for job in source["jobs"]]})
    together_s = steady.loads_of(jobs, network).together_s.tolist()
    for job, own_s in zip(source["jobs"], together_s, strict=True):
        job["iterations"] = steady.WARM_UP + math.ceil(LASTS_S / own_s)


def _built(source: dict[str, Any]) -> tuple[tuple[Job, ...], Network]:
    data = {"name": "drawn", "policies": ["fair"], **source}
    checked = schema.check(data, FOLDER / "drawn.yaml")
    return checked.jobs, checked.network


def main(folder: Path = FOLDER) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(DRAWN + CROSSING):
        write_whole(folder / f"{name_of(number)}.yaml", drawn(number))


if __name__ == "__main__":
    main()
