"""Measures a model's layers with PyTorch: forward, backward and optimiser time, parameters, activations.

Models are built from their configuration with random weights; nothing is downloaded. To add a model,
add a function that returns its layers, and an entry in MODELS. The layers are run in sequence as one
training step, cut at every boundary as pipeline stages are, so caches are as warm or cold as in training.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from echelonflow.errors import InputError
from traffic.profile import Layer, Profile, Provenance, Timing

LEARNING_RATE = 1e-4


@dataclass(frozen=True)
class ModelLayer:
    """One layer to be timed: `run(input, labels)` gives its output; the last layer's is the loss."""

    name: str
    kind: str
    parameters: Sequence[Any]
    run: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class BuiltModel:
    """A model on its device: a name for readers, its layers in order, the number of its tokens."""

    name: str
    layers: list[ModelLayer]
    vocabulary: int


@dataclass(frozen=True)
class Measurement:
    """Seconds of one layer in one repeat."""

    forward_s: float
    backward_s: float
    update_s: float


class _Clock:
    """Marks on the device's own time line: CUDA events on a GPU, perf_counter on a CPU."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"

    def mark(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def finish(self) -> None:
        if self._cuda:
            import torch

            torch.cuda.synchronize()

    def between_s(self, first: Any, last: Any) -> float:
        """Seconds between two marks, once `finish` has been called."""
        return float(first.elapsed_time(last)) / 1e3 if self._cuda else last - first


def measure(
    model: str,
    *,
    device: Literal["cpu", "cuda"] = "cpu",
    batch: int = 1,
    seq: int = 512,
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    repeats: int = 20,
    warmup: int = 5,
    seed: int = 0,
) -> Profile:
    """The profile of `model` for micro-batches of `batch` samples of `seq` tokens, in seconds and bytes.

    Raises InputError for an unknown model, a sequence the model cannot take, a device that is not there,
    and when PyTorch or transformers is not installed.
    """
    if model not in MODELS:
        raise InputError(f"unknown model {model!r}; there is: {', '.join(sorted(MODELS))}")
    torch, transformers = _import_torch()
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: this PyTorch finds no GPU; use --device cpu")
    torch.manual_seed(seed)
    built = MODELS[model](device, getattr(torch, dtype), seq)
    layers = built.layers
    optimisers = [torch.optim.AdamW(layer.parameters, lr=LEARNING_RATE) for layer in layers]
    runs, activation_bytes = [], [0] * len(layers)
    for _ in range(warmup + repeats):
        samples = torch.randint(built.vocabulary, (batch, seq), device=device)
        measured, activation_bytes = _training_step(layers, optimisers, samples, _Clock(device))
        runs.append(measured)
    runs = runs[warmup:]
    return Profile(
        model=built.name,
        provenance=Provenance(
            device=device,
            device_name=torch.cuda.get_device_name() if device == "cuda" else _cpu_name(),
            platform=f"{platform.system()} {platform.release()} {platform.machine()}",
            python=platform.python_version(),
            torch=torch.__version__,
            transformers=transformers.__version__,
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            batch=batch,
            seq=seq,
            dtype=dtype,
            threads=torch.get_num_threads(),
            warmup=warmup,
            repeats=repeats,
            note="random weights, training mode, AdamW; input embedding and head not tied: each stage holds its own",
        ),
        layers=tuple(
            Layer(
                name=layer.name,
                kind=layer.kind,
                forward=_timing([run[i].forward_s for run in runs]),
                backward=_timing([run[i].backward_s for run in runs]),
                update=_timing([run[i].update_s for run in runs]),
                parameter_bytes=sum(p.numel() * p.element_size() for p in layer.parameters),
                activation_bytes=activation_bytes[i],
            )
            for i, layer in enumerate(layers)
        ),
    )


def _training_step(
    layers: Sequence[ModelLayer], optimisers: Sequence[Any], samples: Any, clock: _Clock
) -> tuple[list[Measurement], list[int]]:
    """One forward, backward and update of all layers; their times, and the bytes of their outputs."""
    inputs: list[Any] = []
    outputs: list[Any] = []
    forward_marks = [clock.mark()]
    for layer in layers:
        # A leaf of its own per layer, so that its backward pass can be timed alone.
        given = outputs[-1].detach().requires_grad_() if outputs else samples
        inputs.append(given)
        outputs.append(layer.run(given, samples))
        forward_marks.append(clock.mark())
    backward_marks = [clock.mark()]
    gradient = None
    for given, output in zip(reversed(inputs), reversed(outputs), strict=True):
        output.backward(gradient)
        gradient = given.grad
        backward_marks.append(clock.mark())
    update_marks = [clock.mark()]
    for optimiser in optimisers:
        optimiser.step()
        update_marks.append(clock.mark())
    clock.finish()
    for optimiser in optimisers:
        optimiser.zero_grad(set_to_none=True)
    backward_marks.reverse()
    measured = [
        Measurement(
            clock.between_s(forward_marks[i], forward_marks[i + 1]),
            clock.between_s(backward_marks[i + 1], backward_marks[i]),
            clock.between_s(update_marks[i], update_marks[i + 1]),
        )
        for i in range(len(layers))
    ]
    return measured, [output.numel() * output.element_size() for output in outputs]


def _timing(seconds: Sequence[float]) -> Timing:
    """Median and quartiles (a single measurement has no spread)."""
    if len(seconds) < 2:
        return Timing(median_s=seconds[0], p25_s=seconds[0], p75_s=seconds[0])
    p25, median, p75 = statistics.quantiles(seconds, n=4, method="inclusive")
    return Timing(median_s=median, p25_s=p25, p75_s=p75)


def _import_torch() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise InputError(
            f"profiling needs PyTorch and transformers ({error}); install them with: scripts/setup.sh --profile"
        ) from None
    return torch, transformers


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _gpt2(name: str, layers: int, heads: int, width: int) -> Callable[[str, Any, int], BuiltModel]:
    """A builder of GPT-2 in one of its sizes (Radford et al. 2019; 1,024 positions, 50,257 tokens)."""

    def build(device: str, dtype: Any, seq: int) -> BuiltModel:
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(n_layer=layers, n_head=heads, n_embd=width, tie_word_embeddings=False, use_cache=False)
        if seq > config.n_positions:
            raise InputError(f"{name} takes at most {config.n_positions} tokens; --seq asks for {seq}")
        model = GPT2LMHeadModel(config).to(device=device, dtype=dtype).train()
        body = model.transformer
        positions = torch.arange(seq, device=device)

        def embed(tokens: Any, _: Any) -> Any:
            return body.drop(body.wte(tokens) + body.wpe(positions))

        def block(module: Any) -> Callable[[Any, Any], Any]:
            def run(hidden: Any, _: Any) -> Any:
                output = module(hidden)
                return output[0] if isinstance(output, tuple) else output  # a tuple in older transformers

            return run

        def head(hidden: Any, tokens: Any) -> Any:
            scores = model.lm_head(body.ln_f(hidden))[:, :-1]
            return torch.nn.functional.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())

        found = [ModelLayer("embedding", "embedding", [*body.wte.parameters(), *body.wpe.parameters()], embed)]
        found += [ModelLayer(f"block{i}", "block", list(m.parameters()), block(m)) for i, m in enumerate(body.h)]
        found.append(ModelLayer("head", "head", [*body.ln_f.parameters(), *model.lm_head.parameters()], head))
        return BuiltModel(name, found, config.vocab_size)

    return build


MODELS: Mapping[str, Callable[[str, Any, int], BuiltModel]] = MappingProxyType(
    {
        "gpt2": _gpt2("GPT-2 small", layers=12, heads=12, width=768),
        "gpt2-medium": _gpt2("GPT-2 medium", layers=24, heads=16, width=1024),
        "gpt2-large": _gpt2("GPT-2 large", layers=36, heads=20, width=1280),
    }
)
"""Models by the name that `echelon profile` takes: (device, dtype, tokens per sample) to the built model."""
