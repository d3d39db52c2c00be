"""What image models share: drawing labelled images, a sequence as a layer, the classifier's loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from traffic.workloads.profiler.built import ModelLayer, Wanted
from traffic.workloads.profiler.torch_device import require

CLASSES = 1000


def draw_images(wanted: Wanted) -> Callable[[int], tuple[Any, Any]]:
    """Random images of shape (batch, 3, pixels, pixels) and their classes."""
    torch = require("torch")

    def draw(batch: int) -> tuple[Any, Any]:
        images = torch.randn(batch, 3, wanted.size, wanted.size, device=wanted.device, dtype=wanted.dtype)
        return images, torch.randint(CLASSES, (batch,), device=wanted.device)

    return draw


def layer(wanted: Wanted, name: str, kind: str, *modules: Any) -> ModelLayer:
    """A layer of `modules` in sequence."""
    sequence = require("torch").nn.Sequential(*modules).to(device=wanted.device, dtype=wanted.dtype).train()
    return ModelLayer(name, kind, list(sequence.parameters()), lambda images, _: sequence(images))


def classifier(wanted: Wanted, name: str, *modules: Any) -> ModelLayer:
    """The last layer: `modules` in sequence give scores, and those the loss."""
    torch = require("torch")
    scores = layer(wanted, name, "head", *modules)

    def run(images: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(scores.run(images, labels).float(), labels)

    return ModelLayer(name, "head", scores.parameters, run)
