"""Iteration times over partition and credit, computed place by place and kept: what searches are compared on.

A surface is that of a measured model on an architecture at a bandwidth, under `bytescheduler`. The job has the network to
itself, so that one worker stands for all (`simulator.alone`). Every flow starts `LATENCY_S` late: without that, the
smallest partitions would always be best, and there would be nothing to search for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import msgspec

import echelonflow
import simulator
from echelon.benchmarks import Say
from echelon.benchmarks._tuner_regret import Surface, places
from echelon.experiment.jobs import find_profile
from echelon.tuning.space import Point, Space
from echelon.tuning.trials import with_options
from echelon.tuning.tunable import common_space
from echelonflow.codec import Document
from echelonflow.digests import code_digest
from echelonflow.errors import InputError
from echelonflow.model.units import payload_rate_Bps
from simulator.alone import simulate_alone
from traffic import workloads
from traffic.workloads import job_schedulers, profile
from traffic.workloads.one_of_each import one_of_each
from traffic.workloads.tensors import PARAMETER_SERVER, Architecture, Setting, TensorModel, of_profile

MODELS = ("vgg16-b64-h100", "resnet50-b128-h100", "gpt2-small-b8-s1024-h100")
ARCHITECTURES: tuple[Architecture, ...] = (PARAMETER_SERVER, "ring")
RATES_GBPS = (10, 25, 100)
WORKERS = 4
"""And as many servers, on machines of their own."""
SIZES, CREDITS = 11, 9
ITERATIONS = 4
LATENCY_S = 100e-6
"""From the release of a flow to its first byte: a remote procedure call, or the start of a collective's kernel."""
MTU_BYTES = 1500
SCHEDULER = "bytescheduler"


@dataclass(frozen=True)
class Case:
    """One surface to compute."""

    model: str
    architecture: Architecture
    rate_gbps: int

    @property
    def name(self) -> str:
        """Such as "vgg16-b64-h100 ring 25 Gbit/s"."""
        return f"{self.model} {self.architecture} {self.rate_gbps} Gbit/s"

    @property
    def setting(self) -> Setting:
        """On what it runs."""
        rate_Bps = payload_rate_Bps(self.rate_gbps * 1e9, MTU_BYTES)
        return Setting(
            self.architecture, WORKERS, WORKERS if self.architecture == PARAMETER_SERVER else 0, rate_Bps=rate_Bps
        )

    def tensors(self) -> TensorModel:
        """The tensors of its model."""
        return of_profile(profile.read(find_profile(self.model)))

    def iteration_s(self, tensors: TensorModel, point: Point) -> float:
        """One place of the surface."""
        setting = self.setting
        plan = job_schedulers.load(with_options(SCHEDULER, point)).plan(tensors, setting)
        return simulate_alone(one_of_each(tensors, plan, setting, ITERATIONS), latency_s=LATENCY_S).iteration_s(1)


def cases() -> Iterator[Case]:
    """All surfaces."""
    for model, architecture, rate in itertools.product(MODELS, ARCHITECTURES, RATES_GBPS):
        yield Case(model, architecture, rate)


class Kept(msgspec.Struct, frozen=True):
    """Surfaces of one revision of the code."""

    code: str
    surfaces: tuple[Surface, ...]


_KEPT = Document("echelon-tuner-surfaces", 1, Kept)


def surfaces(path: Path, only: Sequence[str], say: Say) -> list[Surface]:
    """The surfaces whose names fit `only` (all, if it is empty), computed where `path` does not have them yet.

    InputError where none fits. What other code computed is computed anew.
    """
    wanted = [case for case in cases() if not only or any(fnmatch(case.name, pattern) for pattern in only)]
    if not wanted:
        raise InputError(f"--only: no surface is called so; there is: {', '.join(case.name for case in cases())}")
    code = code_digest((echelonflow, simulator, workloads))
    kept = {surface.name: surface for surface in _read(path, code)}
    for number, case in enumerate(wanted, start=1):
        if case.name in kept:
            continue
        kept[case.name] = _computed(case)
        _KEPT.write(path, Kept(code, tuple(kept.values())))
        say(f"surface {number} of {len(wanted)}: {case.name}, {kept[case.name].reach:.0%} from best to worst")
    return [kept[case.name] for case in wanted]


def _read(path: Path, code: str) -> tuple[Surface, ...]:
    if not path.exists():
        return ()
    found = _KEPT.read(path)
    return found.surfaces if found.code == code else ()


def _computed(case: Case) -> Surface:
    tensors = case.tensors()
    space = common_space([(tensors, case.setting)])
    return filled(case.name, space, lambda point: case.iteration_s(tensors, point))


def filled(
    name: str, space: Space, value_s: Callable[[Point], float], sizes: int = SIZES, windows: int = CREDITS
) -> Surface:
    """A surface whose value at every place is what `value_s` says of the point there."""
    rows: list[list[float]] = [[] for _ in range(sizes)]
    for i, _, across, up in places(sizes, windows):
        rows[i].append(value_s(space.point(across, up)))
    return Surface(name, space, tuple(map(tuple, rows)))
