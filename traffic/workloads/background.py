"""Background traffic: flows between hosts that belong to no training job, as a job whose ranks wait and send.

Each host sends by a Poisson process of its own, to another host that is drawn each time. It is one iteration: a chain of waits on
every rank, and a flow behind each. So simulator and agents replay it like any other job.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from echelonflow.bounds import MOST_STEPS, check_most
from echelonflow.errors import InputError
from echelonflow.model.dag import JobDag
from echelonflow.spelling import unknown
from traffic.workloads.dag_builder import DagBuilder

PARETO_SHAPE = 1.5
"""Of heavy-tailed sizes: the mean is finite, the variance is not."""
KIND = "background"


def background(
    rng: random.Random, *, hosts: int, load: float, link_Bps: float, size_bytes: float, sizes: str, lasts_s: float
) -> JobDag:
    """Flows between so many `hosts` (2 or more), for `lasts_s` seconds.

    Each host sends a share `load` of `link_Bps` on average, in flows of `size_bytes` on average: all of that size ("fixed"), or
    drawn from a Pareto distribution ("heavy-tailed"). Every flow is a Coflow and an EchelonFlow of its own. Raises
    InputError for values that do not fit, and where no flow comes in that time.
    """
    if hosts < 2:
        raise InputError(f"hosts: {hosts} are too few: traffic goes from one to another")
    if not 0 < load < 1:
        raise InputError(f"load: {load:.4g} is no share of a link; it lies above 0 % and below 100 %")
    if not (size_bytes >= 1 and lasts_s > 0):
        raise InputError("size and for: are to be greater than 0")
    if sizes not in SIZES:
        raise InputError(f"sizes: there is no kind {sizes!r}{unknown(sizes, SIZES)}")
    per_s = load * link_Bps / size_bytes
    check_most("flows of background traffic", int(hosts * per_s * lasts_s), MOST_STEPS // 3, {})
    builder = DagBuilder(hosts)
    for host in range(hosts):
        now_s = 0.0
        for number in itertools.count():
            wait_s = rng.expovariate(per_s)
            now_s += wait_s
            if now_s >= lasts_s:
                break
            other = rng.randrange(hosts - 1)
            waited = builder.compute(host, f"wait {host} {number}", wait_s, kind="wait")
            name = f"flow {host} {number}"
            builder.group(name, KIND)
            builder.transfer(name, host, other + (other >= host), SIZES[sizes](rng, size_bytes), name, after=(waited,))
    if builder.empty:
        raise InputError(
            f"for: no flow of {size_bytes:,.0f} bytes comes within {lasts_s:g} s at that load; make it longer"
        )
    return builder.dag({"background": sizes})


def _fixed(_: random.Random, mean_bytes: float) -> int:
    return max(1, round(mean_bytes))


def _heavy_tailed(rng: random.Random, mean_bytes: float) -> int:
    return max(1, round(mean_bytes * (PARETO_SHAPE - 1) / PARETO_SHAPE * rng.paretovariate(PARETO_SHAPE)))


SIZES: Mapping[str, Callable[[random.Random, float], int]] = MappingProxyType(
    {"fixed": _fixed, "heavy-tailed": _heavy_tailed}
)
