"""Compiles kernels where numba is installed (extra `fast`); elsewhere they run as they stand, with identical results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from echelonflow.scheduling.kernels import can_compile, kept_on_disk

Kernel = TypeVar("Kernel", bound=Callable[..., object])

COMPILED = can_compile()
"""Whether kernels are compiled."""


def jit(kernel: Kernel) -> Kernel:
    """`kernel`, compiled when it is first called and kept on disk."""
    if not COMPILED:
        return kernel
    compiled: Kernel = kept_on_disk(kernel, error_model="numpy")
    return compiled


def inner(kernel: Kernel) -> Kernel:
    """`kernel`, compiled for kernels that call it and never for Python, which takes much less time."""
    if not COMPILED:
        return kernel
    from numba import njit

    compiled: Kernel = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")(kernel)
    return compiled
