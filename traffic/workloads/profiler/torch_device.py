"""PyTorch as the profiler uses it: clock, optimisers, seed, and what is to be said of the device."""

from __future__ import annotations

import importlib
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from echelonflow.errors import InputError

LEARNING_RATE = 1e-4


def require(name: str) -> Any:
    """The module `name`, of the extra "profile" (InputError with the remedy where it is not installed)."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"profiling this model needs {name} ({error}); install it with: scripts/setup.sh --profile"
        ) from None


class TorchDevice:
    """A CPU or GPU under PyTorch. InputError if PyTorch is not installed or the GPU is not there."""

    def __init__(self, name: Literal["cpu", "cuda"]) -> None:
        self._torch = require("torch")
        self.name: Literal["cpu", "cuda"] = name
        if name == "cuda" and not self._torch.cuda.is_available():
            raise InputError("--device cuda: this PyTorch finds no GPU; use --device cpu")

    @property
    def full_name(self) -> str:
        return str(self._torch.cuda.get_device_name()) if self.name == "cuda" else _cpu_name()

    @property
    def threads(self) -> int:
        return int(self._torch.get_num_threads())

    def dtype(self, name: str) -> Any:
        return getattr(self._torch, name)

    def seed(self, seed: int) -> None:
        self._torch.manual_seed(seed)

    def clock(self) -> TorchClock:
        return TorchClock(self.name)

    def optimiser(self, kind: Literal["AdamW", "SGD"], parameters: Sequence[Any]) -> Any | None:
        """An optimiser of `parameters`; None if there are none."""
        if not parameters:
            return None
        if kind == "SGD":
            return self._torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9)
        return self._torch.optim.AdamW(parameters, lr=LEARNING_RATE)

    def fault(self, error: Exception) -> InputError | None:
        """What to tell the user of an error that a smaller or different request avoids; None for any other."""
        text = str(error)
        if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
            return InputError(f"the model does not fit into the memory of {self.name}; give a smaller --batch or --seq")
        if isinstance(error, RuntimeError) and "not implemented for" in text:
            return InputError(f"PyTorch on {self.name} cannot run this model so: {text}; use another --dtype")
        return None


class TorchClock:
    """Marks on the device's own time line: CUDA events on a GPU, perf_counter on a CPU."""

    def __init__(self, device: str) -> None:
        self._cuda = require("torch").cuda if device == "cuda" else None

    def mark(self) -> Any:
        if self._cuda is None:
            return time.perf_counter()
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def finish(self) -> None:
        if self._cuda is not None:
            self._cuda.synchronize()

    def between_s(self, first: Any, last: Any) -> float:
        """Seconds between two marks, once `finish` has been called."""
        return float(first.elapsed_time(last)) / 1e3 if self._cuda is not None else last - first


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
