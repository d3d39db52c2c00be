"""What orders go by, of flows and sets of flows, where more than one policy or form needs it."""

from __future__ import annotations

import numpy as np

from echelonflow.model.arrays import Ints
from echelonflow.scheduling.snapshot import JobTable

_STEPS_PER_E = 1e9
"""Intensities are ordered by their logarithm in such steps: a difference of 1e-9 of one is rounding."""


def drawn(ids: Ints, seed: int) -> Ints:
    """A number for each id, as good as random, that depends on nothing but the id and the seed."""
    bits = ids.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Ints = (bits ^ (bits >> np.uint64(31))).astype(np.int64)
    return found


def intensity(jobs: JobTable) -> Ints:
    """Logarithm of computation over time alone of each job, in whole steps; below all others where none was declared."""
    declared = jobs.compute_s > 0
    logarithm = np.log(np.where(declared, jobs.compute_s, 1.0)) - np.log(jobs.alone_s)
    return np.where(declared, np.rint(logarithm * _STEPS_PER_E), -(2.0**62)).astype(np.int64)
