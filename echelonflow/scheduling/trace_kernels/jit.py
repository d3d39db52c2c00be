"""Compiles kernels where numba is installed (extra `fast`); elsewhere they run as they stand, with identical results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from echelonflow.scheduling.kernels import can_compile, kept_on_disk, renewed_with

Kernel = TypeVar("Kernel", bound=Callable[..., object])

COMPILED = can_compile()
"""Whether kernels are compiled."""


def jit(kernel: Kernel) -> Kernel:
    """`kernel`, compiled when it is first called and kept on disk."""
    if not COMPILED:
        return kernel
    compiled: Kernel = kept_on_disk(kernel)
    return compiled


def inner(kernel: Kernel) -> Kernel:
    """`kernel`, compiled for kernels that call it and never for Python, which takes much less time."""
    if not COMPILED:
        return kernel
    from numba import njit

    compiled: Kernel = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(kernel)
    return compiled


def leaf(kernel: Kernel) -> Kernel:
    """`inner` for what makes no arrays and no parts of arrays: those it is handed are not counted, which takes half the time."""
    if not COMPILED:
        return kernel
    from numba import njit

    compiled: Kernel = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)(kernel)
    return compiled


def is_ready(kernel: Callable[..., object]) -> bool:
    """Whether a kernel that is compiled can be called at once: it was called before, or is kept on disk as it is."""
    if getattr(kernel, "signatures", ()):
        return True
    kept = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    return kept is not None and bool(kept._load_index())  # noqa: SLF001 no public way


def kept_with(*modules: ModuleType) -> Callable[[Kernel], Kernel]:
    """What is kept on disk of a kernel is made anew where `modules`, of which it calls functions, have changed, or their folders."""

    def stamped(kernel: Kernel) -> Kernel:
        if COMPILED:
            files = [__file__, *(module.__file__ or "" for module in modules)]  # how things are compiled is said here
            for folder in sorted({Path(file).parent for file in files}):
                renewed_with(kernel, folder)
        return kernel

    return stamped
