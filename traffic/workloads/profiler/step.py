"""One training step over a model's layers, timed layer by layer. Knows no framework: tensors do what PyTorch's do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from traffic.workloads.profiler.built import ModelLayer


class Clock(Protocol):
    """Marks on a device's own time line."""

    def mark(self) -> Any:
        """A mark after all that has been asked of the device so far."""

    def finish(self) -> None:
        """Wait until the device has done all that was asked of it."""

    def between_s(self, first: Any, last: Any) -> float:
        """Seconds between two marks, once `finish` has been called."""


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Seconds of one layer in one step."""

    forward_s: float
    backward_s: float
    update_s: float


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Bytes of one layer's parameters, of the gradients left for them, and of its output."""

    parameter_bytes: int
    gradient_bytes: int
    activation_bytes: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one step took and left, one entry per layer."""

    times: tuple[LayerTimes, ...]
    sizes: tuple[LayerBytes, ...]


def training_step(
    layers: Sequence[ModelLayer], optimisers: Sequence[Any | None], inputs: Any, labels: Any, clock: Clock
) -> Step:
    """One forward pass, one backward pass and one update of all layers.

    `optimisers` has one entry per layer, None where it has no parameters.
    """
    given: list[Any] = []
    outputs: list[Any] = []
    forward_marks = [clock.mark()]
    for layer in layers:
        # A leaf of its own per layer, so that its backward pass can be timed alone.
        given.append(outputs[-1].detach().requires_grad_() if outputs else inputs)
        outputs.append(layer.run(given[-1], labels))
        forward_marks.append(clock.mark())
    backward_marks = [clock.mark()]
    gradient = None
    for leaf, output in zip(reversed(given), reversed(outputs), strict=True):
        output.backward(gradient)
        gradient = leaf.grad
        backward_marks.append(clock.mark())
    update_marks = [clock.mark()]
    for optimiser in optimisers:
        if optimiser is not None:
            optimiser.step()
        update_marks.append(clock.mark())
    clock.finish()
    sizes = tuple(
        LayerBytes(
            parameter_bytes=sum(_bytes(p) for p in layer.parameters),
            gradient_bytes=sum(_bytes(p.grad) for p in layer.parameters if p.grad is not None),
            activation_bytes=_bytes(output),
        )
        for layer, output in zip(layers, outputs, strict=True)
    )
    for optimiser in optimisers:
        if optimiser is not None:
            optimiser.zero_grad(set_to_none=True)
    backward_marks.reverse()
    times = tuple(
        LayerTimes(
            clock.between_s(forward_marks[i], forward_marks[i + 1]),
            clock.between_s(backward_marks[i + 1], backward_marks[i]),
            clock.between_s(update_marks[i], update_marks[i + 1]) if optimisers[i] is not None else 0.0,
        )
        for i in range(len(layers))
    )
    return Step(times, sizes)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
