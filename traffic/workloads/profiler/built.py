"""What a family of models provides: its models by name, and each one's layers, built on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from echelonflow.errors import InputError


@dataclass(frozen=True)
class ModelLayer:
    """One layer to be timed: `run(input, labels)` gives its output; the last layer's is the loss.

    `repeats` layers of the model are like this one, in a row; only this one is built and run.
    """

    name: str
    kind: str
    parameters: Sequence[Any]
    run: Callable[[Any, Any], Any]
    repeats: int = 1


@dataclass(frozen=True)
class BuiltModel:
    """A model on its device: its layers in order, and `draw(batch)`, a random micro-batch and its labels."""

    layers: Sequence[ModelLayer]
    draw: Callable[[int], tuple[Any, Any]]
    note: str = ""


@dataclass(frozen=True)
class Wanted:
    """What a model is to be built for: `size` tokens per sample, or pixels per side of an image.

    `dtype` is PyTorch's. `whole`: build every layer, instead of one of those that are alike.
    """

    device: str
    dtype: Any
    size: int
    whole: bool


@dataclass(frozen=True)
class Model:
    """A model that can be built. A sample is so many tokens, or an image of so many pixels per side."""

    title: str
    unit: Literal["tokens", "pixels"]
    usual: int
    least: int
    most: int | None
    optimizer: Literal["AdamW", "SGD"]
    build: Callable[[Wanted], BuiltModel]

    def size(self, name: str, seq: int | None, image: int | None) -> int:
        """The size of a sample that is asked for, or the usual one (InputError if the model cannot take it)."""
        option, other, given, wrong = ("--seq", "--image", seq, image)
        if self.unit == "pixels":
            option, other, given, wrong = other, option, image, seq
        if wrong is not None:
            raise InputError(
                f"{other} {wrong}: {name} takes {self.unit}; give {option}, or leave it out for {self.usual}"
            )
        size = self.usual if given is None else given
        if size < self.least or (self.most is not None and size > self.most):
            bounds = f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"
            raise InputError(f"{option} {size}: {name} takes {bounds} {self.unit}")
        return size


def alike(
    name: str, count: int, modules: Sequence[Any], run: Callable[[Any], Callable[[Any, Any], Any]]
) -> list[ModelLayer]:
    """`count` blocks of one kind: those of `modules` one by one, or a single one that stands for all."""
    if len(modules) == 1:
        return [ModelLayer(name, "block", list(modules[0].parameters()), run(modules[0]), count)]
    return [ModelLayer(f"{name}{i}", "block", list(m.parameters()), run(m)) for i, m in enumerate(modules)]
