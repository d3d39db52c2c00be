"""Workers pull weights and push gradients; servers hold a shard of every bucket each (Li et al., OSDI 2014).

There is one server, or several, or they are `colocated` with the first workers.

**Dependencies.** A worker's forward pass through a bucket's layers waits for its pulls from all servers. Its pushes are
released when the bucket has gone backward. A server updates a bucket when all workers have pushed it, beside its GPU's
other work. Then the bucket may be pulled for the next iteration, while others are still being pushed. What a co-located
server and its worker give each other is no flow.

**Arrangement.** Offsets of 0, for the pulls of one bucket and for the pushes of one.
"""

from __future__ import annotations

from echelonflow.errors import InputError
from echelonflow.model.dag import JobDag
from echelonflow.model.discipline import Discipline
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.job_schedulers import JobScheduler
from traffic.workloads.paradigms._families import REPLICAS
from traffic.workloads.paradigms._layers import BUCKET_BYTES, Bucket, Layers, at_least, given_layers, measured_layers
from traffic.workloads.profile import Profile
from traffic.workloads.tensors import PARAMETER_SERVER, Setting, TensorModel, of_layers, of_profile

FAMILY = REPLICAS
DRAWS_FIRST = True
COMPUTES_BESIDE = True
EXAMPLE = {
    "workers": 2,
    "servers": 1,
    "layers": 3,
    "forward": "1 s",
    "backward": "2 s",
    "parameter": "1 s of link",
    "update": "0.3 s",
    "bucket": "1 s of link",
}

PULL = "ps-pull"
PUSH = "ps-push"


def build(
    *,
    workers: int,
    servers: int = 1,
    colocated: bool = False,
    layers: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    parameter_bytes: int | list[int],
    update_s: float | list[float] = 0.0,
    bucket_bytes: int = BUCKET_BYTES,
) -> JobDag:
    """Workers are ranks 0 to `workers` - 1, servers the ranks behind them, or with `colocated` the first workers.

    Values are those of a layer, one for all or one for each. Layers go in buckets of at least `bucket_bytes`, of which
    each server holds an equal shard. In an iteration a worker pulls each bucket from all servers, needs it before its
    first layer goes forward, and pushes the gradients once that layer has gone backward. A server updates its shard
    when all workers have pushed it (a processor of its own does that, `update_s` over the servers' number). Then it may
    be pulled for the next iteration. What a co-located server and its worker give each other is no flow. The pulls of
    one bucket and the pushes of one bucket are each a Coflow and an EchelonFlow, with offsets of 0. Raises InputError
    for values that do not fit, and for more co-located servers than workers.
    """
    given = given_layers(
        layers,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        parameter_bytes=parameter_bytes,
    )
    return _dag(given, workers, servers, bucket_bytes, colocated=colocated)


def from_profile(
    profile: Profile, *, workers: int, servers: int = 1, colocated: bool = False, bucket_bytes: int = BUCKET_BYTES
) -> JobDag:
    """A measured model; each worker computes what was measured, and servers update as fast; otherwise as `build`."""
    return _dag(measured_layers(profile), workers, servers, bucket_bytes, colocated=colocated)


def scheduled(
    scheduler: JobScheduler,
    rate_Bps: float,
    *,
    workers: int,
    servers: int = 1,
    colocated: bool = False,
    layers: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    parameter_bytes: int | list[int],
    update_s: float | list[float] = 0.0,
) -> tuple[JobDag, Discipline]:
    """As `build`, with a job scheduler, which cuts or fuses tensors itself; `rate_Bps` is what a link carries.

    Pulls belong to the iteration whose pushes they follow, and the next one waits for them.
    """
    given = given_layers(
        layers,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        parameter_bytes=parameter_bytes,
    )
    return _scheduled(of_layers(given), scheduler, rate_Bps, workers, servers, colocated=colocated)


def scheduled_from_profile(
    profile: Profile,
    scheduler: JobScheduler,
    rate_Bps: float,
    *,
    workers: int,
    servers: int = 1,
    colocated: bool = False,
) -> tuple[JobDag, Discipline]:
    """A measured model with a job scheduler; otherwise as `scheduled`."""
    return _scheduled(of_profile(profile), scheduler, rate_Bps, workers, servers, colocated=colocated)


def _scheduled(
    model: TensorModel, scheduler: JobScheduler, rate_Bps: float, workers: int, servers: int, *, colocated: bool
) -> tuple[JobDag, Discipline]:
    _check_counts(workers, servers, colocated=colocated)
    setting = Setting(PARAMETER_SERVER, workers, servers, rate_Bps, colocated)
    return scheduler.job(model, setting, {"paradigm": "parameter-server"})


def sent_bytes(profile: Profile, *, workers: int, servers: int, colocated: bool, **_: object) -> list[float]:
    """By formula, of every rank: workers push the model, servers send their shard of it to every worker; not to themselves."""
    size_bytes = sum(layer.parameter_bytes for layer in profile.layers)
    if colocated:
        serves = [1 if rank < servers else 0 for rank in range(workers)]
        return [size_bytes * (1 - s / servers) + s * (workers - 1) * size_bytes / servers for s in serves]
    return [float(size_bytes)] * workers + [workers * size_bytes / servers] * servers


def _dag(layers: Layers, workers: int, servers: int, bucket_bytes: int, *, colocated: bool) -> JobDag:
    _check_counts(workers, servers, colocated=colocated)
    first_server = 0 if colocated else workers
    ranks = range(first_server, first_server + servers)
    builder = DagBuilder(max(workers, ranks.stop))
    buckets = layers.buckets(range(layers.count), bucket_bytes)
    own = servers if colocated else 0
    builder.expect(len(buckets) * (2 * (workers * servers - own) + 2 * workers + servers))
    for bucket in reversed(buckets):  # the order in which forward passes need them
        _pull(builder, bucket, workers, ranks)
    for worker in range(workers):
        _compute(builder, layers, buckets, worker, ranks)
    for bucket in buckets:
        _push(builder, bucket, workers, ranks)
        _update(builder, layers, bucket, workers, ranks)
    parameters = {"workers": workers, "servers": servers, "colocated": colocated, "bucket_bytes": bucket_bytes}
    return builder.dag({"paradigm": "parameter-server", **parameters})


def _check_counts(workers: int, servers: int, *, colocated: bool) -> None:
    at_least(1, workers=workers, servers=servers)
    if colocated and not 2 <= workers >= servers:
        raise InputError(
            f"servers: {servers} co-located with {workers} workers; there are at least 2 workers, one for each"
        )


def _name(what: str, bucket: Bucket, src: int, dst: int) -> str:
    return f"{what} b{bucket.index} {src}->{dst}"


def _shard_bytes(bucket: Bucket, server: int, servers: int) -> int:
    """Shards differ by a byte at most and add up to the bucket; none is empty."""
    return max(bucket.size_bytes * (server + 1) // servers - bucket.size_bytes * server // servers, 1)


def _pull(builder: DagBuilder, bucket: Bucket, workers: int, servers: range) -> None:
    group = builder.group(f"{PULL} b{bucket.index}", PULL)
    for k, server in enumerate(servers):
        size_bytes = _shard_bytes(bucket, k, len(servers))
        for worker in range(workers):
            needed = f"f{worker} b{bucket.index}"
            if worker != server:
                needed = builder.transfer(_name(PULL, bucket, server, worker), server, worker, size_bytes, group, group)
            builder.next_iteration(f"u{server} b{bucket.index}", needed)


def _push(builder: DagBuilder, bucket: Bucket, workers: int, servers: range) -> None:
    group = builder.group(f"{PUSH} b{bucket.index}", PUSH)
    for worker in range(workers):
        for k, server in enumerate(servers):
            if worker != server:
                name, size_bytes = _name(PUSH, bucket, worker, server), _shard_bytes(bucket, k, len(servers))
                builder.transfer(name, worker, server, size_bytes, group, group, (f"b{worker} b{bucket.index}",))


def _update(builder: DagBuilder, layers: Layers, bucket: Bucket, workers: int, servers: range) -> None:
    update_s = sum(layers.update_s[bucket.first : bucket.last + 1]) / len(servers)
    for server in servers:
        pushed = [_name(PUSH, bucket, worker, server) for worker in range(workers) if worker != server]
        own = [f"b{server} b{bucket.index}"] if server < workers else []
        builder.beside(server, f"u{server} b{bucket.index}", update_s, [*own, *pushed], "update")


def _compute(builder: DagBuilder, layers: Layers, buckets: list[Bucket], worker: int, servers: range) -> None:
    """A worker's passes, cut where a bucket is needed and where it is complete."""
    # Layers without parameters go with the bucket before them, the first ones with the first.
    ends = [layers.count, *(bucket.first for bucket in buckets)][:-1]
    spans = [
        range(bucket.first if bucket is not buckets[-1] else 0, end) for bucket, end in zip(buckets, ends, strict=True)
    ]
    for bucket, span in zip(reversed(buckets), reversed(spans), strict=True):
        pulled = [_name(PULL, bucket, server, worker) for server in servers if server != worker]
        forward_s = sum(layers.forward_s[layer] for layer in span)
        builder.compute(worker, f"f{worker} b{bucket.index}", forward_s, pulled, "forward")
    for bucket, span in zip(buckets, spans, strict=True):
        backward_s = sum(layers.backward_s[layer] for layer in span)
        builder.compute(worker, f"b{worker} b{bucket.index}", backward_s, (), "backward")
