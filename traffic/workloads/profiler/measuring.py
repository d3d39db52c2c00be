"""From a model's name to its profile: build, warm up, repeat the training step, take medians."""

from __future__ import annotations

import importlib.metadata
import platform
import statistics
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, Literal, Protocol

from echelonflow import plugins
from echelonflow.errors import InputError
from traffic.workloads.profile import Layer, Profile, Provenance, Timing
from traffic.workloads.profiler import models
from traffic.workloads.profiler.built import Model, Wanted
from traffic.workloads.profiler.quiet import keep_quiet, others_share, worst
from traffic.workloads.profiler.step import Clock, Step, training_step
from traffic.workloads.profiler.torch_device import TorchDevice

Dtype = Literal["float32", "bfloat16", "float16"]


class Device(Protocol):
    """Where a model is measured; `TorchDevice` is the real one."""

    name: Literal["cpu", "cuda"]

    @property
    def full_name(self) -> str: ...

    @property
    def threads(self) -> int: ...

    def dtype(self, name: str) -> Any: ...

    def seed(self, seed: int) -> None: ...

    def clock(self) -> Clock: ...

    def optimiser(self, kind: Literal["AdamW", "SGD"], parameters: Sequence[Any]) -> Any | None: ...

    def fault(self, error: Exception) -> InputError | None: ...


def model_names() -> list[str]:
    """The models that can be measured, sorted."""
    return sorted(_models())


def measure(
    name: str,
    *,
    device: Literal["cpu", "cuda"] = "cpu",
    batch: int = 1,
    seq: int | None = None,
    image: int | None = None,
    dtype: Dtype = "float32",
    repeats: int = 20,
    warmup: int = 5,
    seed: int = 0,
    whole: bool = False,
) -> Profile:
    """The profile of model `name` for micro-batches of `batch` samples, in seconds and bytes.

    A sample is `seq` tokens or an image of `image` pixels per side, as the model takes. Layers that are alike are
    measured once, unless `whole`. Raises InputError for an unknown model, a sample that the model cannot take, a
    device that is not there, too little memory, and when PyTorch or transformers is not installed.
    """
    known = _models()
    if name not in known:
        raise InputError(f"unknown model {name!r}; there is: {', '.join(sorted(known))}")
    size = known[name].size(name, seq, image)
    return measure_on(
        TorchDevice(device), known[name], size, batch=batch, dtype=dtype, repeats=repeats, warmup=warmup, seed=seed,
        whole=whole,
    )  # fmt: skip


def measure_on(
    device: Device,
    model: Model,
    size: int,
    *,
    batch: int,
    dtype: Dtype = "float32",
    repeats: int = 20,
    warmup: int = 5,
    seed: int = 0,
    whole: bool = False,
) -> Profile:
    """As `measure`, on a given device: medians of `repeats` steps after `warmup`, which count for nothing."""
    device.seed(seed)
    try:
        built = model.build(Wanted(device.name, device.dtype(dtype), size, whole))
        optimisers = [device.optimiser(model.optimizer, layer.parameters) for layer in built.layers]
        clock = device.clock()

        def step() -> Step:
            inputs, labels = built.draw(batch)
            return training_step(built.layers, optimisers, inputs, labels, clock)

        for _ in range(warmup):
            step()
        # A GPU's own time line is not what others on the CPUs disturb.
        watched = (lambda: others_share(step)) if device.name == "cpu" else (lambda: (step(), None))
        steps, shares, tries = keep_quiet(repeats, watched)
    except (RuntimeError, MemoryError) as error:
        fault = device.fault(error)
        if fault is None:
            raise
        raise fault from None
    once = any(layer.repeats > 1 for layer in built.layers)
    return Profile(
        model=model.title,
        provenance=Provenance(
            device=device.name,
            device_name=device.full_name,
            platform=f"{platform.system()} {platform.release()} {platform.machine()}",
            python=platform.python_version(),
            torch=_version("torch") or "unknown",
            transformers=_version("transformers") if model.unit == "tokens" else None,
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            batch=batch,
            seq=size if model.unit == "tokens" else None,
            image=size if model.unit == "pixels" else None,
            dtype=dtype,
            optimizer=model.optimizer,
            threads=device.threads,
            warmup=warmup,
            repeats=repeats,
            tries=tries,
            others_share=worst(shares),
            note="; ".join(
                filter(
                    None, ("random weights, training mode", built.note, "layers that are alike measured once" * once)
                )
            ),
        ),
        layers=tuple(
            Layer(
                name=layer.name,
                kind=layer.kind,
                repeats=layer.repeats,
                forward=_timing([step.times[i].forward_s for step in steps]),
                backward=_timing([step.times[i].backward_s for step in steps]),
                update=_timing([step.times[i].update_s for step in steps]),
                parameter_bytes=steps[-1].sizes[i].parameter_bytes,
                gradient_bytes=steps[-1].sizes[i].gradient_bytes,
                activation_bytes=steps[-1].sizes[i].activation_bytes,
            )
            for i, layer in enumerate(built.layers)
        ),
    )


def _models() -> dict[str, Model]:
    """All models of all families, by name."""
    found: dict[str, Model] = {}
    for family in plugins.names(models):
        found.update(plugins.load(models, family, "family of models").MODELS)
    return found


def _timing(seconds: Sequence[float]) -> Timing:
    """Median and quartiles (a single measurement has no spread)."""
    if len(seconds) < 2:
        return Timing(median_s=seconds[0], p25_s=seconds[0], p75_s=seconds[0])
    p25, median, p75 = statistics.quantiles(seconds, n=4, method="inclusive")
    return Timing(median_s=median, p25_s=p25, p75_s=p75)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
