"""What a sweep has to do: points, policies and seeds, and the name of every cell.

A cell is one point, one policy and one seed. It is computed by itself, in any order and place. Policies are compared pair
by pair on the cells of the same point and seed, which differ in nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import echelonflow
import simulator
import traffic
from echelon import experiment as experiment_files
from echelon import running
from echelon.experiment.extent import check_emulation
from echelon.experiment.schema import Experiment
from echelon.experiment.settings import with_settings
from echelon.experiment.swept import MOST_CELLS, Swept
from echelon.running import simulated, yardsticks
from echelon.sweeps import building, files, fluid
from echelon.sweeps.building import built
from echelonflow.digests import code_digest
from echelonflow.errors import InputError
from echelonflow.records.sweeps import PlannedCell
from echelonflow.scheduling import user_file
from results import analysis

Backend = Literal["fluid", "emulation"]
MOST_CHECKED = 200
"""Points that are built before anything is computed; what is wrong with others is found when they are."""
_NO_MATTER = ("name", "title", "against", "repeats", "sweep", "time_unit")
"""Keys of an experiment that change nothing of what a cell computes."""
_NAME_DIGITS, _CODE_DIGITS = 16, 8


@dataclass(frozen=True)
class Sweep:
    """A checked sweep: everything that could be found wrong beforehand is right."""

    data: Mapping[str, Any]
    """The experiment file as read, with what the command line set, without its `sweep`."""
    path: Path
    """Of that file: names of files in it are relative to where it lies."""
    backend: Backend
    swept: Swept
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    against: str | None

    @property
    def name(self) -> str:
        """Of the experiment."""
        return str(self.data["name"])

    @property
    def points(self) -> list[dict[str, Any]]:
        """Every point: path to value."""
        return list(self.swept.points())

    def number_of_cells(self) -> int:
        """How many there are."""
        return self.swept.number_of_points() * len(self.policies) * len(self.seeds)


def planned(
    experiment: Experiment, over: Mapping[str, list[Any]], backend: Backend, swept: Swept | None = None
) -> Sweep:
    """The sweep of a checked experiment over the axes of its file (or `swept`) and those of `over`.

    Seeds are those that are swept, else `repeats` of them from the experiment's seed on.
    InputError where it cannot be carried out.
    """
    if experiment.trace is not None:
        raise InputError(
            f"{experiment.path}: a trace of Coflows is not swept; name its files in experiments of their own"
        )
    asked = (swept or experiment.sweep or Swept()).replaced_by(over)
    data = {key: value for key, value in experiment.source.items() if key != "sweep"}
    policies = tuple(map(user_file.absolute, asked.policies or experiment.policies))
    seeds = asked.seeds or [experiment.seed + repeat for repeat in range(experiment.repeats)]
    if experiment.against is not None and experiment.against not in policies:
        raise InputError(
            f"against: {experiment.against!r} is none of the policies that are swept: {', '.join(policies)}"
        )
    found = Sweep(data, experiment.path, backend, asked, policies, tuple(seeds), experiment.against)
    if found.number_of_cells() > MOST_CELLS:
        raise InputError(
            f"{experiment.path}: the sweep has {found.number_of_cells():,} cells, and {MOST_CELLS:,} is the most; "
            "sweep fewer values, or in parts"
        )
    _check(found)
    return found


def _check(sweep: Sweep) -> None:
    """Build the experiment with every value of every axis once, and every listed point (InputError)."""
    axes = sweep.swept.axes
    first = {path: values[0] for path, values in axes.items()}
    tried = [{**point, **first} for point in sweep.swept.listed or [{}]]
    tried += [{**tried[0], path: value} for path, values in axes.items() for value in values[1:]]
    for settings in tried[:MOST_CHECKED]:
        experiment = built(sweep.data, sweep.path, settings, sweep.seeds[0], sweep.policies)
        if sweep.backend == "emulation":
            check_emulation(experiment.network, experiment.jobs, 1, 1)


class Names:
    """Names of cells: a digest of what is computed, a hyphen, and one of the code that computes it.

    What is computed is the experiment with the cell's values, policy and seed, and what the files hold that it names.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.code = computing_code(sweep.backend)
        self._sweep = sweep
        self._files = files.Digests(sweep.path.parent)

    def of(self, settings: Mapping[str, Any], policy: str, seed: int) -> str:
        """The name of one cell."""
        data, _ = with_settings(dict(self._sweep.data), settings)
        data = {key: value for key, value in data.items() if key not in _NO_MATTER}
        data |= {"policies": [policy], "seed": seed}
        whole = {"backend": self._sweep.backend, "experiment": data, "files": self._files.named_in(data)}
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return f"{hashlib.sha256(text.encode()).hexdigest()[:_NAME_DIGITS]}-{self.code[:_CODE_DIGITS]}"


def cells(sweep: Sweep, names: Names) -> list[PlannedCell]:
    """All cells in the order in which they are made.

    Simulated: point by point, so that what builds one need do so once. Emulated: seed by seed, so that a machine that
    slows down in the course of hours slows all policies.
    """
    points = sweep.points
    found = [
        PlannedCell(names.of(settings, policy, seed), point, policy, seed)
        for point, settings in enumerate(points)
        for seed in sweep.seeds
        for policy in sweep.policies
    ]
    if sweep.backend == "emulation":
        turns = {seed: turn for turn, seed in enumerate(sweep.seeds)}
        found.sort(key=lambda cell: turns[cell.seed])
    return found


def computing_code(backend: Backend) -> str:
    """Digest of the code that computes cells, and of the profiles that come with it."""
    parts = [echelonflow, simulator, traffic, analysis, experiment_files, simulated, yardsticks, building, fluid]
    if backend == "emulation":
        import controller
        import testbed

        parts += [running, controller, testbed]
    return code_digest(parts, (".py", ".json"))
