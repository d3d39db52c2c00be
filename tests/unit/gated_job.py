"""Small jobs whose ranks hold transfers back, made by hand: for tests of agents, records and analysis."""

from __future__ import annotations

from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.discipline import Discipline, TaskSpec, Window

LAYERS = 4
"""Gradients come in the order of the backward pass, deepest layer first; the first layer goes first."""


def gradients_job(
    window: Window,
    placement: tuple[str, ...] = ("h1", "h2"),
    *,
    size_bytes: int = 1000,
    backward_s: float = 1.0,
    iterations: int = 1,
    layers: int = LAYERS,
    ends: str = "push",
) -> Job:
    """A worker (rank 0) pushes the gradient of each layer to a server (rank 1), which returns what it has updated.

    The forward pass of a layer waits for what the server has returned of it in the iteration before. The end of the layer's
    push gives credit back, or that of its pull (`ends`).
    """
    steps: list[Compute | Transfer] = []
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
