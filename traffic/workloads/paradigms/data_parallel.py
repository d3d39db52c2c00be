"""Gradients are all-reduced in buckets while the backward pass goes on (PyTorch DDP: Li et al., VLDB 2020).

**Dependencies.** A bucket takes layers from the last one on until it holds `bucket` bytes. It is released when its last
layer has gone backward. The update waits for all buckets. With `serial` a rank's buckets follow each other, as on one
NCCL stream.

**Arrangement.** Offsets of 0: a bucket's flows are consumed at once, by the update.
"""

from __future__ import annotations

from echelonflow.model.dag import JobDag
from echelonflow.model.discipline import Discipline
from traffic.workloads.collectives import Algorithm
from traffic.workloads.job_schedulers import JobScheduler
from traffic.workloads.paradigms._families import REPLICAS
from traffic.workloads.paradigms._layers import BUCKET_BYTES, Layers, at_least, given_layers, measured_layers
from traffic.workloads.paradigms._three_d import ThreeD, three_d
from traffic.workloads.profile import Profile
from traffic.workloads.tensors import Reduction, Setting, TensorModel, of_layers, of_profile

FAMILY = REPLICAS
EXAMPLE = {
    "ranks": 3,
    "layers": 3,
    "forward": "1 s",
    "backward": "2 s",
    "parameter": "2 s of link",
    "update": "0.3 s",
    "bucket": "1 s of link",
}


def build(
    *,
    ranks: int,
    layers: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    parameter_bytes: int | list[int],
    update_s: float | list[float] = 0.0,
    micro_batches: int = 1,
    bucket_bytes: int = BUCKET_BYTES,
    algorithm: Algorithm = "ring",
    serial: bool = False,
) -> JobDag:
    """`ranks` replicas; a bucket of gradients is all-reduced as soon as its layers have gone backward.

    Values are those of a layer, one for all or one for each: seconds, and bytes of parameters, which are as
    many as of gradients. A bucket takes layers from the last one on until it holds `bucket_bytes`. Gradients of
    `micro_batches` are summed up before they are reduced. The update waits for all buckets. With `serial` a rank's
    buckets are reduced one after the other, as on one NCCL stream; otherwise the network decides. A bucket is a
    Coflow and an EchelonFlow, with offsets of 0. Raises InputError for values that do not fit.
    """
    given = given_layers(
        layers,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        parameter_bytes=parameter_bytes,
    )
    return _dag(given, ranks, micro_batches, bucket_bytes, algorithm, serial=serial)


def from_profile(
    profile: Profile,
    *,
    ranks: int,
    micro_batches: int = 1,
    bucket_bytes: int = BUCKET_BYTES,
    algorithm: Algorithm = "ring",
    serial: bool = False,
) -> JobDag:
    """A measured model; each replica computes what was measured; otherwise as `build`."""
    return _dag(measured_layers(profile), ranks, micro_batches, bucket_bytes, algorithm, serial=serial)


def scheduled(
    scheduler: JobScheduler,
    rate_Bps: float,
    *,
    ranks: int,
    layers: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    parameter_bytes: int | list[int],
    update_s: float | list[float] = 0.0,
    algorithm: Reduction = "ring",
) -> tuple[JobDag, Discipline]:
    """As `build`, with a job scheduler, which cuts or fuses gradients itself; `rate_Bps` is what a link carries.

    `reduce-scatter` is a reduce-scatter followed by an all-gather, both by ring.
    """
    given = given_layers(
        layers,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        parameter_bytes=parameter_bytes,
    )
    return _scheduled(of_layers(given), scheduler, rate_Bps, ranks, algorithm)


def scheduled_from_profile(
    profile: Profile, scheduler: JobScheduler, rate_Bps: float, *, ranks: int, algorithm: Reduction = "ring"
) -> tuple[JobDag, Discipline]:
    """A measured model with a job scheduler; otherwise as `scheduled`."""
    return _scheduled(of_profile(profile), scheduler, rate_Bps, ranks, algorithm)


def _scheduled(
    model: TensorModel, scheduler: JobScheduler, rate_Bps: float, ranks: int, algorithm: Reduction
) -> tuple[JobDag, Discipline]:
    at_least(1, ranks=ranks)
    return scheduler.job(model, Setting(algorithm, ranks, rate_Bps=rate_Bps), {"paradigm": "data-parallel"})


def sent_bytes(profile: Profile, *, ranks: int, **_: object) -> list[float]:
    """By formula, of every rank: a ring all-reduce sends 2 (n - 1) / n of all gradients."""
    return [2 * (ranks - 1) / ranks * sum(layer.parameter_bytes for layer in profile.layers)] * ranks


def _dag(
    layers: Layers, ranks: int, micro_batches: int, bucket_bytes: int, algorithm: Algorithm, *, serial: bool
) -> JobDag:
    at_least(2, ranks=ranks)
    plan = ThreeD(
        tensor=1,
        pipeline=1,
        data=ranks,
        layers=layers,
        micro_batches=micro_batches,
        schedule="1f1b",
        chunks=1,
        forward_reduces=(0,) * layers.count,
        backward_reduces=(0,) * layers.count,
        bucket_bytes=bucket_bytes,
        tensor_algorithm=algorithm,
        data_algorithm=algorithm,
        serial=serial,
    )
    return three_d(plan, {"paradigm": "data-parallel"})
