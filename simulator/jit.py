"""Compiles kernels where numba is installed (extra `fast`); elsewhere they run as they stand, with identical results."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable
from typing import TypeVar

from echelonflow.kernels import PLAIN_VARIABLE

Kernel = TypeVar("Kernel", bound=Callable[..., object])

COMPILED = importlib.util.find_spec("numba") is not None and not os.environ.get(PLAIN_VARIABLE)
"""Whether kernels are compiled."""


def jit(kernel: Kernel) -> Kernel:
    """`kernel`, compiled when it is first called and kept on disk."""
    if not COMPILED:
        return kernel
    from numba import njit

    compiled: Kernel
    with contextlib.suppress(RuntimeError):  # neither the package's folder nor the user's cache can be written
        compiled = njit(cache=True)(kernel)
        return compiled
    compiled = njit(kernel)
    return compiled
