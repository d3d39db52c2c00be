"""A job with its hosts as plans and manifests hold it; the DAG in its own versioned form (`echelonflow.model.dag`)."""

from __future__ import annotations

from typing import Any

import msgspec

from echelonflow.model import dag
from echelonflow.model.dag import Job
from echelonflow.model.discipline import Discipline
from echelonflow.model.draws import Draws


class PlacedJob(msgspec.Struct, frozen=True):
    """`dag` is an echelon-job; `placement` the host of every rank; `discipline` None where each transfer is released at once.

    `draws` is None where every computation takes what the DAG says.
    """

    name: str
    dag: dict[str, Any]
    placement: tuple[str, ...]
    iterations: int
    weight: float
    start_s: float
    discipline: Discipline | None = None
    draws: Draws | None = None
    is_background: bool = False
    after: str | None = None

    @staticmethod
    def of(job: Job) -> PlacedJob:
        """The form of `job`."""
        return PlacedJob(
            job.name,
            dag.to_dict(job.dag),
            job.placement,
            job.iterations,
            job.weight,
            job.start_s,
            job.discipline,
            job.draws,
            job.is_background,
            job.after,
        )

    def job(self) -> Job:
        """The job (InputError where the DAG is malformed, or does not fit its hosts or its discipline)."""
        return Job(
            self.name,
            dag.from_dict(self.dag),
            self.placement,
            self.iterations,
            self.weight,
            self.start_s,
            self.discipline,
            self.draws,
            self.is_background,
            self.after,
        )
