"""Data parallelism that crosses the barrier between iterations: each layer's forward pass waits for its own gradients.

It takes the place of `DistributedDataParallel` where a job names a job scheduler. Gradients of a layer are cut, or put together, into the
units that the job scheduler makes (`traffic.workloads.job_schedulers`). Each is all-reduced when the backward pass has come to it. The
program's `optimizer.step()` returns at once. What it was to do with a layer is done right before that layer's next forward pass, when
the layer's gradients have come.

In what order units go to the network is not decided here: agents do that, as those of a replay do (`traffic.live.scheduled`).

Source: Peng et al. (ByteScheduler, SOSP 2019), section 5, "Crossing global barrier".
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from echelonflow.errors import InputError
from echelonflow.records.observed import Ordered, UnitOf
from traffic.live.process import Process
from traffic.workloads import job_schedulers
from traffic.workloads.tensors import Architecture, Setting, Tensor, TensorModel, TensorPlan

ARCHITECTURE: Architecture = "ring"
"""By what units are all-reduced."""
LEAST_LAYER_BYTES = 1 << 14
"""A layer with fewer bytes goes with the next one: few bytes are not worth an operation."""
_UNKNOWN_S = 0.0
"""Times of layers: nobody has measured them when units are made."""


@dataclass(eq=False)
class Layer:
    """Parameters that a forward pass needs together, first when it enters `module`."""

    name: str
    module: nn.Module
    parameters: list[nn.Parameter]
    missing: set[nn.Parameter] = field(default_factory=set)
    """Whose gradients the backward pass has not computed yet."""
    gradients: torch.Tensor | None = None
    """All of them one behind the other, from when they are there until they are used."""
    step: _Step | None = None
    """What is to be done with them."""

    @property
    def size_bytes(self) -> int:
        return sum(each.numel() * each.element_size() for each in self.parameters)


@dataclass(eq=False)
class _Unit:
    """What is all-reduced as one: elements of layers, from `start` to before `stop` of each."""

    name: str
    priority: int
    parts: list[tuple[Layer, int, int]]
    buffer: torch.Tensor | None = None
    work: Any = None

    @property
    def is_ready(self) -> bool:
        return self.work is None and all(layer.gradients is not None for layer, _, _ in self.parts)


class _Step:
    """A step of an optimizer that is yet to be made for some layers, with the settings that it had then."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.settings = _settings(optimizer)


class LayerwiseDataParallel(nn.Module):  # type: ignore[misc, unused-ignore]
    """`module` on every rank of a group, as `DistributedDataParallel` is called; `scheduler` names the job scheduler.

    What only buckets have use for (`bucket_cap_mb`, ..) is ignored. Raises InputError for a model that cannot be trained so. A program may
    not look at gradients between its backward pass and its step, as they are not reduced then: clipping them raises.
    """

    def __init__(
        self,
        module: nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        process_group: Any = None,
        *,
        scheduler: str,
        find_unused_parameters: bool = False,
        **_: Any,
    ) -> None:
        super().__init__()
        if find_unused_parameters:
            raise InputError(f"{scheduler}: waits for the gradients of all layers; find_unused_parameters cannot be")
        self.module = module
        self._group = process_group
        self._ranks = dist.get_world_size(process_group)
        self._scheduler = scheduler
        self._entered: list[nn.Module] = []
        """By the first forward pass, in that order."""
        self._layers: list[Layer] = []
        self._units: list[_Unit] = []
        self._at: dict[nn.Module, list[Layer]] = {}
        self._layer_of: dict[nn.Parameter, Layer] = {}
        self._has_barrier = False
        self._is_reducing = True
        self._is_stepping = False
        self._buffers_to_send = list(module.buffers()) if broadcast_buffers else []
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.detach(), self._root, group=process_group)
        for each in module.modules():
            each.register_forward_pre_hook(self._entering)
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._computed)
        module.register_state_dict_pre_hook(lambda *_: self.finish())
        register_optimizer_step_pre_hook(self._before_step)
        _ALL.add(self)

    @property
    def _root(self) -> int:
        return 0 if self._group is None else dist.get_global_rank(self._group, 0)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The module's."""
        for buffer in self._buffers_to_send if self.training else ():
            dist.broadcast(buffer, self._root, group=self._group)
        result = self.module(*inputs, **named)
        if not self._layers:
            self._arrange()
        return result

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of backward passes within it are kept, and reduced with those of the next one."""
        self._is_reducing, before = False, self._is_reducing
        try:
            yield
        finally:
            self._is_reducing = before

    def finish(self) -> None:
        """Make all steps that are yet to be made: the parameters are those after the program's last step."""
        for layer in self._layers:
            self._settle(layer)

    def _arrange(self) -> None:
        """The first forward pass is over: layers are known in its order, and units are made of them."""
        self._layers = layers_of(self.module, self._entered)
        model = TensorModel(tuple(Tensor(each.name, each.size_bytes, _UNKNOWN_S, _UNKNOWN_S) for each in self._layers))
        plan = job_schedulers.load(self._scheduler).plan(model, Setting(ARCHITECTURE, self._ranks))
        if plan.two_phase:
            raise InputError(f"{self._scheduler}: reduces and gathers apart, which is not there for programs")
        self._has_barrier = plan.barrier
        self._units = _units(plan, self._layers)
        for layer in self._layers:
            self._at.setdefault(layer.module, []).append(layer)
            self._layer_of.update(dict.fromkeys(layer.parameters, layer))
        process = Process.current()
        if process is not None:
            window = plan.window
            process.ordered = Ordered(
                self._scheduler, window.credit_bytes, window.slots, window.overdraw, plan.whole
            )  # fmt: skip

    # Told by torch

    def _entering(self, module: nn.Module, _: Any) -> None:
        """A forward pass needs the module's parameters next."""
        if not self._layers:
            self._entered.append(module)
        for layer in self._at.get(module, ()):
            self._settle(layer)

    def _computed(self, parameter: nn.Parameter) -> None:
        """A backward pass has computed a gradient."""
        if not self._is_reducing:
            return
        layer = self._layer_of.get(parameter)
        if layer is None or parameter not in layer.missing:
            raise RuntimeError(
                f"a gradient of {layer.name if layer else 'a layer'} was computed twice before the optimizer's step; "
                "where passes add up, all but the last one belong into `with model.no_sync():`"
            )
        layer.missing.discard(parameter)
        if not layer.missing:
            layer.gradients = torch.cat([_gradient(each).flatten() for each in layer.parameters])
            for unit in self._units:
                if unit.is_ready:
                    self._start(unit)

    def _before_step(self, optimizer: torch.optim.Optimizer, arguments: Any, named: Any) -> None:
        """The program wants a step: that is put off, layer by layer."""
        if self._is_stepping:
            return
        own = {id(each) for group in optimizer.param_groups for each in group["params"]}
        layers = [layer for layer in self._layers if any(id(each) in own for each in layer.parameters)]
        if not layers:
            return
        if any(argument is not None for argument in (*arguments[1:], *named.values())):
            raise InputError(f"{self._scheduler}: a step with a closure computes gradients anew; it cannot be put off")
        step = _Step(optimizer)
        for layer in layers:
            if not all(id(each) in own for each in layer.parameters):
                raise InputError(f"{self._scheduler}: one optimizer is needed for all parameters of {layer.name}")
            if layer.gradients is None:
                raise RuntimeError(f"{layer.name} has no gradients to make a step with: is a parameter of it unused?")
            for parameter in layer.parameters:
                parameter.grad = None
            layer.step = step
        if self._has_barrier:
            self.finish()

    # What is done

    def _start(self, unit: _Unit) -> None:
        parts = [_gradients(layer)[start:stop] for layer, start, stop in unit.parts]
        unit.buffer = parts[0] if len(parts) == 1 else torch.cat(parts)
        process = Process.current()
        about = UnitOf(unit.name, unit.buffer.numel() * unit.buffer.element_size(), unit.priority)
        with contextlib.nullcontext() if process is None else process.observer.calling_for(about):
            unit.work = dist.all_reduce(unit.buffer, group=self._group, async_op=True)

    def _settle(self, layer: Layer) -> None:
        """Wait for a layer's gradients, and make its step; nothing where none is to be made."""
        step, layer.step = layer.step, None
        if step is None:
            return
        for unit in self._units:
            if unit.work is not None and any(each is layer for each, _, _ in unit.parts):
                unit.work.wait()
                if len(unit.parts) > 1:
                    self._take_apart(unit)
        gradients = _gradients(layer).div_(self._ranks)
        layer.gradients = None
        layer.missing.update(layer.parameters)
        for unit in self._units:
            if unit.work is not None and all(each.gradients is None for each, _, _ in unit.parts):
                unit.work = unit.buffer = None
        self._make(step, layer, gradients)

    def _take_apart(self, unit: _Unit) -> None:
        """Back to the layers of which a unit was put together; done once."""
        if unit.buffer is None:
            return
        at = 0
        for layer, start, stop in unit.parts:
            _gradients(layer)[start:stop] = unit.buffer[at : at + stop - start]
            at += stop - start
        unit.buffer = None

    def _make(self, step: _Step, layer: Layer, gradients: torch.Tensor) -> None:
        """The optimizer's step for the parameters of one layer, as it was set when the program asked for it."""
        optimizer = step.optimizer
        others = [(each, each.grad) for group in optimizer.param_groups for each in group["params"]]
        for parameter, _ in others:
            parameter.grad = None
        at = 0
        for parameter in layer.parameters:
            parameter.grad = gradients[at : at + parameter.numel()].view_as(parameter)
            at += parameter.numel()
        now = _settings(optimizer)
        _set(optimizer, step.settings)
        process = Process.current()
        self._is_stepping = True
        try:
            with contextlib.nullcontext() if process is None else process.observer.not_a_step():
                optimizer.step()
        finally:
            self._is_stepping = False
            _set(optimizer, now)
            for parameter, before in others:
                parameter.grad = before


_ALL: weakref.WeakSet[LayerwiseDataParallel] = weakref.WeakSet()


def replace_ddp(scheduler: str) -> None:
    """From now on a program that asks for `DistributedDataParallel` gets this, with that job scheduler."""
    nn.parallel.DistributedDataParallel = functools.partial(LayerwiseDataParallel, scheduler=scheduler)
    nn.parallel.distributed.DistributedDataParallel = nn.parallel.DistributedDataParallel
    destroy = dist.destroy_process_group

    @functools.wraps(destroy)
    def destroy_process_group(group: Any = None) -> None:
        finish_all()
        destroy(group)

    dist.destroy_process_group = dist.distributed_c10d.destroy_process_group = destroy_process_group

    def clip(*_: Any, **__: Any) -> Any:
        raise InputError(
            f"{scheduler}: the program clips gradients, which needs all of them before its step; job schedulers that cross "
            "the barrier do not go with that"
        )

    for name in ("clip_grad_norm_", "clip_grad_value_"):
        setattr(nn.utils, name, clip)
        setattr(nn.utils.clip_grad, name, clip)
    atexit.register(_finish_at_exit)


def _finish_at_exit() -> None:
    """Others may still wait for what this rank passes on. A rank that has gone was told of before."""
    with contextlib.suppress(RuntimeError):
        finish_all()


def finish_all() -> None:
    """Make all steps that are yet to be made, of all models."""
    for each in list(_ALL):
        each.finish()
        _ALL.discard(each)


def layers_of(root: nn.Module, entered: Sequence[nn.Module]) -> list[Layer]:
    """The layers of a module, in the order in which a forward pass that `entered` these modules needs them.

    A parameter belongs to the first module that was entered and needs it. Where a module was used without being entered, that is the one
    around it. Raises InputError where nothing is trained, or types of numbers are mixed.
    """
    places: dict[nn.Module, int] = {}
    for module in entered:
        places.setdefault(module, len(places))
    needed: dict[nn.Parameter, int] = {}

    def visit(module: nn.Module, around: int) -> None:
        place = places.get(module, around)
        for parameter in module.parameters(recurse=False):
            if parameter.requires_grad:
                needed[parameter] = min(needed.get(parameter, place), place)
        for child in module.children():
            visit(child, place)

    visit(root, 0)
    if not needed:
        raise InputError("the model has no parameter that is trained")
    if len({parameter.dtype for parameter in needed}) > 1:
        raise InputError("the model's parameters have several types of numbers; job schedulers need one")
    names = {module: name for name, module in root.named_modules()}
    modules = list(places)
    layers: list[Layer] = []
    for place in sorted(set(needed.values())):
        mine = [parameter for parameter, first in needed.items() if first == place]
        if layers and layers[-1].size_bytes < LEAST_LAYER_BYTES:
            layers[-1].parameters += mine
        else:
            layers.append(Layer(names[modules[place]] or "model", modules[place], mine))
    if len(layers) > 1 and layers[-1].size_bytes < LEAST_LAYER_BYTES:
        layers[-2].parameters += layers.pop().parameters
    for layer in layers:
        layer.missing.update(layer.parameters)
    return layers


def _units(plan: TensorPlan, layers: Sequence[Layer]) -> list[_Unit]:
    """The units of a plan, whose bytes are rounded to whole numbers."""
    taken_bytes = dict.fromkeys(range(len(layers)), 0)
    found = []
    for unit in plan.units:
        parts = []
        for place, size_bytes in unit.parts:
            layer, begin_bytes = layers[place], taken_bytes[place]
            taken_bytes[place] += size_bytes
            element_bytes = layer.parameters[0].element_size()
            start, stop = begin_bytes // element_bytes, taken_bytes[place] // element_bytes
            if stop > start:
                parts.append((layer, start, stop))
        if parts:
            found.append(_Unit(unit.name, unit.priority, parts))
    return found


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None  # torch has just computed it
    return parameter.grad


def _gradients(layer: Layer) -> torch.Tensor:
    assert layer.gradients is not None  # its units were started when they were there
    return layer.gradients


def _settings(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Of each group of parameters, all but these."""
    return [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def _set(optimizer: torch.optim.Optimizer, settings: Sequence[dict[str, Any]]) -> None:
    for group, values in zip(optimizer.param_groups, settings, strict=True):
        group.update(values)
