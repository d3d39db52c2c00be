"""DAGs with the traffic patterns of distributed training, small enough to be simulated by the hundred.

Plainer than the paradigms of `traffic`, whose options random jobs do not need, and left as they are so that the figures
of `docs/results.md` can be made again: data parallelism (ring, parameter server), FSDP, tensor and expert parallelism,
one-forward-one-backward pipelines, and DAGs without a pattern. Offsets are derived from the DAG. A ring collective is
one flow per neighbour, that all ranks wait for: what `traffic.workloads.collectives` passes on from chunk to chunk is left out.
Sizes are those of what is computed on; durations are seconds.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from echelonflow.model.dag import Compute, Group, JobDag, Step, Transfer, derived_offsets
from traffic.workloads.paradigms._stages import transfer, transfer_name

Pairs = Sequence[tuple[str, str]]


def data_parallel(
    *, ranks: int, forward_s: Sequence[float], backward_s: Sequence[float], bucket_bytes: Sequence[int]
) -> JobDag:
    """Each layer's gradients are all-reduced over a ring as soon as they are there; the next iteration waits for all.

    One duration and one bucket per layer.
    """
    layers = range(len(forward_s))
    steps: list[Step] = []
    rings = {layer: _ring_names(f"all-reduce {layer}", ranks) for layer in layers}
    for r in range(ranks):
        steps += _chain(r, [(f"f{r} {layer}", forward_s[layer]) for layer in layers])
        steps += _chain(r, [(f"b{r} {layer}", backward_s[layer]) for layer in reversed(layers)], f"f{r} {layers[-1]}")
        arrived = tuple(name for names in rings.values() for name in names)
        steps.append(Compute(f"u{r}", r, forward_s[0] / 10, (f"b{r} 0", *arrived)))
    for layer in reversed(layers):
        size = round(bucket_bytes[layer] * 2 * (ranks - 1) / ranks)
        steps += _ring(f"all-reduce {layer}", ranks, size, [f"b{r} {layer}" for r in range(ranks)])
    return _arranged(ranks, steps, [(f"u{r}", f"f{r} 0") for r in range(ranks)])


def parameter_server(
    *, ranks: int, forward_s: Sequence[float], backward_s: Sequence[float], bucket_bytes: Sequence[int]
) -> JobDag:
    """Workers 1.. push each layer's gradients to rank 0, which sends the new weights; layers wait for their own."""
    layers, workers = range(len(forward_s)), range(1, ranks)
    steps: list[Step] = []
    for w in workers:
        steps += _chain(w, [(f"f{w} {layer}", forward_s[layer]) for layer in layers])
        steps += _chain(w, [(f"b{w} {layer}", backward_s[layer]) for layer in reversed(layers)], f"f{w} {layers[-1]}")
    for layer in reversed(layers):
        push, pull, size = f"push {layer}", f"pull {layer}", bucket_bytes[layer]
        steps += [Transfer(f"{push} {w}", w, 0, size, push, push, (f"b{w} {layer}",)) for w in workers]
        pushed = tuple(f"{push} {w}" for w in workers)
        steps += [Transfer(f"{pull} {w}", 0, w, size, pull, pull, pushed) for w in workers]
    pairs = [(f"pull {layer} {w}", f"f{w} {layer}") for w in workers for layer in layers]
    pairs += [(f"b{w} 0", f"f{w} 0") for w in workers]
    return _arranged(ranks, steps, pairs)


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
    steps: list[Step] = []
    pairs: list[tuple[str, str]] = []
    for r in range(ranks):
        for k, duration_s in enumerate(durations):
            before = (f"c{r} {k - 1}",) if k else ()
            steps.append(Compute(f"c{r} {k}", r, duration_s, (*before, *gathers[k])))
        steps.append(Compute(f"u{r}", r, durations[0] / 10, (f"c{r} {2 * layers - 1}", *scatters)))
        pairs.append((f"u{r}", f"c{r} 0"))
        pairs += [(f"u{r}", gathers[k][r]) for k in range(min(ahead, 2 * layers))]
    for k in range(2 * layers):
        ready = [f"c{r} {k - ahead}" for r in range(ranks)] if k >= ahead else []
        steps += _ring(f"gather {k}", ranks, sizes[k], ready, group="gathers")
        if k >= layers:
            steps += _ring(f"scatter {k}", ranks, sizes[k], [f"c{r} {k}" for r in range(ranks)])
    return _arranged(ranks, steps, pairs)


def tensor_parallel(*, ranks: int, layer_s: Sequence[float], reduced_bytes: int) -> JobDag:
    """Every layer, forward and backward, ends with an all-reduce that the next one waits for (Megatron)."""
    steps: list[Step] = []
    passes = [*layer_s, *(2 * duration_s for duration_s in reversed(layer_s))]
    for k, duration_s in enumerate(passes):
        name = f"all-reduce {k}"
        before = _ring_names(f"all-reduce {k - 1}", ranks) if k else []
        chained = [(f"c{r} {k - 1}",) if k else () for r in range(ranks)]
        steps += [Compute(f"c{r} {k}", r, duration_s, (*chained[r], *before)) for r in range(ranks)]
        size = round(reduced_bytes * 2 * (ranks - 1) / ranks)
        steps += _ring(name, ranks, size, [f"c{r} {k}" for r in range(ranks)])
    last = _ring_names(f"all-reduce {len(passes) - 1}", ranks)
    pairs = [(name, f"c{r} 0") for r in range(ranks) for name in (*last, f"c{r} {len(passes) - 1}")]
    return _arranged(ranks, steps, pairs)


def expert_parallel(rng: random.Random, *, ranks: int, layer_s: Sequence[float], mean_bytes: int) -> JobDag:
    """Mixture of experts: each layer sends tokens to their experts and back, all to all, forward and backward.

    Experts are not equally popular, so the flows of an all-to-all differ in size; each all-to-all is one Coflow, and
    one EchelonFlow.
    """
    steps: list[Step] = []
    passes = [*layer_s, *(2 * duration_s for duration_s in reversed(layer_s))]
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    before: list[list[str]] = [[] for _ in range(ranks)]
    for k, duration_s in enumerate(passes):
        popular = [rng.uniform(0.3, 1.7) for _ in range(ranks)]
        for word, part_s in (("dispatch", duration_s / 2), ("combine", duration_s / 2)):
            name = f"{word} {k}"
            steps += [Compute(f"c{r} {name}", r, part_s, tuple(before[r])) for r in range(ranks)]
            for a, b in pairs:
                size = max(round(mean_bytes * popular[b if word == "dispatch" else a] / ranks), 1)
                steps.append(Transfer(f"{name} {a}->{b}", a, b, size, name, name, (f"c{a} {name}",)))
            before = [[f"c{r} {name}", *(f"{name} {a}->{b}" for a, b in pairs if b == r)] for r in range(ranks)]
    return _arranged(ranks, steps, [(name, f"c{r} dispatch 0") for r in range(ranks) for name in before[r]])


def one_forward_one_backward(
    *, stages: int, micro_batches: int, forward_s: Sequence[float], backward_s: Sequence[float], boundary_bytes: int
) -> JobDag:
    """A pipeline that starts a micro-batch's backward pass as early as it can (PipeDream-flush, DAPPLE)."""
    steps: list[Step] = []
    last = []
    for s in range(stages):
        before = ""
        for kind, m in _alternating(stages - s, micro_batches):
            after: tuple[str, ...] = (before,) if before else ()
            if kind == "f":
                after += (transfer_name("forward", s - 1, s, m),) if s else ()
            else:
                after += (transfer_name("backward", s + 1, s, m),) if s < stages - 1 else ()
            before = f"{kind}{s} {m}"
            steps.append(Compute(before, s, forward_s[s] if kind == "f" else backward_s[s], after))
            to = s + 1 if kind == "f" else s - 1
            if 0 <= to < stages:
                word = "forward" if kind == "f" else "backward"
                steps.append(transfer(word, s, to, m, size_bytes=boundary_bytes, after=before))
        last.append(before)
    return _arranged(stages, steps, [(last[s], f"f{s} 0") for s in range(stages)])


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
    transfers: list[Transfer] = []
    for index in range(flows):
        src, dst = rng.sample(range(ranks), 2)
        made, used = sorted(rng.sample(range(layers), 2))
        name = f"x{index}"
        transfers.append(
            Transfer(
                name, src, dst, max(round(rng.expovariate(1 / mean_bytes)), 1000), f"{src}->{dst}", name,
                (f"c{src} {made}",),
            )
        )  # fmt: skip
        wanted.setdefault((dst, used), []).append(name)
    steps: list[Step] = []
    for r in range(ranks):
        for k in range(layers):
            before = (f"c{r} {k - 1}",) if k else ()
            steps.append(
                Compute(f"c{r} {k}", r, duration_s * rng.uniform(0.5, 1.5), (*before, *wanted.get((r, k), ())))
            )
    return _arranged(ranks, [*steps, *transfers], [(f"c{r} {layers - 1}", f"c{r} 0") for r in range(ranks)])


def resized(job_dag: JobDag, factor: float) -> JobDag:
    """The same DAG with every transfer `factor` times as large (one byte at least)."""
    steps = tuple(
        dataclasses.replace(step, size_bytes=max(round(step.size_bytes * factor), 1))
        if isinstance(step, Transfer)
        else step
        for step in job_dag.steps
    )
    return dataclasses.replace(job_dag, steps=steps)


def _chain(rank: int, steps: Sequence[tuple[str, float]], before: str = "") -> list[Step]:
    """Steps of one GPU, one after the other."""
    chained: list[Step] = []
    for name, duration_s in steps:
        chained.append(Compute(name, rank, duration_s, (before,) if before else ()))
        before = name
    return chained


def _ring_names(name: str, ranks: int) -> list[str]:
    return [f"{name} {r}->{(r + 1) % ranks}" for r in range(ranks)]


def _ring(name: str, ranks: int, size_bytes: int, after: Sequence[str], group: str = "") -> list[Step]:
    """One flow per neighbour, released when its source has computed its entry of `after` (at once if empty)."""
    return [
        Transfer(flow, r, (r + 1) % ranks, size_bytes, group or name, name, (after[r],) if after else ())
        for r, flow in enumerate(_ring_names(name, ranks))
    ]


def _arranged(ranks: int, steps: Sequence[Step], next_iteration: Pairs) -> JobDag:
    """The DAG with its transfers' groups, each in the order in which it is consumed."""
    members: dict[str, list[str]] = {}
    for step in steps:
        if isinstance(step, Transfer):
            members.setdefault(step.group, []).append(step.name)
    equal = tuple(Group(name, name.split()[0], tuple(flows), (0.0,) * len(flows)) for name, flows in members.items())
    dag = JobDag(ranks, tuple(steps), equal, tuple(next_iteration))
    offsets = derived_offsets(dag)
    groups = []
    for group in equal:
        flows = tuple(sorted(group.transfers, key=offsets.__getitem__))
        groups.append(Group(group.name, group.kind, flows, tuple(offsets[name] for name in flows)))
    return dataclasses.replace(dag, groups=tuple(groups))
