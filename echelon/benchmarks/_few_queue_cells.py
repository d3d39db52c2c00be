"""What `bench few-queues` sets side by side: ways to carry a policy's decisions out, each simulated, and what is kept of it."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from controller import enforcers
from echelon.benchmarks import Say
from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelon.places import EXPERIMENTS
from echelon.running.simulated import predict
from echelonflow.codec import Log
from echelonflow.files import write_whole
from echelonflow.scheduling import folding
from results.analysis.rows import iteration_rows
from simulator.realism import EXACT

FILE = EXPERIMENTS / "few-queues.yaml"
CLASSES = (1, 2, 4, 7)
"""Data classes with the testbed's own folding; on packets there are seven."""
FEW = (1, 2)
"""Data classes with every other folding. With one class all of them are the same: nothing is left of the order, and nobody is held back."""
DRAWS = 10
"""Times that each cell is simulated, each with other draws of what computations take."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One way to carry decisions out: an enforcer with its options."""

    enforcer: str

    @property
    def name(self) -> str:
        """As `--only` takes it, and as part of a folder's name: "top-2", "weighted"."""
        kind = enforcers.name_of(self.enforcer)
        if kind != "priority":
            return kind
        classes, way = enforcers.folded_by(self.enforcer)
        return f"{way}-{classes}"

    def experiment(self, repeats: int, path: Path = FILE) -> Experiment:
        """The experiment with this enforcer on packets, and with the same in its fluid simulation."""
        return schema.load(path, {"name": f"few-queues-{self.name}", "repeats": repeats, **self._settings()})

    def _settings(self) -> dict[str, Any]:
        kind = enforcers.name_of(self.enforcer)
        fluid: dict[str, Any] = {"enforcer": kind}
        if kind == "priority":
            fluid["classes"], fluid["folding"] = enforcers.folded_by(self.enforcer)
        return {"emulation": {"enforcer": self.enforcer}, "fluid": fluid}


class FluidRun(msgspec.Struct, frozen=True):
    """One draw of one policy in one cell: mean over jobs of the mean iteration time, in seconds."""

    enforcer: str
    policy: str
    draw: int
    iteration_s: float
    unlimited_s: float
    """The same where nothing is limited (`unlimited`)."""


class PacketRun(msgspec.Struct, frozen=True):
    """One run on packets, beside fluid simulation of the same draw; the same means."""

    enforcer: str
    policy: str
    repeat: int
    iteration_s: float | None
    """None where the run did not come to its end."""
    fluid_s: float
    unlimited_s: float
    valid: bool


FLUID_LOG: Log[FluidRun] = Log("echelon-few-queues-fluid", 1, FluidRun)
PACKET_LOG: Log[PacketRun] = Log("echelon-few-queues-packets", 1, PacketRun)


def cells() -> list[Cell]:
    """All cells: the testbed's own folding first, then all others, then the enforcers that go by rates."""
    ways = [way for way in folding.names() if way != folding.DEFAULT]
    folded = [(classes, folding.DEFAULT) for classes in CLASSES]
    folded += [(classes, way) for classes in FEW for way in (ways if classes > 1 else ways[-1:])]
    texts = [f"priority(classes={classes},folding={way})" for classes, way in folded]
    return [Cell(text) for text in (*texts, "rate", enforcers.WEIGHTED)]


def simulated(chosen: Sequence[Cell], path: Path, say: Say) -> list[FluidRun]:
    """All draws of these cells; they are left in the log at `path`."""
    found: list[FluidRun] = []
    unlimited_s: dict[tuple[str, int], float] = {}  # the same for all cells
    for cell in chosen:
        say(f"{cell.name}: in fluid")
        experiment = cell.experiment(DRAWS)
        for policy, draw in itertools.product(experiment.policies, range(DRAWS)):
            if (policy, draw) not in unlimited_s:
                unlimited_s[policy, draw] = fluid_s(unlimited(experiment), policy, draw)
            iteration_s = fluid_s(experiment, policy, draw)
            found.append(FluidRun(cell.enforcer, policy, draw, iteration_s, unlimited_s[policy, draw]))
    write_whole(path, FLUID_LOG.header + b"".join(map(FLUID_LOG.line, found)))
    return found


def unlimited(experiment: Experiment) -> Experiment:
    """The same with all rates as the policy allocates them, and as many places in its order as there are."""
    return dataclasses.replace(experiment, realism=EXACT)


def fluid_s(experiment: Experiment, policy: str, draw: int) -> float:
    """Mean over jobs of the mean iteration time in fluid simulation, seconds."""
    rows = iteration_rows(predict(experiment, policy, draw), experiment.jobs)
    return mean_over_jobs_s((row.job, row.duration_s) for row in rows)


def mean_over_jobs_s(durations: Iterable[tuple[str, float]]) -> float:
    """Of durations of iterations, each with its job: the mean over jobs of the mean of theirs."""
    by_job: dict[str, list[float]] = defaultdict(list)
    for job, duration_s in durations:
        by_job[job].append(duration_s)
    return statistics.fmean(map(statistics.fmean, by_job.values()))
