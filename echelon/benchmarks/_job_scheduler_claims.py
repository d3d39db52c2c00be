"""What the papers of job schedulers claim, and what the grid says to it. Pure; the cells are given.

A claim is reproduced *in size* where the testbed finds as much, and *in shape* where it finds a gain of the same kind.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from echelon.benchmarks._job_scheduler_cells import FIFO, GBIT, P3, RANDOM, TAC, TUNED, WORKERS, Cell
from echelon.benchmarks._job_scheduler_figures import GAIN, communicating, ratios
from traffic.workloads.tensors import PARAMETER_SERVER

SHAPE = 0.05
"""A gain from here on is of the same kind as a larger one that is claimed."""
NEAR_LINEAR = 0.9
"""Of linear scaling, from which on it is near."""


@dataclass(frozen=True)
class Claimed:
    """What became of a claim: what the testbed finds, and why it is so."""

    here: str
    reached: bool
    in_shape: bool
    why: str
    tried: bool = True

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if not self.tried:
            return "not tried"
        return "yes" if self.reached else "in shape" if self.in_shape else "no"


@dataclass(frozen=True)
class Claim:
    """What is claimed, and how it is looked for."""

    what: str
    found: Callable[[Sequence[Cell]], Claimed]


def _largest(cells: Sequence[Cell], scheduler: str, over: str) -> tuple[float, Cell | None]:
    """The largest gain of one job scheduler over another, as a share, and where it is."""
    found = [(value - 1, cell) for cell in cells if (value := cell.speed_up(scheduler, over)) is not None]
    return max(found, key=lambda each: each[0], default=(0.0, None))


def _gain_of(cells: Sequence[Cell], scheduler: str, over: str, claimed: float, why: Callable[[Cell], str]) -> Claimed:
    gain, where = _largest(cells, scheduler, over)
    if where is None:
        return Claimed("nothing", reached=False, in_shape=False, why="no such setting was simulated", tried=False)
    return Claimed(f"up to {gain:+.0%} ({where.key.name})", gain >= claimed, gain >= SHAPE, why(where))


def _bytescheduler(cells: Sequence[Cell]) -> Claimed:
    def why(where: Cell) -> str:
        return (
            f"order alone cannot bring more than {where.ideal_speed_up - 1:+.0%} there (bound). The most comes with parameter "
            "servers and one large tensor: `fifo` pushes all of it before it pulls any, and partitions overlap the two"
        )

    return _gain_of(cells, TUNED, FIFO, 1.96, why)


def _every_bandwidth(cells: Sequence[Cell]) -> Claimed:
    sent = [cell for cell in communicating(cells) if cell.workers > 1]
    by_gbit = {gbit: ratios([cell for cell in sent if cell.gbit == gbit], TUNED, FIFO) for gbit in GBIT}
    medians = {gbit: statistics.median(values) for gbit, values in by_gbit.items() if values}
    every = all(value >= GAIN for values in by_gbit.values() for value in values)
    here = ", ".join(f"{value - 1:+.0%} at {gbit:g}" for gbit, value in medians.items()) + " Gbit/s (medians)"
    why = (
        "an iteration is at least its computation, and at least its communication. What order can hide is the smaller of "
        "the two, so the gain shrinks where one of them is all"
    )
    return Claimed(here, every, all(value >= GAIN for value in medians.values()), why)


def _near_linear(cells: Sequence[Cell]) -> Claimed:
    most = [cell for cell in cells if cell.workers == WORKERS[-1]]
    near = sum((cell.efficiency(TUNED) or 0.0) >= NEAR_LINEAR for cell in most)
    near_fifo = sum((cell.efficiency(FIFO) or 0.0) >= NEAR_LINEAR for cell in most)
    here = (
        f"{NEAR_LINEAR:.0%} or more in {near} of {len(most)} settings with {WORKERS[-1]} workers, {near_fifo} by fifo"
    )
    why = (
        "only where all bytes fit behind the computation. An H100 computes so fast that this takes more bandwidth than the "
        "papers had to have"
    )
    return Claimed(here, near == len(most), near > near_fifo, why)


def _tictac(cells: Sequence[Cell]) -> Claimed:
    def why(_: Cell) -> str:
        return "against TensorFlow's random order, as in the paper: pulls come in the order in which layers need them"

    served = [cell for cell in communicating(cells) if cell.architecture == PARAMETER_SERVER]
    return _gain_of(served, TAC, RANDOM, 0.192, why)


def _inference(cells: Sequence[Cell]) -> Claimed:
    why = "the testbed replays training; inference has pulls alone"
    return Claimed("nothing", reached=False, in_shape=False, why=why, tried=False)


def _p3(model: str, claimed: float) -> Callable[[Sequence[Cell]], Claimed]:
    def why(where: Cell) -> str:
        return (
            f"the bound allows {where.ideal_speed_up - 1:+.0%} there; slices push and pull at the same time, and the first "
            "layers overtake"
        )

    def found(cells: Sequence[Cell]) -> Claimed:
        return _gain_of([c for c in communicating(cells) if c.model == model], P3, FIFO, claimed, why)

    return found


CLAIMS = (
    Claim("ByteScheduler: up to +196 %", _bytescheduler),
    Claim("ByteScheduler: consistent speed-up in all bandwidth settings", _every_bandwidth),
    Claim("ByteScheduler: near-linear scaling", _near_linear),
    Claim("TicTac: up to +37.7 % in inference", _inference),
    Claim("TicTac: up to +19.2 % in training", _tictac),
    Claim("P3: +25 % for ResNet-50", _p3("ResNet-50", 0.25)),
    Claim("P3: +66 % for VGG-19 (here VGG-16)", _p3("VGG-16", 0.66)),
)
