"""Finds out when jobs of large clusters end, for docs/scale.md: `python -m echelon.documents.scale_ends [GPUS ...]`.

The clusters of `experiments/scale/` are simulated again, to the end of every job: a sweep says nothing of jobs of which no iteration
counts. What is found is kept in docs/scale/, and `python -m echelon.documents.scale_page` shows it.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from echelon.documents import scale_files
from echelon.documents.scale_kept import FOLDER, Kept, rounded
from echelon.documents.scale_points import Point, cluster_of
from echelon.running.simulated import predict
from echelonflow.codec import Log
from echelonflow.errors import InputError
from results.analysis.blame import ends_by_job_s


class EndedCell(msgspec.Struct, frozen=True):
    """How long the jobs of one point took under one policy."""

    gpus: int
    load: float
    placement: str
    policy: str
    completion_s: list[float]
    """From each job's start to the end of its last iteration, in the order of the file."""

    @property
    def point(self) -> Point:
        """What it is compared on with other policies."""
        return self.gpus, self.load, self.placement

    @property
    def mean_s(self) -> float:
        """Mean over jobs."""
        return statistics.fmean(self.completion_s)


KEPT: Kept[EndedCell] = Kept(
    "ends.jsonl", Log("echelon-scale-ends", 1, EndedCell), lambda cell: (cell.point, cell.policy)
)


def found_in(gpus: int, folder: Path = scale_files.FOLDER) -> Iterator[EndedCell]:
    """All points of the cluster of so many GPUs under all policies of its file; InputError where there is no such cluster."""
    cluster = cluster_of(gpus, folder)
    for point in cluster.points():
        experiment = cluster.experiment(point, cluster.data["policies"])
        for policy in experiment.policies:
            ends = ends_by_job_s(predict(experiment, policy), experiment.jobs)
            took_s = [rounded(ends[job.name][-1] - job.start_s) for job in experiment.jobs]
            yield EndedCell(*point, policy, took_s)


def main(sizes: Iterable[int], folder: Path = FOLDER) -> None:
    """Find it out for clusters of these `sizes`; what is kept of others stays."""
    for gpus in sizes:
        found = []
        for cell in found_in(gpus):
            found.append(cell)
            print(
                f"{gpus} GPUs, load {cell.load:g}, {cell.placement}, {cell.policy}: {cell.mean_s:.1f} s",
                file=sys.stderr,
            )
        KEPT.add(found, folder)


if __name__ == "__main__":
    try:
        main([int(name) for name in sys.argv[1:]] or [scale_files.SIZES[0].gpus])
    except (InputError, ValueError) as error:
        sys.exit(str(error))
