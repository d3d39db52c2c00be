"""Every layer is split over all ranks, which all-reduce its outputs, forward and backward (Megatron-LM, 2019).

**Dependencies.** An all-reduce blocks all ranks: it waits for the part of the layer before it, and the next part waits
for it. There are `all_reduces` in a layer and direction: Megatron-LM has 2, the paper's Fig. 5 has 1. Times are those of
the whole layer, of which a rank computes 1/n.

**Arrangement.** Offsets of 0. Alone, only one EchelonFlow is ever in flight.
"""

from __future__ import annotations

from echelonflow.model.dag import JobDag
from traffic.workloads.collectives import Algorithm
from traffic.workloads.paradigms._families import SPLIT_LAYERS
from traffic.workloads.paradigms._formulas import blocks, hidden_bytes
from traffic.workloads.paradigms._layers import BUCKET_BYTES, Layers, at_least, given_layers, measured_layers
from traffic.workloads.paradigms._three_d import ThreeD, three_d
from traffic.workloads.profile import Profile

FAMILY = SPLIT_LAYERS
EXAMPLE = {"ranks": 2, "layers": 2, "forward": "4 s", "backward": "8 s", "activation": "1 s of link", "update": "1 s"}


def build(
    *,
    ranks: int,
    layers: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    activation_bytes: int | list[int],
    update_s: float | list[float] = 0.0,
    micro_batches: int = 1,
    all_reduces: int = 2,
    algorithm: Algorithm = "ring",
) -> JobDag:
    """`ranks` ranks that hold 1 / `ranks` of every layer; each all-reduce blocks all of them.

    Seconds are those of a whole layer and micro-batch, of which a rank computes 1 / `ranks`; `activation_bytes` is what is
    all-reduced. A layer has `all_reduces` of them forward and as many backward, each after an equal part of its
    computation. Megatron-LM has 2, after attention and after the MLP; the paper's Fig. 5 has 1. Each is a Coflow and an
    EchelonFlow, with offsets of 0. Raises InputError for values that do not fit.
    """
    given = given_layers(
        layers,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        activation_bytes=activation_bytes,
    )
    return _dag(given, ranks, micro_batches, all_reduces, algorithm)


def from_profile(
    profile: Profile, *, ranks: int, micro_batches: int = 1, all_reduces: int = 2, algorithm: Algorithm = "ring"
) -> JobDag:
    """A measured model; `ranks` ranks are taken to compute a layer `ranks` times as fast as the one measured.

    Blocks have `all_reduces` in either direction; the embedding, split by its vocabulary, has one forward, and the head
    one backward.
    """
    return _dag(measured_layers(profile), ranks, micro_batches, all_reduces, algorithm)


def sent_bytes(profile: Profile, *, ranks: int, all_reduces: int, micro_batches: int, **_: object) -> list[float]:
    """By formula, of every rank: all-reduces of the hidden state, so many a block and direction.

    There is one more of the embedding, and one of the head.
    """
    reduces = 2 * all_reduces * len(blocks(profile)) + 2
    return [reduces * micro_batches * 2 * (ranks - 1) / ranks * hidden_bytes(profile)] * ranks


def reduces(layers: Layers, all_reduces: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many all-reduces each layer has in a tensor group, forward and backward, by its kind."""
    forward = tuple({"embedding": 1, "head": 0}.get(kind, all_reduces) for kind in layers.kind)
    backward = tuple({"embedding": 0, "head": 1}.get(kind, all_reduces) for kind in layers.kind)
    return forward, backward


def _dag(layers: Layers, ranks: int, micro_batches: int, all_reduces: int, algorithm: Algorithm) -> JobDag:
    at_least(2, ranks=ranks)
    at_least(1, all_reduces=all_reduces)
    forward_reduces, backward_reduces = reduces(layers, all_reduces)
    plan = ThreeD(
        tensor=ranks,
        pipeline=1,
        data=1,
        layers=layers.divided(ranks),
        micro_batches=micro_batches,
        schedule="1f1b",
        chunks=1,
        forward_reduces=forward_reduces,
        backward_reduces=backward_reduces,
        bucket_bytes=BUCKET_BYTES,
        tensor_algorithm=algorithm,
        data_algorithm=algorithm,
        serial=False,
    )
    return three_d(plan, {"paradigm": "tensor-parallel"})
