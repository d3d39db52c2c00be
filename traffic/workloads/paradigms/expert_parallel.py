"""Every so many layers are split into experts, to which tokens travel and from which they come back (GShard, 2020; Switch Transformers, JMLR 2022).

Ranks have their own samples. Every `expert_every`-th layer has experts. Tokens are spread evenly.

**Dependencies.** A layer with experts computes 1 - `expert_share` of its time, sends its tokens (all-to-all of
`dispatch` bytes), computes the rest, and gets them back; backward in reverse. All-to-alls block. Gradients of what is no
expert are all-reduced as in data parallelism. With `parameter` 0 (`gradients: false` for a profile) the iteration is one
of many micro-batches between two updates.

**Arrangement.** Offsets of 0.
"""

from __future__ import annotations

import dataclasses

from echelonflow.errors import InputError
from echelonflow.model.dag import JobDag
from traffic.workloads.collectives import Algorithm, flows_of
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.paradigms._families import SPLIT_LAYERS
from traffic.workloads.paradigms._formulas import blocks, hidden_bytes
from traffic.workloads.paradigms._layers import BUCKET_BYTES, Layers, at_least, given_layers, measured_layers
from traffic.workloads.profile import Profile

FAMILY = SPLIT_LAYERS
EXAMPLE = {"ranks": 3, "layers": 2, "forward": "3 s", "backward": "6 s", "dispatch": "2 s of link", "expert_every": 2}

EXPERT_SHARE = 2 / 3
"""Of a transformer layer's computation and parameters, what its MLP has: 8 of 12 h^2."""
DP_KIND = "dp-all-reduce"


def build(
    *,
    ranks: int,
    layers: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    dispatch_bytes: int | list[int],
    parameter_bytes: int | list[int] = 0,
    update_s: float | list[float] = 0.0,
    expert_share: float = EXPERT_SHARE,
    expert_every: int = 1,
    bucket_bytes: int = BUCKET_BYTES,
    algorithm: Algorithm = "direct",
) -> JobDag:
    """`ranks` ranks with their own samples; every `expert_every`-th layer has experts, spread evenly over the ranks.

    Values are those of a layer and one rank's samples, one for all or one for each. A layer with experts computes 1 -
    `expert_share` of its time, sends its tokens to their experts, computes the rest, and gets them back; backward the
    same in reverse. Sending and getting back is an all-to-all each, of `dispatch_bytes`: what a rank's tokens with all
    their copies weigh. Tokens are taken to be spread evenly. All-to-alls block; each is a Coflow and an EchelonFlow
    with offsets of 0. Gradients of what is not an expert are all-reduced in buckets along a ring, overlapped with the
    backward pass. They have `parameter_bytes` (0 by default: one of many micro-batches between two updates). Raises
    InputError for values that do not fit.
    """
    given = given_layers(
        layers,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        parameter_bytes=parameter_bytes,
        activation_bytes=dispatch_bytes,
    )
    return _dag(given, ranks, expert_share, expert_every, bucket_bytes, algorithm)


def from_profile(
    profile: Profile,
    *,
    ranks: int,
    top_k: int = 1,
    expert_share: float = EXPERT_SHARE,
    expert_every: int = 2,
    gradients: bool = True,
    bucket_bytes: int = BUCKET_BYTES,
    algorithm: Algorithm = "direct",
) -> JobDag:
    """A measured model, the MLPs of whose every `expert_every`-th block are experts (GShard: 2); otherwise as `build`.

    A token goes to `top_k` experts, and an expert computes as long as the MLP that was measured, for each. With
    `gradients` false, the iteration is one of many micro-batches between two updates: nothing is reduced or updated.
    """
    at_least(1, top_k=top_k)
    layers = measured_layers(profile)
    return _dag(layers, ranks, expert_share, expert_every, bucket_bytes, algorithm, top_k=top_k, gradients=gradients)


def sent_bytes(
    profile: Profile, *, ranks: int, expert_every: int, top_k: int, expert_share: float, gradients: bool, **_: object
) -> list[float]:
    """By formula, of every rank: four all-to-alls a block with experts, (n - 1) / n of the tokens each.

    Gradients of what is no expert go by ring.
    """
    experts = blocks(profile)[expert_every - 1 :: expert_every]
    tokens = 4 * len(experts) * hidden_bytes(profile) * top_k * (ranks - 1) / ranks
    dense = sum(layer.parameter_bytes for layer in profile.layers)
    dense_bytes = dense - expert_share * sum(block.parameter_bytes for block in experts)
    return [tokens + (2 * (ranks - 1) / ranks * dense_bytes if gradients else 0.0)] * ranks


def _dag(
    layers: Layers,
    ranks: int,
    expert_share: float,
    expert_every: int,
    bucket_bytes: int,
    algorithm: Algorithm,
    *,
    top_k: int = 1,
    gradients: bool = True,
) -> JobDag:
    at_least(2, ranks=ranks)
    at_least(1, expert_every=expert_every)
    if not 0 < expert_share < 1:
        raise InputError(f"expert_share: {expert_share} of a layer; it lies between 0 and 1")
    return _Maker(layers, ranks, expert_share, expert_every, bucket_bytes, algorithm, top_k, gradients=gradients).dag()


class _Maker:
    """Passes of all ranks side by side; computation is collected until something has to be sent."""

    def __init__(
        self,
        layers: Layers,
        ranks: int,
        expert_share: float,
        expert_every: int,
        bucket_bytes: int,
        algorithm: Algorithm,
        top_k: int,
        *,
        gradients: bool,
    ) -> None:
        self._layers, self._ranks, self._algorithm = layers, range(ranks), algorithm
        self._share, self._top_k, self._gradients = expert_share, top_k, gradients
        blocks = [layer for layer, kind in enumerate(layers.kind) if kind == "block"]
        self._experts = set(blocks[expert_every - 1 :: expert_every])
        if not self._experts:
            raise InputError(f"expert_every: {expert_every} leaves none of {len(blocks)} layers with experts")
        dense_bytes = tuple(
            round(size * (1 - expert_share)) if layer in self._experts else size
            for layer, size in enumerate(layers.parameter_bytes)
        )
        dense = dataclasses.replace(layers, parameter_bytes=dense_bytes)
        self._buckets = dense.buckets(range(layers.count), bucket_bytes) if gradients else []
        self._builder = DagBuilder(ranks)
        self._pending_s = 0.0
        self._segments = 0

    def dag(self) -> JobDag:
        layers, builder, ranks = self._layers, self._builder, len(self._ranks)
        exchanges = 4 * len(self._experts)
        gradients = len(self._buckets) * flows_of("all-reduce", "ring", ranks)
        flows = exchanges * flows_of("all-to-all", self._algorithm, ranks) + gradients
        builder.expect(flows + ranks * (exchanges + len(self._buckets) + 3))
        for layer in range(layers.count):
            self._layer(layer, layers.forward_s[layer], "forward")
        self._flush("forward")
        complete = {bucket.first: bucket for bucket in self._buckets}
        reduced: list[list[str]] = [[] for _ in self._ranks]
        for layer in reversed(range(layers.count)):
            self._layer(layer, layers.backward_s[layer], "backward")
            if layer in complete:
                ready = [(step,) for step in self._flush("backward")]
                name, size_bytes = f"{DP_KIND} b{complete[layer].index}", complete[layer].size_bytes
                done = builder.collective(name, "all-reduce", "ring", self._ranks, size_bytes, ready, kind=DP_KIND)
                for rank in self._ranks:
                    reduced[rank].extend(done[rank])
        self._flush("backward")
        for rank in self._ranks:
            builder.compute(rank, f"u{rank}", layers.all_update_s * self._gradients, reduced[rank], "update")
        return builder.dag(
            {"paradigm": "expert-parallel", "ranks": len(self._ranks), "expert_share": self._share,
             "expert_layers": sorted(self._experts), "top_k": self._top_k, "gradients": self._gradients}
        )  # fmt: skip

    def _layer(self, layer: int, duration_s: float, kind: str) -> None:
        """One layer in one direction: going backward, what went out last comes in first."""
        if layer not in self._experts:
            self._pending_s += duration_s
            return
        dense_s, expert_s = duration_s * (1 - self._share), duration_s * self._share * self._top_k
        size_bytes = self._layers.activation_bytes[layer] * self._top_k
        there, back = ("dispatch", "combine") if kind == "forward" else ("combine", "dispatch")
        self._pending_s += dense_s if kind == "forward" else 0.0
        self._all_to_all(f"ep-{kind} {there} {layer}", size_bytes, kind)
        self._pending_s += expert_s
        self._all_to_all(f"ep-{kind} {back} {layer}", size_bytes, kind)
        self._pending_s += 0.0 if kind == "forward" else dense_s

    def _all_to_all(self, name: str, size_bytes: int, kind: str) -> None:
        ready = [(step,) for step in self._flush(kind)]
        done = self._builder.collective(
            name, "all-to-all", self._algorithm, self._ranks, size_bytes, ready, kind=f"ep-{kind}"
        )
        for rank in self._ranks:
            self._builder.hold(rank, done[rank])

    def _flush(self, kind: str) -> list[str]:
        """Let all ranks compute what has been collected; the computations, by rank."""
        duration_s, self._pending_s = self._pending_s, 0.0
        self._segments += 1
        return [self._builder.compute(rank, f"c{self._segments} r{rank}", duration_s, (), kind) for rank in self._ranks]
