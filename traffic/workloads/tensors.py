"""A model as a job scheduler sees it: tensors in order, and the units in which they go to the network.

A *unit* is a partition of a tensor, a whole one, or several fused into a bucket. What carries a unit depends on the
`Setting`: pushes and pulls of parameter servers, or a collective. `traffic.workloads.in_job` makes a job of all this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from echelonflow.bounds import MOST_STEPS, check_most
from echelonflow.errors import InputError
from echelonflow.model.discipline import Window
from echelonflow.model.units import format_size
from traffic.workloads.paradigms._layers import Layers, measured_layers
from traffic.workloads.profile import Profile

Reduction = Literal["ring", "ring-steps", "halving-doubling", "direct", "tree", "reduce-scatter"]
"""By what gradients are all-reduced; "reduce-scatter" is a reduce-scatter and then an all-gather, both by ring."""
Architecture = Literal["parameter-server", Reduction]
"""What carries a unit."""
COLLECTIVES: tuple[Architecture, ...] = get_args(Reduction)
PARAMETER_SERVER: Architecture = "parameter-server"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A layer's parameters (as many bytes as its gradients), with its computation; seconds are of one worker."""

    name: str
    size_bytes: int
    forward_s: float
    backward_s: float
    update_s: float = 0.0


@dataclass(frozen=True)
class TensorModel:
    """All tensors of a model in the order in which a forward pass needs them."""

    tensors: tuple[Tensor, ...]

    @cached_property
    def total_bytes(self) -> int:
        return sum(tensor.size_bytes for tensor in self.tensors)

    @cached_property
    def largest_bytes(self) -> int:
        return max(tensor.size_bytes for tensor in self.tensors)

    @cached_property
    def compute_s(self) -> float:
        """Forward and backward pass of one worker."""
        return sum(tensor.forward_s + tensor.backward_s for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class Setting:
    """On what the job runs; `rate_Bps` is what a link carries, payload bytes per second (None: not known)."""

    architecture: Architecture
    workers: int
    servers: int = 0
    rate_Bps: float | None = None
    colocated: bool = False
    """Whether servers run on the first workers; otherwise their ranks are those behind the workers'."""

    @property
    def least_bytes(self) -> int:
        """The least unit: with fewer bytes than there are ranks to share it, more would be sent than there is."""
        return max(self.workers, self.servers)

    def carried_bytes(self, size_bytes: float) -> float:
        """What the busiest interface has to carry in one direction until all workers have a unit of so many bytes."""
        if self.architecture == PARAMETER_SERVER:
            return size_bytes * max(1.0, self.workers / self.servers)
        return 2 * size_bytes * (self.workers - 1) / self.workers


@dataclass(frozen=True, slots=True)
class Unit:
    """What goes to the network as one: (tensor's index, bytes of it), and its place in the order (smaller first)."""

    name: str
    parts: tuple[tuple[int, int], ...]
    priority: int
    first_priority: int | None = None
    """The same in the first iteration, where that differs."""

    @property
    def size_bytes(self) -> int:
        return sum(size_bytes for _, size_bytes in self.parts)

    @property
    def first_tensor(self) -> int:
        """Its tensor that a backward pass comes to last, and a forward pass first."""
        return min(tensor for tensor, _ in self.parts)


@dataclass(frozen=True)
class TensorPlan:
    """What a job scheduler makes of a model: its units in the order in which gradients become ready, and how they go."""

    units: tuple[Unit, ...]
    window: Window
    barrier: bool
    """Whether all of the next iteration waits for all units; otherwise a layer's forward pass waits for its own."""
    two_phase: bool = False
    """DeAR: reduce-scatter while going backward, all-gather while going forward in the next iteration."""
    pull_with_push: bool = False
    """Parameter servers: only pushes are put in order and counted; a pull follows when the server has updated."""
    whole: bool = False
    """All-reduce: a task lasts until it is over at its rank, as on one stream; for units that keep their order."""
    round_robin: bool = False
    """Parameter servers: each unit is on one server, in turn; otherwise every server has a shard of each."""
    pulls_wait: bool = False
    """Parameter servers: a server hands out nothing before it has updated everything (TensorFlow's step)."""
    pulls_alone: bool = False
    """Parameter servers: only pulls are put in order; pushes go as they become ready, one window for them too."""
    ahead: int | None = None
    """With `two_phase`: how many units ahead of the forward pass are gathered; None: no bound."""

    def check(self, model: TensorModel) -> None:
        """InputError unless every byte of every tensor is in exactly one unit, and names differ."""
        names = {unit.name for unit in self.units}
        if len(names) != len(self.units):
            raise InputError("two units have one name; each needs its own")
        carried = [0] * len(model.tensors)
        for unit in self.units:
            for i, size_bytes in unit.parts:
                if size_bytes < 1 or not 0 <= i < len(model.tensors):
                    raise InputError(f"unit {unit.name!r} has {size_bytes} bytes of tensor {i}")
                carried[i] += size_bytes
        for tensor, size_bytes in zip(model.tensors, carried, strict=True):
            if size_bytes != tensor.size_bytes:
                raise InputError(f"units carry {size_bytes} bytes of {tensor.name}, which has {tensor.size_bytes}")


def of_profile(profile: Profile) -> TensorModel:
    """The tensors of a measured model, named as its layers are; otherwise as `of_layers`."""
    return of_layers(measured_layers(profile), [layer.name for layer in profile.layers])


def of_layers(layers: Layers, names: Sequence[str] = ()) -> TensorModel:
    """One tensor for each layer that has parameters.

    A layer without any is computed together with the one before it, and those before the first one together with that. So
    all time is kept, and the gradients of the first tensor alone come later than they could. InputError without parameters.
    """
    names = names or [f"l{i}" for i in range(layers.count)]
    starts = [i for i, size_bytes in enumerate(layers.parameter_bytes) if size_bytes]
    if not starts:
        raise InputError("parameter: no layer has parameters, so nothing would be sent; give at least one some bytes")
    spans = [range(a, b) for a, b in itertools.pairwise([0, *starts[1:], layers.count])]
    return TensorModel(
        tuple(
            Tensor(
                names[start],
                layers.parameter_bytes[start],
                sum(layers.forward_s[i] for i in span),
                sum(layers.backward_s[i] for i in span),
                sum(layers.update_s[i] for i in span),
            )
            for start, span in zip(starts, spans, strict=True)
        )
    )


def whole_tensors(model: TensorModel, priority: Sequence[int] | None = None) -> tuple[Unit, ...]:
    """Every tensor as one unit, the last one first; `priority` by tensor, equal for all unless given."""
    return tuple(
        Unit(model.tensors[i].name, ((i, model.tensors[i].size_bytes),), 0 if priority is None else priority[i])
        for i in reversed(range(len(model.tensors)))
    )


def cut(
    model: TensorModel, partition_bytes: int, least_bytes: int = 1, *, evenly: bool = False
) -> list[tuple[int, list[int]]]:
    """(tensor's index, sizes of its parts) of every tensor, the last tensor first.

    Parts have `partition_bytes` but for the last one, which has the rest; `evenly`, they differ by a byte. No part has fewer
    than `least_bytes` if its tensor has more: what would be too small goes with others. BeyondBoundsError, before anything
    is made, for more parts than an iteration may have steps.
    """
    parts = sum(-(-tensor.size_bytes // partition_bytes) for tensor in model.tensors)
    check_most("parts of tensors", parts, MOST_STEPS, {})
    found = []
    for i in reversed(range(len(model.tensors))):
        size_bytes = model.tensors[i].size_bytes
        number = -(-size_bytes // partition_bytes)
        if evenly:
            number = min(number, max(size_bytes // least_bytes, 1))
            sizes = [size_bytes * (k + 1) // number - size_bytes * k // number for k in range(number)]
        else:
            sizes = [partition_bytes] * (number - 1) + [size_bytes - partition_bytes * (number - 1)]
            if number > 1 and sizes[-1] < least_bytes:
                rest_bytes = sizes.pop()
                sizes[-1] += rest_bytes
        found.append((i, sizes))
    return found


def part_name(model: TensorModel, tensor: int, part: int, parts: int) -> str:
    """What a part of a tensor is called: as the tensor, where it is all of it."""
    name = model.tensors[tensor].name
    return name if parts == 1 else f"{name}#{part}"


def fused(
    model: TensorModel, groups: Iterable[Sequence[int]], priority: Sequence[int] | None = None
) -> tuple[Unit, ...]:
    """Tensors in buckets b0, b1, .., in the order of `groups`; `priority` by bucket, equal for all unless given."""
    return tuple(
        Unit(f"b{k}", tuple((i, model.tensors[i].size_bytes) for i in group), 0 if priority is None else priority[k])
        for k, group in enumerate(groups)
    )


def check_partition(key: str, size_bytes: int, model: TensorModel, setting: Setting, *, default_bytes: int) -> None:
    """InputError unless tensors can be cut into parts of `size_bytes`; the default is never too large."""
    if size_bytes < setting.least_bytes:
        raise InputError(
            f"{key}: {size_bytes} B cannot be shared by {setting.least_bytes} ranks; at least {setting.least_bytes} B would do"
        )
    if size_bytes > model.largest_bytes and size_bytes != default_bytes:
        raise InputError(
            f"{key}: {format_size(size_bytes)} is beyond the largest tensor, so nothing would be cut; "
            f"at most {model.largest_bytes} B would do"
        )


def check_credit(key: str, size_bytes: int, model: TensorModel, *, default_bytes: int) -> None:
    """InputError for a window that is larger than the model; the default is never too large."""
    if size_bytes > model.total_bytes and size_bytes != default_bytes:
        raise InputError(
            f"{key}: {format_size(size_bytes)} is beyond all tensors together; "
            f"at most {model.total_bytes} B would do, which bounds nothing"
        )
