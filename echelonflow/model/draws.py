"""Computations that take other than they should: jitter and stragglers, drawn so that a draw can be made again.

A draw depends on the seed, the repeat, the job, the rank, the iteration and the computation, and on nothing else. So
simulator, agents and analysis come to the same durations, each by itself, and all policies are compared on the same ones.
What a job *declares* stays as it is: nobody tells a scheduler what will be drawn.

What nobody can draw is how long real computations take, of a training program that runs as fast as its machine has it. Then
each run's log says it, and whoever asks of that run is told what was logged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from echelonflow.errors import InputError

if TYPE_CHECKING:
    from echelonflow.model.dag import Compute, Job
    from echelonflow.model.flow_key import FlowKey

MOST_JITTER = 10.0
"""Coefficient of variation; beyond that a lognormal's mean is made by draws that hardly ever come."""
MOST_SLOWDOWN = 1000.0
_DRAW_BYTES = 8


class Draws(msgspec.Struct, frozen=True):
    """How durations of one job's computations vary. Raises InputError for values out of range.

    Each computation takes its declared time, times a lognormal draw of median 1 whose coefficient of variation is `jitter`.
    On stragglers it takes `slowdown` times as long, besides. These are the ranks `slow_ranks`, and `slow_count` others that
    are drawn anew in every repeat.
    """

    seed: int
    jitter: float = 0.0
    slowdown: float = 1.0
    slow_ranks: tuple[int, ...] = ()
    slow_count: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.jitter <= MOST_JITTER:
            raise InputError(f"jitter is {self.jitter:.4g}; a coefficient of variation lies in 0 to {MOST_JITTER:g}")
        if not 1 <= self.slowdown <= MOST_SLOWDOWN:
            raise InputError(f"slowdown is {self.slowdown:.4g}; it must lie in 1 to {MOST_SLOWDOWN:g}")
        if self.slow_count < 0 or any(rank < 0 for rank in self.slow_ranks):
            raise InputError("stragglers are ranks from 0 on, or a number of them")

    def check(self, ranks: int) -> None:
        """InputError where a job with so many ranks lacks a straggler."""
        beyond = [rank for rank in self.slow_ranks if rank >= ranks]
        if beyond:
            raise InputError(f"stragglers: there is no rank {beyond[0]}; the job's ranks are 0 to {ranks - 1}")
        if len(set(self.slow_ranks)) + self.slow_count > ranks:
            asked = len(set(self.slow_ranks)) + self.slow_count
            raise InputError(f"stragglers: {asked} are asked for; the job has {ranks} rank{'s' * (ranks != 1)}")

    def stragglers(self, job: str, ranks: int, repeat: int) -> frozenset[int]:
        """The ranks of `job` that are slow in a repeat."""
        import random  # agents start without what most of them need not

        listed = set(self.slow_ranks)
        others = [rank for rank in range(ranks) if rank not in listed]
        drawn = random.Random(f"{self.seed}/{repeat}/{job}").sample(others, min(self.slow_count, len(others)))
        return frozenset(listed.union(drawn))


class Durations:
    """How long the computations of a job take in a repeat: as declared, unless they are drawn.

    What one `took_s` in a run, by job, iteration and step, it takes.
    """

    def __init__(self, job: Job, repeat: int, took_s: Mapping[FlowKey, float] | None = None) -> None:
        self.draws = job.draws
        self._job, self._took_s = job.name, took_s or {}
        if job.draws is None:
            return
        import hashlib
        from statistics import NormalDist

        self._normal = NormalDist()
        self._slowdown = job.draws.slowdown
        self._slow = job.draws.stragglers(job.name, job.dag.ranks, repeat)
        self._sigma = math.sqrt(math.log1p(job.draws.jitter**2))
        key = hashlib.blake2b(f"{job.draws.seed}/{repeat}".encode(), digest_size=_DRAW_BYTES)
        key.update(f"/{job.name}/".encode())
        self._key = key

    def of(self, iteration: int, step: Compute) -> float:
        """Seconds that a computation takes in an iteration."""
        if self._took_s and (took_s := self._took_s.get((self._job, iteration, step.name))) is not None:
            return took_s
        if self.draws is None:
            return step.duration_s
        factor = self._slowdown if step.rank in self._slow else 1.0
        if self._sigma > 0:
            factor *= math.exp(self._sigma * self._normal.inv_cdf(self._uniform(iteration, step)))
        return step.duration_s * factor

    def _uniform(self, iteration: int, step: Compute) -> float:
        """A draw between 0 and 1, neither included."""
        drawn = self._key.copy()
        drawn.update(f"{step.rank}/{iteration}/{step.name}".encode())
        return (int.from_bytes(drawn.digest(), "big") // 2048 + 0.5) / (1 << 8 * _DRAW_BYTES - 11)


def drawn(job: Job, repeat: int, took_s: Mapping[FlowKey, float] | None = None) -> Durations | None:
    """What the computations of a job take in a repeat; None where they take what is declared. `took_s` as for `Durations`."""
    return Durations(job, repeat, took_s) if took_s or job.draws is not None else None
