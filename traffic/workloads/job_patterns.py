"""How the ranks of a traced job communicate, as the trace does not say: by a pattern that takes the network time that it says.

Bytes are such that, alone on links of a stated rate, with every rank on a host of its own, communication takes the network time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from echelonflow.errors import InputError
from echelonflow.model.dag import JobDag
from echelonflow.spelling import unknown
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.job_traces import TracedJob

Ends = Mapping[int, tuple[str, ...]]
"""For each rank, the steps after which its communication is over."""
LEAST_BYTES = 1


def dag_of(job: TracedJob, pattern: str, rate_Bps: float) -> JobDag:
    """One iteration of a traced job: each rank computes, then all communicate; `rate_Bps` is what a link carries.

    With one rank, or no network time, it computes alone. InputError for a pattern that there is not.
    """
    communicate = PATTERNS.get(pattern)
    if communicate is None:
        raise InputError(f"pattern: there is no pattern {pattern!r}{unknown(pattern, PATTERNS)}")
    ranks, sends = job.gpus, job.gpus > 1 and job.network_s > 0
    builder = DagBuilder(ranks)
    compute_s = job.iteration_s - job.network_s if sends else job.iteration_s
    computed = [builder.compute(rank, f"c{rank}", compute_s) for rank in range(ranks)]
    if sends:
        ends = communicate(builder, computed, job.network_s * rate_Bps)
        for rank, steps in ends.items():
            for step in steps:
                builder.next_iteration(step, computed[rank])
    return builder.dag({"model": job.model, "pattern": pattern})


def _ring(builder: DagBuilder, computed: list[str], sent_bytes: float) -> Ends:
    """An all-reduce by ring: each rank sends all its bytes to its neighbour."""
    ranks = len(computed)
    buffer_bytes = _whole(sent_bytes * ranks / (2 * (ranks - 1)))
    return builder.collective(
        "all-reduce",
        "all-reduce",
        "ring",
        range(ranks),
        buffer_bytes,
        [(name,) for name in computed],
        kind="all-reduce",
    )


def _all_to_all(builder: DagBuilder, computed: list[str], sent_bytes: float) -> Ends:
    """Each rank sends an equal part to every other one."""
    ranks = len(computed)
    input_bytes = _whole(sent_bytes * ranks / (ranks - 1))
    return builder.collective(
        "all-to-all",
        "all-to-all",
        "direct",
        range(ranks),
        input_bytes,
        [(name,) for name in computed],
        kind="all-to-all",
    )


def _parameter_server(builder: DagBuilder, computed: list[str], sent_bytes: float) -> Ends:
    """Rank 0 is the server, too: the others push to it, and pull from it when all have pushed. Its link is the one that binds."""
    others = range(1, len(computed))
    part_bytes = _whole(sent_bytes / (2 * len(others)))
    push, pull = builder.group("push", "ps-push"), builder.group("pull", "ps-pull")
    pushed = [builder.transfer(f"push {r}", r, 0, part_bytes, push, "push", (computed[r],)) for r in others]
    after = (*pushed, computed[0])
    pulled = {r: builder.transfer(f"pull {r}", 0, r, part_bytes, pull, "pull", after) for r in others}
    return {0: tuple(pulled.values()), **{r: (name,) for r, name in pulled.items()}}


def _whole(size_bytes: float) -> int:
    return max(LEAST_BYTES, round(size_bytes))


PATTERNS: Mapping[str, Callable[[DagBuilder, list[str], float], Ends]] = MappingProxyType(
    {"ring": _ring, "all-to-all": _all_to_all, "parameter-server": _parameter_server}
)
