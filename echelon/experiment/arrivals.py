"""When jobs arrive that say no `start` of their own: drawn, or at even intervals."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Sequence

from echelon.experiment.specs import ArrivalsSpec
from echelonflow.errors import InputError, about
from echelonflow.model.dag import Job
from echelonflow.model.units import parse_duration_s


def with_arrivals(
    jobs: Sequence[Job], fixed: Collection[str], spec: ArrivalsSpec, seed: int, stretch: float
) -> list[Job]:
    """The jobs in their order, each with its arrival: the first at 0, and the others by the process that `spec` asks for.

    Jobs called in `fixed` keep their starts, and the process passes them over. A Poisson process draws the time to the next arrival
    by the spec's seed, or by that of the experiment. Time is `stretch` times as long. InputError for a time that is none.
    """
    mean_s = about("every", lambda: parse_duration_s(spec.every)) * stretch
    if not mean_s > 0:
        raise InputError(f"every: {spec.every!r} must be greater than 0")
    draw = random.Random(f"{seed if spec.seed is None else spec.seed}/arrivals")
    found, at_s = [], 0.0
    for job in jobs:
        if job.name in fixed:
            found.append(job)
            continue
        found.append(dataclasses.replace(job, start_s=at_s))
        at_s += draw.expovariate(1 / mean_s) if spec.process == "poisson" else mean_s
    return found
