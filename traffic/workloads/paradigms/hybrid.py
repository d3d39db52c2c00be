"""Tensor groups inside, a pipeline between, data parallelism outside (Narayanan et al., SC 2021).

Rank t + `tensor` (d + `data` s) has place t in its tensor group, replica d and stage s. Layers are cut into stages of
nearly equal time.

**Dependencies.** Within a stage as in tensor parallelism, between stages as in the pipeline of `schedule`: each rank
sends the whole output to its counterpart. A bucket of gradients is all-reduced among the replicas of a rank as soon as
the last micro-batch has completed it.

**Arrangement.** From the DAG for the transfers of two neighbouring ranks in one direction, 0 for collectives.
"""

from __future__ import annotations

from echelonflow.model.dag import JobDag
from traffic.workloads.collectives import Algorithm
from traffic.workloads.paradigms._families import COMBINED
from traffic.workloads.paradigms._formulas import hidden_bytes
from traffic.workloads.paradigms._layers import BUCKET_BYTES, Layers, given_layers, measured_layers
from traffic.workloads.paradigms._schedules import Schedule
from traffic.workloads.paradigms._three_d import ThreeD, three_d
from traffic.workloads.paradigms.tensor_parallel import reduces
from traffic.workloads.profile import Profile, split_into_stages

FAMILY = COMBINED
EXAMPLE = {
    "tensor": 2,
    "pipeline": 2,
    "data": 2,
    "layers": 2,
    "micro_batches": 2,
    "forward": "2 s",
    "backward": "4 s",
    "activation": "1 s of link",
    "parameter": "3 s of link",
    "all_reduces": 1,
    "update": "1 s",
}


def build(
    *,
    tensor: int,
    pipeline: int,
    data: int,
    layers: int,
    micro_batches: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    activation_bytes: int | list[int],
    parameter_bytes: int | list[int],
    update_s: float | list[float] = 0.0,
    schedule: Schedule = "1f1b",
    chunks: int = 1,
    all_reduces: int = 2,
    bucket_bytes: int = BUCKET_BYTES,
    tensor_algorithm: Algorithm = "ring",
    data_algorithm: Algorithm = "ring",
) -> JobDag:
    """`tensor` * `pipeline` * `data` ranks: rank t + tensor * (d + data * s) has place t, replica d, stage s.

    `layers` are cut into `pipeline` * `chunks` stages of nearly equal time. Values are those of a whole layer and one
    micro-batch, one for all or one for each. They are seconds of computation (of which a rank does 1 / `tensor`),
    `activation_bytes` of output, and `parameter_bytes` of parameters and so of gradients. A layer has `all_reduces`
    all-reduces of its output in its tensor group, forward and backward. Neighbouring stages send outputs from each rank
    to its counterpart. Replicas all-reduce their gradients in buckets of at least `bucket_bytes`, a bucket as soon as
    the last micro-batch has completed it. EchelonFlows: each all-reduce (offsets 0), and all transfers between two
    neighbouring ranks of the pipeline, per direction (from the DAG). Raises InputError for values that do not fit.
    """
    given = given_layers(
        layers,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        parameter_bytes=parameter_bytes,
        activation_bytes=activation_bytes,
    )
    return _dag(
        given, tensor, pipeline, data, micro_batches, schedule, chunks, all_reduces, bucket_bytes,
        tensor_algorithm, data_algorithm,
    )  # fmt: skip


def from_profile(
    profile: Profile,
    *,
    tensor: int,
    pipeline: int,
    data: int,
    micro_batches: int,
    schedule: Schedule = "1f1b",
    chunks: int = 1,
    all_reduces: int = 2,
    bucket_bytes: int = BUCKET_BYTES,
    tensor_algorithm: Algorithm = "ring",
    data_algorithm: Algorithm = "ring",
) -> JobDag:
    """A measured model on `tensor` * `pipeline` * `data` ranks; otherwise as `build`.

    A micro-batch is what the profile was measured with; a tensor group of n ranks is taken to compute n times as fast.
    """
    return _dag(
        measured_layers(profile), tensor, pipeline, data, micro_batches, schedule, chunks, all_reduces, bucket_bytes,
        tensor_algorithm, data_algorithm,
    )  # fmt: skip


def sent_bytes(
    profile: Profile,
    *,
    tensor: int,
    data: int,
    pipeline: int,
    micro_batches: int,
    all_reduces: int,
    chunks: int,
    **_: object,
) -> list[float] | None:
    """By formula, of every rank, where it holds one stage.

    Tensor groups reduce inside a stage, hidden states go between stages, gradients of a stage's share between replicas.
    """
    if chunks != 1:
        return None
    cut = split_into_stages(profile, pipeline)
    kinds = {layer.name: layer.kind for layer in profile.layers}
    found: list[float] = []
    for stage, layers in enumerate(cut.layers):
        reduces = sum(2 * all_reduces if kinds[layer] == "block" else 1 for layer in layers)
        inside = reduces * 2 * (tensor - 1) / tensor * hidden_bytes(profile)
        between = ((stage < pipeline - 1) + (stage > 0)) * hidden_bytes(profile)
        outside = 2 * (data - 1) / data * cut.parameter_bytes[stage] / tensor
        found += [micro_batches * (inside + between) + outside] * (tensor * data)
    return found


def _dag(
    layers: Layers,
    tensor: int,
    pipeline: int,
    data: int,
    micro_batches: int,
    schedule: Schedule,
    chunks: int,
    all_reduces: int,
    bucket_bytes: int,
    tensor_algorithm: Algorithm,
    data_algorithm: Algorithm,
) -> JobDag:
    forward_reduces, backward_reduces = reduces(layers, all_reduces)
    plan = ThreeD(
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        layers=layers.divided(max(tensor, 1)),
        micro_batches=micro_batches,
        schedule=schedule,
        chunks=chunks,
        forward_reduces=forward_reduces,
        backward_reduces=backward_reduces,
        bucket_bytes=bucket_bytes,
        tensor_algorithm=tensor_algorithm,
        data_algorithm=data_algorithm,
        serial=False,
    )
    return three_d(plan, {"paradigm": "hybrid"})
