"""Bounds what any scheduler can do on large clusters, for docs/scale.md: `python -m echelon.documents.scale_bounds [GPUS ...]`.

No simulation is needed: bounds follow from the clusters of `experiments/scale/`, their jobs, and the paths of their connections.
They are kept in docs/scale/, and `python -m echelon.documents.scale_page` shows them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from echelon.documents import scale_files
from echelon.documents.scale_kept import FOLDER, Kept, rounded
from echelon.documents.scale_points import Point, cluster_of
from echelon.experiment.schema import Experiment
from echelonflow.codec import Log
from echelonflow.errors import InputError
from echelonflow.scheduling.bounds import pace_bound
from echelonflow.scheduling.steady import least_loads_of

BASIS = "fair"
"""The experiment is built for some policy; bounds hold for all."""


class PointBound(msgspec.Struct, frozen=True):
    """Of one point of a cluster: each job alone, and what all of them cannot be below in steady state."""

    gpus: int
    load: float
    placement: str
    alone_s: list[float]
    """Least iteration time of each job alone, in the order of the file."""
    mean_s: float
    """No scheduler has a smaller mean over jobs of their mean iteration times."""
    slowdown: float
    """Nor a smaller mean over jobs of iteration time over `alone_s`."""
    gap: float
    """By how much, as a share, the wider of the two may be too low: iteration times that links allow come as near."""

    @property
    def point(self) -> Point:
        """What it bounds."""
        return self.gpus, self.load, self.placement


KEPT: Kept[PointBound] = Kept("bounds.jsonl", Log("echelon-scale-bounds", 1, PointBound), lambda bound: bound.point)


def bound_of(experiment: Experiment, point: Point) -> PointBound:
    """The bounds of one point."""
    loads = least_loads_of(experiment.jobs, experiment.network)
    of_times, of_slowdowns = pace_bound(loads), pace_bound(loads, 1.0 / loads.iteration_s)
    return PointBound(
        *point,
        alone_s=[*map(rounded, loads.iteration_s)],
        mean_s=rounded(of_times.least),
        slowdown=rounded(of_slowdowns.least),
        gap=float(f"{max(of_times.gap, of_slowdowns.gap, 0.0):.2g}"),
    )


def found_in(gpus: int, folder: Path = scale_files.FOLDER) -> Iterator[PointBound]:
    """The bounds of all points of the cluster of so many GPUs (InputError where there is no such cluster)."""
    cluster = cluster_of(gpus, folder)
    for point in cluster.points():
        yield bound_of(cluster.experiment(point, [BASIS]), point)


def main(sizes: Iterable[int], folder: Path = FOLDER) -> None:
    """Find the bounds of clusters of these `sizes`; what is kept of others stays."""
    for gpus in sizes:
        found = []
        for each in found_in(gpus):
            found.append(each)
            print(f"{gpus} GPUs, load {each.load:g}, {each.placement}: {each.slowdown:.2f}", file=sys.stderr)
        KEPT.add(found, folder)


if __name__ == "__main__":
    try:
        main([int(name) for name in sys.argv[1:]] or [size.gpus for size in scale_files.SIZES])
    except (InputError, ValueError) as error:
        sys.exit(str(error))
