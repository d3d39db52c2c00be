"""Fully sharded, ZeRO-3: a layer's weights are gathered just before it goes forward, and again before it goes backward (Zhao et al., VLDB 2023).

**Dependencies.** Computation k waits for gather k. Gather k may start when computation k - `window` is over (2: one
layer ahead, as PyTorch does; 1: no prefetching). A layer's gradients are reduce-scattered when it has gone backward. The
update waits for all, the next iteration for the update.

**Arrangement.** The gathers of an iteration are one EchelonFlow. From the DAG, their offsets are when each is needed;
with `arrangement: eq7` they are those of the paper's equation 7. The two differ where layers differ, and at the turn:
there C_n follows on C_n-1 after T_fwd in the DAG, and after T_bwd in equation 7. Scatters have offsets of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from echelonflow.model import arrangement as arrangements
from echelonflow.model.dag import JobDag
from traffic.workloads.collectives import Algorithm, flows_of
from traffic.workloads.dag_builder import DagBuilder, Rule
from traffic.workloads.paradigms._families import REPLICAS
from traffic.workloads.paradigms._layers import Layers, at_least, given_layers, measured_layers
from traffic.workloads.profile import Profile

FAMILY = REPLICAS
EXAMPLE = {"ranks": 3, "layers": 3, "forward": "1 s", "backward": "2 s", "parameter": "2 s of link", "update": "0.6 s"}

GATHER = "fsdp-all-gather"
SCATTER = "fsdp-reduce-scatter"

Arrangement = Literal["derived", "eq7"]


def build(
    *,
    ranks: int,
    layers: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    parameter_bytes: int | list[int],
    update_s: float | list[float] = 0.0,
    window: int = 2,
    arrangement: Arrangement = "derived",
    algorithm: Algorithm = "ring",
) -> JobDag:
    """`ranks` ranks that hold 1 / `ranks` of every layer, and gather it whole before it goes forward and backward.

    Values are those of a layer, one for all or one for each. The 2 n all-gathers of n layers (C_0 .. C_2n-1 in the
    paper) are one EchelonFlow, each of them a Coflow. Gather k may start once computation k - `window` has ended, so at
    most `window` layers are whole or under way (1: no prefetching; 2: PyTorch's default). A layer's gradients are
    reduce-scattered once it has gone backward: a Coflow and an EchelonFlow, offsets 0. Each rank then updates its
    share, for 1 / `ranks` of `update_s`, before the first gathers of the next iteration. Offsets of the gathers are
    derived from the DAG, or with `arrangement="eq7"` those of the paper's equation 7 with the mean times of a layer.
    They differ where layers differ, and at the turn, where C_n follows on C_n-1 after one forward, not backward, time.
    Raises InputError for values that do not fit.
    """
    given = given_layers(
        layers,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        parameter_bytes=parameter_bytes,
    )
    return _dag(given, ranks, window, arrangement, algorithm)


def from_profile(
    profile: Profile,
    *,
    ranks: int,
    window: int = 2,
    arrangement: Arrangement = "derived",
    algorithm: Algorithm = "ring",
) -> JobDag:
    """A measured model, every layer of it a unit that is gathered; otherwise as `build`."""
    return _dag(measured_layers(profile), ranks, window, arrangement, algorithm)


def sent_bytes(profile: Profile, *, ranks: int, **_: object) -> list[float]:
    """By formula, of every rank: weights gathered twice, gradients scattered once, 3 (n - 1) / n of the model."""
    return [3 * (ranks - 1) / ranks * sum(layer.parameter_bytes for layer in profile.layers)] * ranks


def _dag(layers: Layers, ranks: int, window: int, arrangement: Arrangement, algorithm: Algorithm) -> JobDag:
    at_least(2, ranks=ranks)
    at_least(1, window=window)
    n = layers.count
    builder = DagBuilder(ranks)
    sized = sum(map(bool, layers.parameter_bytes))
    gather, scatter = (flows_of(what, algorithm, ranks) for what in ("all-gather", "reduce-scatter"))
    builder.expect(ranks * (2 * n + 2) + sized * (2 * gather + scatter))
    gathers_of: dict[str, int] = {}
    gathers = builder.group(GATHER, GATHER, _rule(layers, arrangement, gathers_of))
    everyone = range(ranks)
    scattered: list[list[str]] = [[] for _ in everyone]
    for rank in everyone:
        builder.compute(rank, _computation(-1, rank), 0.0, (), "forward")  # the first gathers wait for it
    for k, layer in enumerate([*range(n), *reversed(range(n))]):
        size_bytes = layers.parameter_bytes[layer]
        if size_bytes:
            ready = [(_computation(max(k - window, -1), rank),) for rank in everyone]
            done = builder.collective(f"{GATHER} {k}", "all-gather", algorithm, everyone, size_bytes, ready, gathers)
            gathers_of.update({flow: k for flows in done.values() for flow in flows})
            for rank in everyone:
                builder.hold(rank, done[rank])
        forward = k < n
        duration_s = (layers.forward_s if forward else layers.backward_s)[layer]
        ended = [
            builder.compute(rank, _computation(k, rank), duration_s, (), "forward" if forward else "backward")
            for rank in everyone
        ]
        if size_bytes and not forward:
            name, ready = f"{SCATTER} {layer}", [(step,) for step in ended]
            done = builder.collective(name, "reduce-scatter", algorithm, everyone, size_bytes, ready, kind=SCATTER)
            for rank in everyone:
                scattered[rank].extend(done[rank])
    for rank in everyone:
        builder.compute(rank, f"u{rank}", layers.all_update_s / ranks, scattered[rank], "update")
    return builder.dag({"paradigm": "fsdp", "ranks": ranks, "window": window, "arrangement": arrangement})


def _computation(k: int, rank: int) -> str:
    """Computations 0 .. n-1 go forward, n .. 2n-1 backward; k is also the gather before it. -1 begins the iteration."""
    return f"c{k} r{rank}" if k >= 0 else f"begin r{rank}"


def _rule(layers: Layers, arrangement: Arrangement, gathers_of: dict[str, int]) -> Rule:
    """Offsets of the gathers; `gathers_of` says, by the time that it is asked, which gather a flow belongs to."""
    if arrangement == "derived":
        return "derived"
    forward_s, backward_s = sum(layers.forward_s) / layers.count, sum(layers.backward_s) / layers.count
    of_gather = arrangements.fsdp(layers.count, forward_s, backward_s)

    def offsets(flows: Sequence[str]) -> list[float]:
        return [of_gather[gathers_of[flow]] for flow in flows]

    return offsets
