"""The points of the clusters in `experiments/scale/`: each a load and a placement, and the experiment that it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelon.documents import scale_files
from echelon.documents.scale_files import LOADS
from echelon.experiment import yaml_file
from echelon.experiment.schema import Experiment
from echelon.sweeps.building import built
from echelonflow.errors import InputError

NO_SEED = 0
"""Nothing else in these clusters is drawn when they are simulated."""
Point = tuple[int, float, str]
"""GPUs, load and placement."""


@dataclass(frozen=True)
class Cluster:
    """What the file of one cluster says."""

    gpus: int
    path: Path
    data: dict[str, Any]
    """Without what is swept over."""
    rates: dict[float, Any]
    """By load."""
    placements: Sequence[str]

    def points(self) -> Iterator[Point]:
        """All loads of the first placement, then those of the next one."""
        return ((self.gpus, load, placement) for placement in self.placements for load in self.rates)

    def experiment(self, point: Point, policies: Sequence[str]) -> Experiment:
        """What is simulated there under some policies."""
        _, load, placement = point
        settings = {"network.rate": self.rates[load], "placement": placement}
        return built(self.data, self.path, settings, NO_SEED, policies)


def cluster_of(gpus: int, folder: Path = scale_files.FOLDER) -> Cluster:
    """The cluster of so many GPUs; InputError where there is none."""
    sizes = {size.gpus: size for size in scale_files.SIZES}
    if gpus not in sizes:
        raise InputError(f"there is no cluster of {gpus} GPUs; there are {', '.join(map(str, sizes))}")
    path = folder / f"{scale_files.name_of(sizes[gpus])}.yaml"
    data: dict[str, Any] = dict(yaml_file.read(path).data)
    over = data.pop("sweep")["over"]
    rates = dict(zip(LOADS, over["network.rate"], strict=True))
    return Cluster(gpus, path, data, rates, over.get("placement", [data["placement"]]))
