"""Jobs of experiment files that are drawn by chance: made as long and as communicative as was drawn, and written."""

from __future__ import annotations

import dataclasses
import io
import math
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ruamel.yaml import YAML

from echelon.experiment import schema
from echelon.places import EXPERIMENTS
from echelon.study import steady
from echelonflow.model.clock import link_loads_s
from echelonflow.model.dag import Job, iteration_times_without_network
from echelonflow.model.network import Network

TIMES_MS: Mapping[str, float] = MappingProxyType({"forward": 100.0, "backward": 200.0})
SIZE_KB = 1000.0
SIZES = ("parameter", "bucket", "activation", "dispatch")
"""What jobs have before they are scaled: times by name, and one size."""
BUCKETS = {"parameter": SIZE_KB, "bucket": SIZE_KB}


def built(source: dict[str, Any]) -> tuple[tuple[Job, ...], Network]:
    """Jobs and network of what a file would say, where paths go by destination.

    Which path a connection takes hangs on all jobs before it, and jobs are drawn one by one.
    """
    checked = schema.check({"name": "drawn", "policies": ["fair"], **source}, EXPERIMENTS / "drawn.yaml")
    return checked.jobs, dataclasses.replace(checked.network, ecmp_seed=None)


def scaled(job: dict[str, Any], time: float, size: float) -> dict[str, Any]:
    """The job with times and sizes multiplied. Sizes are rounded up, so that no transfer takes less than it must."""
    times = {key: f"{value * time:.3g} ms" for key, value in job.items() if key in TIMES_MS}
    return job | times | {key: f"{math.ceil(value * size)} kB" for key, value in job.items() if key in SIZES}


def log_uniform(rng: random.Random, least: float, most: float) -> float:
    """A number between the two; each doubling is as likely as any other."""
    return float(least * (most / least) ** rng.random())


def factors(job: Job, network: Network, lasts_s: float, intensity: float) -> tuple[float, float]:
    """What times and sizes of a job are multiplied by, for computation and communication to take `lasts_s`.

    Communication, at the job's slowest link, takes `intensity` times as long as computation. A job that sends nothing keeps
    its sizes.
    """
    time = lasts_s / (1 + intensity) / iteration_times_without_network(job.dag, 2)[1]
    sends_s = max(link_loads_s(job, network).values(), default=0.0)
    return time, lasts_s * intensity / (1 + intensity) / sends_s if sends_s else 1.0


def set_iterations(source: dict[str, Any], lasts_s: float) -> None:
    """Give each job so many iterations that all last about equally long, behind their first ones."""
    jobs, network = built({**source, "jobs": [job | {"iterations": 2} for job in source["jobs"]]})
    together_s = steady.loads_of(jobs, network).together_s.tolist()
    for job, own_s in zip(source["jobs"], together_s, strict=True):
        job["iterations"] = steady.WARM_UP + math.ceil(lasts_s / own_s)


def text_of(source: dict[str, Any], comment: Sequence[str]) -> str:
    """A file: what it says of itself, then the experiment."""
    made = io.StringIO()
    writer = YAML()
    writer.width = 120
    writer.dump(source, made)
    return "".join(f"# {line}".rstrip() + "\n" for line in comment) + made.getvalue()
