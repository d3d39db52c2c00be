"""What every rank of a job sends in an iteration by textbook formula, without making the job.

From the job's entry in an experiment file and its profile alone: the second source for the bytes of `traffic.workloads.paradigms`.
Each paradigm has its formula beside it (`sent_bytes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echelon.experiment.jobs import bound_paradigm
from echelon.experiment.specs import JobSpec


def sent_bytes(entry: Mapping[str, Any], link_Bps: float) -> list[float] | None:
    """Payload bytes that each rank sends per iteration, for a job's entry in an experiment file (scaling included).

    `link_Bps` is the payload rate of the network's slowest link. None where the paradigm has no formula for this entry.
    Raises InputError for an entry that is at fault, and a model whose layers' outputs differ in size.
    """
    spec = JobSpec.model_validate(entry)
    found = bound_paradigm(spec, link_Bps).sent_bytes()
    if found is None:
        return None
    factor = 1.0 if spec.scaling is None else spec.scaling.time / spec.scaling.bandwidth
    return [size * factor for size in found]
