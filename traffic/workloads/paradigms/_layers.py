"""A model as training sees it: layers with times and bytes, given one by one or measured; gradient buckets; stages."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from echelonflow.bounds import MOST_LAYERS, check_most
from echelonflow.errors import InputError
from traffic.workloads.profile import Profile, balanced_cuts

Number = TypeVar("Number", int, float)

BUCKET_BYTES = 25 * 1024 * 1024
"""How many bytes of gradients PyTorch's DistributedDataParallel collects before it reduces them (bucket_cap_mb)."""


def spread(name: str, value: Number | Sequence[Number], count: int, places: str) -> tuple[Number, ...]:
    """`count` values: one value for all, or the list as given (InputError if its length differs, or for too many)."""
    check_most(places, count, MOST_LAYERS, {})
    if isinstance(value, (int, float)):
        return (value,) * count
    if len(value) != count:
        raise InputError(f"{name}: {len(value)} values for {count} {places}; give one value, or one for each")
    return tuple(value)


def at_least(least: int, **given: int) -> None:
    """InputError naming the first of `given` that is less than `least`."""
    for name, value in given.items():
        if value < least:
            raise InputError(f"{name}: {value} is too few; at least {least} is needed")


@dataclass(frozen=True, slots=True)
class Layers:
    """One entry per layer, in the order in which a sample passes them; times are seconds for one micro-batch.

    `update_s` is the optimiser's step over all the layer's parameters. `activation_bytes` is the layer's output.
    """

    kind: tuple[str, ...]
    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    update_s: tuple[float, ...]
    parameter_bytes: tuple[int, ...]
    activation_bytes: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.kind)

    @property
    def all_update_s(self) -> float:
        return sum(self.update_s)

    def divided(self, ranks: int) -> Layers:
        """The share of one of `ranks` ranks that split every layer evenly: computation and parameters, not outputs."""
        return dataclasses.replace(
            self,
            forward_s=tuple(t / ranks for t in self.forward_s),
            backward_s=tuple(t / ranks for t in self.backward_s),
            update_s=tuple(t / ranks for t in self.update_s),
            parameter_bytes=tuple(-(-size // ranks) for size in self.parameter_bytes),
        )

    def cut(self, parts: int) -> list[range]:
        """The layers of `parts` contiguous stages, the slowest of which takes the least time (InputError: too few)."""
        if parts > self.count:
            raise InputError(f"layers: {self.count} cannot be cut into {parts} stages; at least one for each is needed")
        times_s = [f + b for f, b in zip(self.forward_s, self.backward_s, strict=True)]
        return [range(a, b) for a, b in itertools.pairwise(balanced_cuts(times_s, parts))]

    def buckets(self, layers: range, bucket_bytes: int) -> list[Bucket]:
        """`layers` in buckets, in the order in which a backward pass fills them.

        A bucket takes layers, the last one first, until it holds `bucket_bytes` of gradients. Layers without
        parameters have none.
        """
        found: list[Bucket] = []
        first, last, size_bytes = -1, -1, 0
        for layer in reversed(layers):
            if self.parameter_bytes[layer]:
                first, last = layer, last if size_bytes else layer
                size_bytes += self.parameter_bytes[layer]
            if size_bytes >= bucket_bytes:
                found.append(Bucket(len(found), first, last, size_bytes))
                size_bytes = 0
        return [*found, Bucket(len(found), first, last, size_bytes)] if size_bytes else found


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients of layers `first` to `last`: complete once the backward pass of `first` is."""

    index: int
    first: int
    last: int
    size_bytes: int


def given_layers(
    layers: int,
    *,
    forward_s: float | Sequence[float],
    backward_s: float | Sequence[float],
    update_s: float | Sequence[float] = 0.0,
    parameter_bytes: int | Sequence[int] = 0,
    activation_bytes: int | Sequence[int] = 0,
) -> Layers:
    """Layers whose values are each given as one for all, or one per layer (InputError for a wrong length)."""
    at_least(1, layers=layers)
    check_most("layers", layers, MOST_LAYERS, {})
    return Layers(
        kind=("block",) * layers,
        forward_s=spread("forward", forward_s, layers, "layers"),
        backward_s=spread("backward", backward_s, layers, "layers"),
        update_s=spread("update", update_s, layers, "layers"),
        parameter_bytes=spread("parameter", parameter_bytes, layers, "layers"),
        activation_bytes=spread("activation", activation_bytes, layers, "layers"),
    )


def measured_layers(profile: Profile) -> Layers:
    """The layers of a measured profile; a micro-batch is what it was measured with."""
    layers = profile.layers
    check_most(f"layers of profile {profile.model}", len(layers), MOST_LAYERS, {})
    return Layers(
        kind=tuple(layer.kind for layer in layers),
        forward_s=tuple(layer.forward_s for layer in layers),
        backward_s=tuple(layer.backward_s for layer in layers),
        update_s=tuple(layer.update_s for layer in layers),
        parameter_bytes=tuple(layer.parameter_bytes for layer in layers),
        activation_bytes=tuple(layer.activation_bytes for layer in layers),
    )
