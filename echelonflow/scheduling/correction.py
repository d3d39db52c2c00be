"""Which of two jobs is to go first on a link that they share: Crux's comparison of pairs, by what both declare of their iterations.

Crux (SIGCOMM '24, section 4.2) puts jobs in the order of k * I. I is the GPU intensity, which knows nothing of iterations that
overlap computation and traffic, nor of how often a job comes back. The factor k makes up for that. One job is the
reference, the one with most traffic; its factor is 1. Every other one is compared with it: which of the two is to go first,
so that most GPUs are busy?

Here both orders are followed by a model of the two jobs on one link. An iteration sends from `begin_s` on, for `load_s` alone.
It has ended when the computation has, and `rest_s` after all is sent. The job that goes first is not slowed down. The other one
gets the gaps that it leaves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from echelonflow.wire.messages import FlowClock

ROUNDS = 64
"""Iterations of the job that goes second are followed."""
SAME = 1e-6
"""Relative: use of GPUs that differs by less is equal."""


@dataclass(frozen=True)
class Burst:
    """An iteration of a job on one link, in seconds."""

    compute_s: float
    """GPU-seconds of computation."""
    iteration_s: float
    """How long an iteration takes alone."""
    begin_s: float
    """When it begins to send."""
    load_s: float
    """How long the link needs for what it sends."""
    rest_s: float
    """What is computed after all is sent."""

    @property
    def free_s(self) -> float:
        """How long the link is free between two bursts, if nobody slows the job down."""
        return max(self.iteration_s - self.load_s, 0.0)


def begin_and_rest_s(flows: Iterable[FlowClock]) -> tuple[float, float]:
    """When the flows of an iteration begin, and what is computed after the last of them: of flows that end at once, the most."""
    known = [(flow.lead_s, flow.lead_s + flow.lasts_s, flow.to_end_s) for flow in flows]
    begin_s = min((lead_s for lead_s, _, _ in known), default=0.0)
    _, rest_s = max(((end_s, rest_s) for _, end_s, rest_s in known), default=(0.0, 0.0))
    return begin_s, rest_s


@functools.lru_cache(maxsize=4096)
def goes_first(job: Burst, reference: Burst) -> int:
    """1 where more GPUs are busy if the job goes before the reference, -1 if it goes behind it, 0 where it is all the same."""
    first, second = gpus_busy(job, reference), gpus_busy(reference, job)
    if abs(first - second) <= SAME * max(first, second):
        return 0
    return 1 if first > second else -1


def gpus_busy(first: Burst, second: Burst) -> float:
    """How many GPUs of both jobs compute in the mean, where the link serves the first one first."""
    return first.compute_s / max(first.iteration_s, first.load_s) + second.compute_s / iteration_behind_s(first, second)


def iteration_behind_s(first: Burst, second: Burst) -> float:
    """The mean iteration time of a job that gets what another one leaves of a link; infinite if that is nothing.

    Both begin an iteration at once. Bursts of the first one come one period apart.
    """
    if first.free_s <= 0:
        return math.inf
    now_s = 0.0
    for _ in range(ROUNDS):
        sent_s = _sent_s(first, now_s + second.begin_s, second.load_s)
        now_s = max(now_s + second.iteration_s, sent_s + second.rest_s)
    return now_s / ROUNDS


def _sent_s(first: Burst, from_s: float, load_s: float) -> float:
    """When a load that is ready at `from_s` is through the gaps between the bursts of the first job."""
    period_s = first.iteration_s
    since_s = (from_s - first.begin_s) % period_s  # since a burst of the first job began
    if since_s < first.load_s:
        from_s += first.load_s - since_s
        since_s = first.load_s
    left_s = period_s - since_s
    if load_s <= left_s:
        return from_s + load_s
    whole, rest_s = divmod(load_s - left_s, first.free_s)
    if rest_s <= 0:  # it is through with the last gap, and not after the burst that follows
        return from_s + left_s + whole * period_s
    return from_s + left_s + whole * period_s + first.load_s + rest_s
