"""One cell of the grid of job schedulers: a model on so many workers and such links, under every job scheduler.

Everything here is fluid simulation of the job alone (`simulator.alone`), in the clock of the profile: no scaling.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from echelon.experiment.jobs import find_profile
from echelon.tuning import methods
from echelon.tuning.space import Point, Space
from echelon.tuning.trials import with_options
from echelonflow.codec import Log
from echelonflow.model.units import payload_rate_Bps
from simulator.alone import simulate_alone
from traffic.workloads import job_schedulers, profile
from traffic.workloads.job_schedulers import bytescheduler
from traffic.workloads.one_of_each import bound, one_of_each
from traffic.workloads.tensors import PARAMETER_SERVER, Architecture, Setting, TensorModel, TensorPlan, of_profile

MODELS = {"VGG-16": "vgg16-b64-h100", "ResNet-50": "resnet50-b128-h100", "BERT-large": "bert-large-b32-s512-h100"}
"""Model to its measured profile."""
ARCHITECTURES: tuple[Architecture, ...] = (PARAMETER_SERVER, "ring")
WORKERS = (1, 2, 4, 8)
GBIT = (1, 10, 25, 40, 100)
MTU_BYTES = 1500
ITERATIONS, SKIPPED = 3, 2
"""The first iteration waits for nothing, and may be sent in another order. Those behind it are all alike: nothing is on its
way when the last layer goes forward, since the layers before it wait for all that was sent."""
SAMPLES = 15
"""As many as ByteScheduler's tuner takes."""
METHOD = "gp"
LESS, MORE = 4, 16
"""Around the default: ByteScheduler's own tuner goes to the same upper ends, and begins at larger sizes."""
LATENCY_S = 100e-6
"""What each transfer may cost at its start, beside nothing at all: an assumption, where a real cluster has round trips."""

FIFO, DDP, RANDOM, P3, TIC, TAC, DEAR, BYTESCHEDULER = (
    "fifo", "ddp", "random", "p3", "tic", "tac", "dear", "bytescheduler",
)  # fmt: skip
AS_WRITTEN = (FIFO, DDP, RANDOM, P3, TIC, TAC, DEAR, BYTESCHEDULER)
"""Those that are used without options, where they go with the architecture."""
WITH_LATENCY = (FIFO, DDP, BYTESCHEDULER)
"""Those of them that are simulated with latency too."""
TUNED, TUNED_FAITHFUL = "bytescheduler, tuned", "bytescheduler, tuned, faithful"
PASS_THROUGH, PASS_THROUGH_TUNED = "bytescheduler, nothing reordered", "bytescheduler, tuned, nothing reordered"


class Result(msgspec.Struct, frozen=True):
    """How long an iteration takes under one job scheduler, and what that was told where it was tuned."""

    scheduler: str
    """One of `AS_WRITTEN`, or one of the labels above."""
    iteration_s: float
    point: Point | None = None
    """Partition and credit; None for one that was not tuned, or which the tuner leaves off since `fifo` is no slower."""


class Cell(msgspec.Struct, frozen=True):
    """Seconds of an iteration; `latency_s` is what each transfer costs at its start."""

    model: str
    architecture: str
    workers: int
    gbit: float
    latency_s: float
    compute_s: float
    communication_s: float
    least_s: float
    """The ideal overlap bound."""
    took_s: float
    """How long simulating it took, all of it."""
    results: tuple[Result, ...]

    @property
    def key(self) -> Key:
        return Key(self.model, self.architecture, self.workers, self.gbit, self.latency_s)

    @property
    def intensity(self) -> float:
        """Communication as a share of computation."""
        return self.communication_s / self.compute_s

    def iteration_s(self, scheduler: str) -> float | None:
        """How long an iteration takes under this one; None where it does not go with the architecture."""
        return next((result.iteration_s for result in self.results if result.scheduler == scheduler), None)

    def speed_up(self, scheduler: str, over: str = FIFO) -> float | None:
        """How many times as fast one is as another; None where one of them has no result."""
        slow_s, fast_s = self.iteration_s(over), self.iteration_s(scheduler)
        return None if slow_s is None or fast_s is None else slow_s / fast_s

    @property
    def left_off(self) -> bool:
        """Whether the tuner found nothing that is faster than `fifo`."""
        return any(result.scheduler == TUNED and result.point is None for result in self.results)

    @property
    def ideal_speed_up(self) -> float:
        """What ideal overlap would bring over fifo."""
        slow_s = self.iteration_s(FIFO)
        assert slow_s is not None  # fifo goes with everything
        return slow_s / self.least_s

    def efficiency(self, scheduler: str) -> float | None:
        """The share of linear scaling that is left: all workers together against as many that need no network."""
        found_s = self.iteration_s(scheduler)
        return None if found_s is None else self.compute_s / found_s


class Key(msgspec.Struct, frozen=True, order=True):
    """Which cell it is."""

    model: str
    architecture: str
    workers: int
    gbit: float
    latency_s: float

    @property
    def name(self) -> str:
        """Such as "vgg-16-ring-8-100g"; with latency, "-latency" behind it."""
        model, architecture = self.model.lower(), "ps" if self.architecture == PARAMETER_SERVER else self.architecture
        return f"{model}-{architecture}-{self.workers}-{self.gbit:g}g" + ("-latency" if self.latency_s else "")


CELLS: Log[Cell] = Log("echelon-job-scheduler-cells", 1, Cell)


def all_keys() -> list[Key]:
    """Every cell of the grid, those with most workers first, and of these alone some with latency."""
    parts = ((0.0, WORKERS[-1:]), (LATENCY_S, WORKERS[-1:]), (0.0, WORKERS[:-1]))
    return [
        Key(model, architecture, workers, gbit, latency_s)
        for latency_s, numbers in parts
        for model, architecture, workers, gbit in itertools.product(MODELS, ARCHITECTURES, numbers, GBIT)
    ]


@cache
def model_of(name: str) -> TensorModel:
    """The tensors of a model, as measured."""
    return of_profile(profile.read(find_profile(MODELS[name])))


def setting_of(key: Key) -> Setting:
    """On what it runs: there are as many servers as workers, each on a host of its own."""
    rate_Bps = payload_rate_Bps(key.gbit * 1e9, MTU_BYTES)
    architecture = next(known for known in ARCHITECTURES if known == key.architecture)
    return Setting(architecture, key.workers, key.workers if architecture == PARAMETER_SERVER else 0, rate_Bps)


def measure(key: Key) -> Cell:
    """Simulate one cell under every job scheduler, tuned and untuned."""
    begun_s = time.monotonic()
    results = tuple(_results(key))
    ideal = bound(model_of(key.model), setting_of(key))
    took_s = time.monotonic() - begun_s
    return Cell(
        key.model, key.architecture, key.workers, key.gbit, key.latency_s,
        ideal.compute_s, ideal.communication_s, ideal.least_s, took_s, results,
    )  # fmt: skip


def measured_one(key: Key, text: str) -> float:
    """How long an iteration takes in one cell under one job scheduler, as it is written."""
    return _iteration_s(key, job_schedulers.load(text).plan(model_of(key.model), setting_of(key)))


def tuned(key: Key, space: Space) -> dict[Point, float]:
    """How long an iteration takes at all that the tuner tries in one cell, and at the default where the space has it."""
    search = methods.begin(METHOD, space, samples=SAMPLES, seed=0)
    default = Point(bytescheduler.PARTITION_BYTES, bytescheduler.CREDIT_BYTES)
    found = {}
    if space.point(*space.place(default)) == default:
        found[default] = _at(key, default, "fixed")
    for _ in range(SAMPLES):
        point = search.ask()
        found[point] = _at(key, point, "fixed")
        search.tell(point, found[point])
    return found


def _results(key: Key) -> Iterator[Result]:
    model, setting = model_of(key.model), setting_of(key)
    for text in WITH_LATENCY if key.latency_s else AS_WRITTEN:
        scheduler = job_schedulers.load(text)
        if setting.architecture in scheduler.architectures:
            yield Result(text, measured_one(key, text))
    default = job_schedulers.load(BYTESCHEDULER).plan(model, setting)
    yield Result(PASS_THROUGH, _iteration_s(key, unordered(default)))
    # A tuner that believes its partitions to have an effect tries the same points, and takes the best of what it sees.
    fixed = tuned(key, space_of(model))
    faithful = {point: _at(key, point, "faithful") for point in fixed}
    best = min(fixed, key=fixed.__getitem__)
    off_s = measured_one(key, FIFO)
    yield _or_off(TUNED, best, fixed[best], off_s)
    best_faithful = min(faithful, key=faithful.__getitem__)
    yield _or_off(TUNED_FAITHFUL, best_faithful, faithful[best_faithful], off_s)
    yield Result(PASS_THROUGH_TUNED, _iteration_s(key, unordered(_plan(key, best, "fixed"))), best)


def _or_off(label: str, best: Point, best_s: float, off_s: float) -> Result:
    """What a tuner ends with that has also left the job scheduler off, as `echelon tune` does."""
    return Result(label, best_s, best) if best_s < off_s else Result(label, off_s)


def _iteration_s(key: Key, plan: TensorPlan) -> float:
    one = one_of_each(model_of(key.model), plan, setting_of(key), ITERATIONS)
    return simulate_alone(one, latency_s=key.latency_s).iteration_s(SKIPPED)


def _plan(key: Key, point: Point, form: str) -> TensorPlan:
    scheduler = job_schedulers.load(with_options(f"{BYTESCHEDULER}(form={form})", point))
    return scheduler.plan(model_of(key.model), setting_of(key))


def _at(key: Key, point: Point, form: str) -> float:
    return _iteration_s(key, _plan(key, point, form))


def space_of(model: TensorModel) -> Space:
    """Where the tuner looks: from a quarter to 16 times the default, as far as the model has so many bytes."""
    usual = (bytescheduler.PARTITION_BYTES, bytescheduler.CREDIT_BYTES)
    most = (model.largest_bytes, model.total_bytes)
    low_high = [(size // LESS, min(size * MORE, most_bytes)) for size, most_bytes in zip(usual, most, strict=True)]
    return Space(*low_high)


def unordered(plan: TensorPlan) -> TensorPlan:
    """The same units and window, but first come, first served: what is left of it is what it costs."""
    units = tuple(dataclasses.replace(unit, priority=0, first_priority=None) for unit in plan.units)
    return dataclasses.replace(plan, units=units)


def read_cells(path: Path) -> list[Cell]:
    """The cells in a log; none where there is none (InputError for lines that are no cells)."""
    return list(CELLS.read(path))
