"""DAGs with the traffic patterns of distributed training, small enough to be simulated by the hundred.

Plainer than the paradigms of `traffic`, whose options random jobs do not need, and left as they are so that the figures
of `docs/results.md` can be made again. Data parallelism (ring, parameter server), FSDP, tensor and expert parallelism,
one-forward-one-backward pipelines, and DAGs without a pattern. Offsets are derived from the DAG. A ring collective is
one flow per neighbour, that all ranks wait for: what `traffic.workloads.collectives` passes on from chunk to chunk is
left out. Sizes are those of what is computed on; durations are seconds.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from echelonflow.model.dag import JobDag, Transfer
from traffic.workloads.dag_builder import DagBuilder


def data_parallel(
    *, ranks: int, forward_s: Sequence[float], backward_s: Sequence[float], bucket_bytes: Sequence[int]
) -> JobDag:
    """Each layer's gradients are all-reduced over a ring as soon as they are there; the next iteration waits for all.

    One duration and one bucket per layer.
    """
    layers = range(len(forward_s))
    builder = DagBuilder(ranks)
    arrived = [name for layer in layers for name in _ring_names(f"all-reduce {layer}", ranks)]
    for r in range(ranks):
        _forward_and_backward(builder, r, forward_s, backward_s)
        builder.compute(r, f"u{r}", forward_s[0] / 10, arrived)
    for layer in reversed(layers):
        size = round(bucket_bytes[layer] * 2 * (ranks - 1) / ranks)
        _ring(builder, f"all-reduce {layer}", ranks, size, [f"b{r} {layer}" for r in range(ranks)])
    return builder.dag({})


def parameter_server(
    *, ranks: int, forward_s: Sequence[float], backward_s: Sequence[float], bucket_bytes: Sequence[int]
) -> JobDag:
    """Workers 1.. push each layer's gradients to rank 0, which sends the new weights; layers wait for their own."""
    layers, workers = range(len(forward_s)), range(1, ranks)
    builder = DagBuilder(ranks)
    for w in workers:
        _forward_and_backward(builder, w, forward_s, backward_s)
    for layer in reversed(layers):
        push, pull, size = f"push {layer}", f"pull {layer}", bucket_bytes[layer]
        for w in workers:
            _flow(builder, f"{push} {w}", w, 0, size, push, push, [f"b{w} {layer}"])
        pushed = [f"{push} {w}" for w in workers]
        for w in workers:
            _flow(builder, f"{pull} {w}", 0, w, size, pull, pull, pushed)
    for w in workers:
        for layer in layers:
            builder.next_iteration(f"pull {layer} {w}", f"f{w} {layer}")
    for w in workers:
        builder.next_iteration(f"b{w} 0", f"f{w} 0")
    return builder.dag({})


def fsdp(
    *, ranks: int, forward_s: Sequence[float], backward_s: Sequence[float], layer_bytes: Sequence[int], ahead: int
) -> JobDag:
    """Fully sharded data parallelism: 2n all-gathers, `ahead` of them before they are needed; reduce-scatters after.

    The all-gathers of an iteration are one EchelonFlow, each a Coflow; a layer's reduce-scatter is a Coflow.
    """
    layers = len(forward_s)
    durations = [*forward_s, *reversed(backward_s)]
    sizes = [round(size * (ranks - 1) / ranks) for size in (*layer_bytes, *reversed(layer_bytes))]
    gathers = [_ring_names(f"gather {k}", ranks) for k in range(2 * layers)]
    scatters = [name for k in range(layers, 2 * layers) for name in _ring_names(f"scatter {k}", ranks)]
    builder = DagBuilder(ranks)
    for r in range(ranks):
        for k, duration_s in enumerate(durations):
            builder.compute(r, f"c{r} {k}", duration_s, gathers[k])
        builder.compute(r, f"u{r}", durations[0] / 10, scatters)
        builder.next_iteration(f"u{r}", f"c{r} 0")
        for k in range(min(ahead, 2 * layers)):
            builder.next_iteration(f"u{r}", gathers[k][r])
    for k in range(2 * layers):
        ready = [f"c{r} {k - ahead}" for r in range(ranks)] if k >= ahead else []
        _ring(builder, f"gather {k}", ranks, sizes[k], ready, group="gathers")
        if k >= layers:
            _ring(builder, f"scatter {k}", ranks, sizes[k], [f"c{r} {k}" for r in range(ranks)])
    return builder.dag({})


def tensor_parallel(*, ranks: int, layer_s: Sequence[float], reduced_bytes: int) -> JobDag:
    """Every layer, forward and backward, ends with an all-reduce that the next one waits for (Megatron)."""
    builder = DagBuilder(ranks)
    passes = [*layer_s, *(2 * duration_s for duration_s in reversed(layer_s))]
    size = round(reduced_bytes * 2 * (ranks - 1) / ranks)
    reduced: list[str] = []
    for k, duration_s in enumerate(passes):
        done = [builder.compute(r, f"c{r} {k}", duration_s, reduced) for r in range(ranks)]
        reduced = _ring(builder, f"all-reduce {k}", ranks, size, done)
    for r in range(ranks):
        for name in (*reduced, f"c{r} {len(passes) - 1}"):
            builder.next_iteration(name, f"c{r} 0")
    return builder.dag({})


def expert_parallel(rng: random.Random, *, ranks: int, layer_s: Sequence[float], mean_bytes: int) -> JobDag:
    """Mixture of experts: each layer sends tokens to their experts and back, all to all, forward and backward.

    Experts are not equally popular, so the flows of an all-to-all differ in size; each all-to-all is one Coflow, and
    one EchelonFlow.
    """
    builder = DagBuilder(ranks)
    passes = [*layer_s, *(2 * duration_s for duration_s in reversed(layer_s))]
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    arrived: list[list[str]] = [[] for _ in range(ranks)]
    last = [""] * ranks
    for k, duration_s in enumerate(passes):
        popular = [rng.uniform(0.3, 1.7) for _ in range(ranks)]
        for word, part_s in (("dispatch", duration_s / 2), ("combine", duration_s / 2)):
            name = f"{word} {k}"
            last = [builder.compute(r, f"c{r} {name}", part_s, arrived[r]) for r in range(ranks)]
            for a, b in pairs:
                size = max(round(mean_bytes * popular[b if word == "dispatch" else a] / ranks), 1)
                _flow(builder, f"{name} {a}->{b}", a, b, size, name, name, [last[a]])
            arrived = [[f"{name} {a}->{b}" for a, b in pairs if b == r] for r in range(ranks)]
    for r in range(ranks):
        for name in (last[r], *arrived[r]):
            builder.next_iteration(name, f"c{r} dispatch 0")
    return builder.dag({})


def one_forward_one_backward(
    *, stages: int, micro_batches: int, forward_s: Sequence[float], backward_s: Sequence[float], boundary_bytes: int
) -> JobDag:
    """A pipeline that starts a micro-batch's backward pass as early as it can (PipeDream-flush, DAPPLE)."""
    builder = DagBuilder(stages)
    for s in range(stages):
        for kind, m in _alternating(stages - s, micro_batches):
            word, source, to = ("forward", s - 1, s + 1) if kind == "f" else ("backward", s + 1, s - 1)
            needed = [f"{word} {source}->{s} m{m}"] if 0 <= source < stages else []
            done = builder.compute(s, f"{kind}{s} {m}", forward_s[s] if kind == "f" else backward_s[s], needed)
            if 0 <= to < stages:
                name = f"{word} {s}->{to} m{m}"
                _flow(builder, name, s, to, boundary_bytes, f"{word} {s}->{to}", name, [done])
    return builder.dag({})


def _alternating(warm: int, micro_batches: int) -> list[tuple[str, int]]:
    """The steps of a stage that runs `warm` forward passes ahead (the last stage one)."""
    ahead = min(warm, micro_batches)
    order = [("f", m) for m in range(ahead)]
    for m in range(micro_batches):
        order.append(("b", m))
        if m + ahead < micro_batches:
            order.append(("f", m + ahead))
    return order


def layered(rng: random.Random, *, ranks: int, layers: int, flows: int, duration_s: float, mean_bytes: int) -> JobDag:
    """A DAG without a pattern: every rank computes `layers` steps, `flows` transfers lead to later layers.

    The transfers from one rank to another are one EchelonFlow, each a Coflow of its own.
    """
    wanted: dict[tuple[int, int], list[str]] = {}
    sent: list[tuple[str, int, int, int, int]] = []
    for index in range(flows):
        src, dst = rng.sample(range(ranks), 2)
        made, used = sorted(rng.sample(range(layers), 2))
        name = f"x{index}"
        sent.append((name, src, dst, max(round(rng.expovariate(1 / mean_bytes)), 1000), made))
        wanted.setdefault((dst, used), []).append(name)
    builder = DagBuilder(ranks)
    for r in range(ranks):
        for k in range(layers):
            builder.compute(r, f"c{r} {k}", duration_s * rng.uniform(0.5, 1.5), wanted.get((r, k), ()))
    for name, src, dst, size_bytes, made in sent:
        _flow(builder, name, src, dst, size_bytes, f"{src}->{dst}", name, [f"c{src} {made}"])
    return builder.dag({})


def resized(job_dag: JobDag, factor: float) -> JobDag:
    """The same DAG with every transfer `factor` times as large (one byte at least)."""
    steps = tuple(
        dataclasses.replace(step, size_bytes=max(round(step.size_bytes * factor), 1))
        if isinstance(step, Transfer)
        else step
        for step in job_dag.steps
    )
    return dataclasses.replace(job_dag, steps=steps)


def _forward_and_backward(
    builder: DagBuilder, rank: int, forward_s: Sequence[float], backward_s: Sequence[float]
) -> None:
    """All layers of `rank` forward, then backward from the last one on."""
    for layer, duration_s in enumerate(forward_s):
        builder.compute(rank, f"f{rank} {layer}", duration_s)
    for layer in reversed(range(len(forward_s))):
        builder.compute(rank, f"b{rank} {layer}", backward_s[layer])


def _ring_names(name: str, ranks: int) -> list[str]:
    return [f"{name} {r}->{(r + 1) % ranks}" for r in range(ranks)]


def _ring(
    builder: DagBuilder, name: str, ranks: int, size_bytes: int, after: Sequence[str], group: str = ""
) -> list[str]:
    """One flow per neighbour, released when its source has computed its entry of `after` (at once if empty)."""
    names = _ring_names(name, ranks)
    for r, flow in enumerate(names):
        _flow(builder, flow, r, (r + 1) % ranks, size_bytes, group or name, name, after[r : r + 1])
    return names


def _flow(
    builder: DagBuilder, name: str, src: int, dst: int, size_bytes: int, group: str, coflow: str, after: Sequence[str]
) -> None:
    """A flow whose group's offsets are derived; its kind is the first word of its name."""
    builder.transfer(
        name, src, dst, size_bytes, builder.group(group, group.split(maxsplit=1)[0], "derived"), coflow, after
    )
