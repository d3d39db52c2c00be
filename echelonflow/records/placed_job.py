"""A job with its hosts as plans and manifests hold it; the DAG in its own versioned form (`echelonflow.model.dag`)."""

from __future__ import annotations

from typing import Any

import msgspec

from echelonflow.model import dag
from echelonflow.model.dag import Job


class PlacedJob(msgspec.Struct, frozen=True):
    """`dag` is an echelon-job; `placement` the host of every rank."""

    name: str
    dag: dict[str, Any]
    placement: tuple[str, ...]
    iterations: int
    weight: float
    start_s: float

    @staticmethod
    def of(job: Job) -> PlacedJob:
        """The form of `job`."""
        return PlacedJob(job.name, dag.to_dict(job.dag), job.placement, job.iterations, job.weight, job.start_s)

    def job(self) -> Job:
        """The job (InputError where the DAG is malformed or does not fit its hosts)."""
        return Job(self.name, dag.from_dict(self.dag), self.placement, self.iterations, self.weight, self.start_s)
