"""Local SGD: replicas train by themselves for some micro-batches, then average their weights (Stich, ICLR 2019).

**Dependencies.** A rank goes forward and backward through its micro-batches without waiting for anybody. The all-reduce of
the weights waits for the last of them. The next iteration waits for the averaged weights.

**Arrangement.** Offsets of 0: all averaged weights are needed at once.
"""

from __future__ import annotations

from echelonflow.model.dag import JobDag
from traffic.workloads.collectives import Algorithm
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.paradigms._layers import at_least

EXAMPLE = {"ranks": 3, "micro_batches": 2, "forward": "1 s", "backward": "2 s", "parameter": "3 s of link"}


def build(
    *,
    ranks: int,
    micro_batches: int,
    forward_s: float,
    backward_s: float,
    parameter_bytes: int,
    update_s: float = 0.0,
    algorithm: Algorithm = "ring",
) -> JobDag:
    """`ranks` replicas of a model of `parameter_bytes`; times are those of a micro-batch (InputError for too few)."""
    at_least(2, ranks=ranks)
    at_least(1, micro_batches=micro_batches)
    builder = DagBuilder(ranks)
    ended = []
    for rank in range(ranks):
        for m in range(micro_batches):
            builder.compute(rank, f"f{rank} m{m}", forward_s, (), "forward")
            done = builder.compute(rank, f"b{rank} m{m}", backward_s, (), "backward")
        ended.append((done,))
    averaged = builder.collective(
        "average", "all-reduce", algorithm, range(ranks), parameter_bytes, ended, kind="average"
    )
    for rank in range(ranks):
        builder.compute(rank, f"u{rank}", update_s, averaged[rank], "update")
    return builder.dag({"paradigm": "local-sgd", "ranks": ranks, "micro_batches": micro_batches})


def sent_bytes(*, ranks: int, parameter_bytes: int, **_: object) -> list[float]:
    """By formula, of every rank: a ring all-reduce sends 2 (n - 1) / n of the weights."""
    return [2 * (ranks - 1) / ranks * parameter_bytes] * ranks
