"""What docs/scale.md is made of: cells of sweeps over `experiments/scale/`, each a point of a cluster under one policy.

They are kept in docs/scale/. A cell that is computed again takes the place of what was kept of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from echelon.documents import scale_files
from echelon.documents.scale_files import LOADS
from echelon.documents.scale_kept import NAME, Kept, rounded
from echelon.documents.scale_points import Point
from echelon.experiment import yaml_file
from echelon.experiment.schema import Experiment
from echelon.sweeps.building import built
from echelonflow.codec import Log
from echelonflow.errors import InputError
from echelonflow.model.dag import Compute
from echelonflow.records.cells import Cell
from echelonflow.records.sweeps import SweepRecord, read_sweep
from results.analysis.cells import found_cells


class ScaleCell(msgspec.Struct, frozen=True):
    """One cell: what each of its jobs took. Lists have an entry for each job, in the order of the file."""

    gpus: int
    load: float
    placement: str
    policy: str
    took_s: float
    """Time that it took to compute."""
    paradigms: list[str]
    ranks: list[int]
    iteration_s: list[float | None]
    """Mean iteration time; None where no iteration counts."""

    @property
    def point(self) -> Point:
        """What it is compared on with other policies."""
        return self.gpus, self.load, self.placement

    @property
    def starves(self) -> bool:
        """Whether some job ends no iteration that counts."""
        return None in self.iteration_s

    @property
    def mean_s(self) -> float:
        """Mean over jobs of the mean iteration time (where none starves)."""
        return statistics.fmean(each for each in self.iteration_s if each is not None)


KEPT: Kept[ScaleCell] = Kept(
    "cells.jsonl", Log("echelon-scale-cells", 2, ScaleCell), lambda cell: (cell.point, cell.policy)
)


@dataclass(frozen=True)
class Swept:
    """What a sweep has of a cluster."""

    cells: list[ScaleCell]
    experiments: Mapping[Point, Experiment]
    """Of every point that has a cell."""


def swept_in(folder: Path) -> Swept:
    """What the sweep in a folder says (InputError where it is none, or none of `experiments/scale/`)."""
    record = read_sweep(folder)
    sizes = {scale_files.name_of(size): size.gpus for size in scale_files.SIZES}
    rates = _rates_of(record) if record.name in sizes else []
    asked = record.over.get("network.rate", [])
    if not asked or not {*asked} <= {*rates}:
        raise InputError(
            f"{folder}: a sweep of {record.name}, and not of a file in experiments/scale/; see docs/{NAME}.md"
        )
    found, cells, experiments = found_cells(folder, record), [], {}
    for planned in record.cells:
        cell = found.get(planned.name)
        if cell is None or cell.failed:
            continue
        of_point = record.points[planned.point]
        placement = str(of_point.get("placement", record.experiment["placement"]))
        point = (sizes[record.name], LOADS[rates.index(of_point["network.rate"])], placement)
        if point not in experiments:
            experiments[point] = built(record.experiment, _path_of(record), of_point, record.seeds[0], record.policies)
        cells.append(_cell(cell, point, record, experiments[point]))
    return Swept(cells, experiments)


def _cell(cell: Cell, point: Point, record: SweepRecord, experiment: Experiment) -> ScaleCell:
    ranks = [len({step.rank for step in job.dag.steps if isinstance(step, Compute)}) for job in experiment.jobs]
    return ScaleCell(
        *point,
        policy=cell.policy,
        took_s=rounded(cell.took_s),
        paradigms=[job["paradigm"] for job in record.experiment["jobs"]],
        ranks=ranks,
        iteration_s=[
            None if (one_s := job.get("iteration_s")) is None else rounded(one_s) for job in cell.jobs.values()
        ],
    )


def _path_of(record: SweepRecord) -> Path:
    return Path(record.experiment_folder) / Path(record.experiment_file).name


def _rates_of(record: SweepRecord) -> list[Any]:
    """The rates in a cluster's file at which it has the loads, in their order; those of a sweep may be some of them."""
    rates: list[Any] = yaml_file.read(_path_of(record)).data.get("sweep", {}).get("over", {}).get("network.rate", [])
    return rates if len(rates) == len(LOADS) else []
