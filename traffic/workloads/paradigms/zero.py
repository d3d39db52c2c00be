"""ZeRO-1 and ZeRO-2: a rank updates 1/n of the weights and gives them to the others (Rajbhandari et al., SC 2020).

**Dependencies.** Buckets of gradients are reduce-scattered, with `stage: 2` each when it is complete, with `stage: 1`
all after the backward pass. A rank updates its share when all have arrived. Then it all-gathers the new weights, which
the next iteration waits for.

**Arrangement.** Offsets of 0.
"""

from __future__ import annotations

from typing import Literal

from echelonflow.model.dag import JobDag
from traffic.workloads.collectives import Algorithm, flows_of
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.paradigms._families import REPLICAS
from traffic.workloads.paradigms._layers import BUCKET_BYTES, Layers, at_least, given_layers, measured_layers
from traffic.workloads.profile import Profile

FAMILY = REPLICAS
EXAMPLE = {
    "ranks": 3,
    "layers": 3,
    "forward": "1 s",
    "backward": "2 s",
    "parameter": "1.5 s of link",
    "update": "1 s",
    "bucket": "1 s of link",
}

SCATTER = "zero-reduce-scatter"
GATHER = "zero-all-gather"


def build(
    *,
    ranks: int,
    layers: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    parameter_bytes: int | list[int],
    update_s: float | list[float] = 0.0,
    stage: Literal[1, 2] = 2,
    bucket_bytes: int = BUCKET_BYTES,
    algorithm: Algorithm = "ring",
) -> JobDag:
    """`ranks` replicas, each of which updates 1 / `ranks` of the weights and gives them to the others.

    Values are those of a layer, one for all or one for each. Gradients are reduce-scattered in buckets of at least
    `bucket_bytes`. With stage 2 that is as soon as a bucket is complete; with stage 1, which keeps all gradients, once
    the whole backward pass is over. Each rank then updates its share, for 1 / `ranks` of `update_s`, and all-gathers
    the new weights, bucket by bucket, before the next iteration. Every collective is a Coflow and an EchelonFlow with
    offsets of 0. Raises InputError for values that do not fit.
    """
    given = given_layers(
        layers,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        parameter_bytes=parameter_bytes,
    )
    return _dag(given, ranks, stage, bucket_bytes, algorithm)


def from_profile(
    profile: Profile,
    *,
    ranks: int,
    stage: Literal[1, 2] = 2,
    bucket_bytes: int = BUCKET_BYTES,
    algorithm: Algorithm = "ring",
) -> JobDag:
    """A measured model; each replica computes what was measured; otherwise as `build`."""
    return _dag(measured_layers(profile), ranks, stage, bucket_bytes, algorithm)


def sent_bytes(profile: Profile, *, ranks: int, **_: object) -> list[float]:
    """By formula, of every rank: gradients scattered once, weights gathered once, 2 (n - 1) / n of the model."""
    return [2 * (ranks - 1) / ranks * sum(layer.parameter_bytes for layer in profile.layers)] * ranks


def _dag(layers: Layers, ranks: int, stage: int, bucket_bytes: int, algorithm: Algorithm) -> JobDag:
    at_least(2, ranks=ranks)
    builder = DagBuilder(ranks)
    everyone = range(ranks)
    buckets = layers.buckets(range(layers.count), bucket_bytes)
    flows = flows_of("reduce-scatter", algorithm, ranks) + flows_of("all-gather", algorithm, ranks)
    builder.expect(ranks * (len(buckets) + 3) + len(buckets) * flows)
    for rank in everyone:
        builder.compute(rank, f"f{rank}", sum(layers.forward_s), (), "forward")
    end, complete = layers.count, []
    for bucket in buckets:
        first = 0 if bucket is buckets[-1] else bucket.first
        backward_s, end = sum(layers.backward_s[first:end]), first
        complete.append(
            [builder.compute(rank, f"b{rank} b{bucket.index}", backward_s, (), "backward") for rank in everyone]
        )
    for bucket, own in zip(buckets, complete, strict=True):
        ready = [(name,) for name in (own if stage == 2 else complete[-1])]
        name = f"{SCATTER} b{bucket.index}"
        done = builder.collective(name, "reduce-scatter", algorithm, everyone, bucket.size_bytes, ready, kind=SCATTER)
        for rank in everyone:
            builder.hold(rank, done[rank])
    update = [builder.compute(rank, f"u{rank}", layers.all_update_s / ranks, (), "update") for rank in everyone]
    for bucket in reversed(buckets):
        name, ready = f"{GATHER} b{bucket.index}", [(step,) for step in update]
        done = builder.collective(name, "all-gather", algorithm, everyone, bucket.size_bytes, ready, kind=GATHER)
        for rank in everyone:
            builder.hold(rank, done[rank])
    for rank in everyone:
        builder.compute(rank, f"ready{rank}", 0.0, (), "update")
    return builder.dag({"paradigm": "zero", "ranks": ranks, "stage": stage, "bucket_bytes": bucket_bytes})
