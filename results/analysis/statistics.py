"""Medians and intervals over runs (not over iterations: those of one run are not independent)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """Median over runs, and Student's t interval of the mean over runs; no interval from a single run."""

    median: float
    """Median over the valid runs; unit as of the key that holds it. Computed."""
    low: float | None
    """Lower end of the 95 % interval of the mean; null from a single run. Computed."""
    high: float | None
    """Upper end of it. Computed."""
    n: int
    """Number of valid runs. Computed."""


def estimate(values: Sequence[float]) -> Estimate | None:
    """The estimate from one value per run, None where there is none."""
    if not values:
        return None
    median, n = statistics.median(values), len(values)
    if n == 1:
        return Estimate(median, None, None, 1)
    mean, half = statistics.fmean(values), half_width(statistics.stdev(values), n)
    return Estimate(median, mean - half, mean + half, n)


def half_width(spread: float, n: int) -> float:
    """How far Student's t interval of the mean of `n` values (2 at least) reaches either way; `spread` is their deviation."""
    from scipy.special import stdtrit  # where it is needed: loading it takes a quarter of a second, scipy.stats a whole

    return float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * spread / math.sqrt(n)


def quantile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile of `values` (0 <= q <= 1), None where there are none."""
    return float(np.quantile(np.asarray(values), q)) if values else None
