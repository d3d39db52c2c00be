"""Small jobs whose own transfers are held back: layers, one after the other, and a collective or a server for each."""

from __future__ import annotations

from dataclasses import dataclass

from echelonflow.job_scheduling.comm_task import CommTask
from echelonflow.model.dag import Compute, Group, Job, JobDag, Step, Transfer
from echelonflow.model.discipline import Discipline, TaskSpec, Window
from traffic.workloads.collectives import expand

ALGORITHMS = ("parameter-server", "ring", "ring-steps", "tree", "halving-doubling", "direct")


@dataclass(frozen=True)
class Layer:
    forward_s: float
    backward_s: float
    size_bytes: int


def layered(
    layers,
    *,
    algorithm="ring",
    workers=2,
    partition_bytes=1 << 62,
    barrier=False,
    late_ends=False,
    window=None,
    priority=lambda layer: layer,
    iterations=1,
    hosts=None,
):
    """A job of `workers` ranks, and one for the server where there is one; a `window` makes it a job with a discipline.

    Forward of a layer waits for what carries that layer, or with a `barrier` for all. A task is a partition on a rank.
    With `late_ends` it ends when the rank has all of that partition, else when it has sent its part.
    """
    steps: list[Step] = []
    tasks: list[TaskSpec] = []
    groups: list[Group] = []
    next_iteration: list[tuple[str, str]] = []
    for rank in range(workers):
        steps += _passes(layers, rank)
    for at, layer in enumerate(layers):
        for part in CommTask(f"l{at}", layer.size_bytes).partition(partition_bytes):
            after = [[f"b{rank} {at}"] for rank in range(workers)]
            if algorithm == "parameter-server":
                transfers, done = _served(part.name, part.size_bytes, workers, after)
                steps.append(Compute(f"u {part.name}", workers, 0.0, tuple(t.name for t in transfers[:workers])))
            else:
                expansion = expand(
                    part.name, "all-reduce", algorithm, ranks=range(workers), size_bytes=part.size_bytes, after=after
                )
                transfers, done = list(expansion.transfers), expansion.done
            steps += transfers
            names = tuple(t.name for t in transfers)
            groups.append(Group(part.name, "unit", names, (0.0,) * len(names)))
            for rank in sorted({t.src_rank for t in transfers}):
                own = tuple(t.name for t in transfers if t.src_rank == rank)
                late = () if rank >= workers else tuple({*own, *done[rank]})
                size_bytes = sum(t.size_bytes for t in transfers if t.src_rank == rank)
                tasks.append(
                    TaskSpec(part.name, rank, size_bytes, priority(at), own, tuple(sorted(late)) if late_ends else ())
                )
            for rank in range(workers):
                next_iteration += [(name, f"f{rank} {0 if barrier else at}") for name in done[rank]]
    ranks = workers + (algorithm == "parameter-server")
    dag = JobDag(ranks, tuple(steps), tuple(groups), tuple(next_iteration))
    hosts = hosts or tuple(f"h{rank + 1}" for rank in range(ranks))
    discipline = None if window is None else Discipline("test", window, tuple(tasks))
    return Job("j", dag, tuple(hosts), iterations, discipline=discipline)


def _passes(layers, rank):
    names = [f"f{rank} {at}" for at in range(len(layers))] + [f"b{rank} {at}" for at in reversed(range(len(layers)))]
    durations_s = [layer.forward_s for layer in layers] + [layer.backward_s for layer in reversed(layers)]
    return [
        Compute(name, rank, duration_s, tuple(names[max(at - 1, 0) : at]))
        for at, (name, duration_s) in enumerate(zip(names, durations_s, strict=True))
    ]


def _served(name, size_bytes, workers, after):
    pushes = [
        Transfer(f"push {name} {rank}", rank, workers, size_bytes, name, tuple(after[rank])) for rank in range(workers)
    ]
    pulls = [
        Transfer(f"pull {name} {rank}", workers, rank, size_bytes, name, (f"u {name}",)) for rank in range(workers)
    ]
    return pushes + pulls, [(pull.name,) for pull in pulls]


UNBOUNDED = Window()
ONE_AT_A_TIME = Window(slots=1)


GRADIENTS = 4
"""Gradients come in the order of the backward pass, deepest layer first; the first layer goes first."""


def gradients_job(
    window: Window,
    placement: tuple[str, ...] = ("h1", "h2"),
    *,
    size_bytes: int = 1000,
    backward_s: float = 1.0,
    iterations: int = 1,
    layers: int = GRADIENTS,
    ends: str = "push",
) -> Job:
    """A worker (rank 0) pushes the gradient of each layer to a server (rank 1), which returns what it has updated.

    The forward pass of a layer waits for what the server has returned of it in the iteration before. The end of the layer's
    push gives credit back, or that of its pull (`ends`).
    """
    steps: list[Step] = []
    for layer in range(layers):
        after = (f"forward {layer - 1}",) if layer else ()
        steps.append(Compute(f"forward {layer}", 0, backward_s / 2, after, "forward"))
    for layer in reversed(range(layers)):
        after = (f"backward {layer + 1}",) if layer < layers - 1 else (f"forward {layer}",)
        steps.append(Compute(f"backward {layer}", 0, backward_s, after, "backward"))
        steps.append(Transfer(f"push {layer}", 0, 1, size_bytes, f"push {layer}", (f"backward {layer}",)))
        steps.append(Transfer(f"pull {layer}", 1, 0, size_bytes, f"pull {layer}", (f"push {layer}",)))
    names = [step.name for step in steps if isinstance(step, Transfer)]
    group = Group("gradients", "dp-gradients", tuple(names), (0.0,) * len(names))
    again = tuple((f"pull {layer}", f"forward {layer}") for layer in range(layers))
    dag = JobDag(2, tuple(steps), (group,), (*again, ("backward 0", "forward 0")))
    tasks = tuple(
        TaskSpec(f"layer {layer}", 0, size_bytes, layer, (f"push {layer}",), ends=(f"{ends} {layer}",))
        for layer in range(layers)
    )
    return Job("gated", dag, placement, iterations, discipline=Discipline("by hand", window, tasks))
