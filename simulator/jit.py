"""Compiles kernels where numba is installed (extra `fast`); elsewhere they run as they stand, with identical results."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

Kernel = TypeVar("Kernel", bound=Callable[..., object])

try:
    from numba import njit
except ImportError:
    njit = None

COMPILED = njit is not None and not os.environ.get("ECHELON_PLAIN")
"""Whether kernels are compiled. ECHELON_PLAIN=1 in the environment says no."""


def jit(kernel: Kernel) -> Kernel:
    """`kernel`, compiled when it is first called and kept on disk."""
    compiled: Kernel = njit(cache=True)(kernel) if COMPILED else kernel
    return compiled
