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
    return reach(n - 1) * spread / math.sqrt(n)


def reach(freedom: float) -> float:
    """How many standard errors the 95 % interval of Student's t reaches either way, of so many degrees of freedom."""
    from scipy.special import stdtrit  # where it is needed: loading it takes a quarter of a second, scipy.stats a whole

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


@dataclass(frozen=True, slots=True)
class Ratio:
    """Geometric mean of ratios of pairs, with what is known of it; null from a single pair where it takes two."""

    mean: float
    """Geometric mean over pairs: below 1 where the policy's values are the smaller ones. Computed."""
    low: float | None
    """Lower end of its 95 % interval, by Student's t of the logarithms; null from a single pair. Computed."""
    high: float | None
    """Upper end of it. Computed."""
    median: float
    """Median over pairs. Computed."""
    effect: float | None
    """Cohen's d for pairs: mean of the logarithms over their deviation; null where they do not vary. Computed."""
    p: float | None
    """How likely logarithms lie so far from 0 by chance alone: Student's t, both sides; null where they do not vary. Computed."""


def ratio_of(ratios: Sequence[float]) -> Ratio | None:
    """What `ratios` above 0 say together, None where there is none.

    Logarithms are averaged, so that a policy twice as fast and one half as fast cancel out, whichever is divided by which.
    """
    if not ratios:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    found = estimate(logs)
    assert found is not None
    if found.low is None or found.high is None:
        return Ratio(ratios[0], None, None, ratios[0], None, None)
    spread = statistics.stdev(logs)
    return Ratio(
        math.exp((found.low + found.high) / 2),
        math.exp(found.low),
        math.exp(found.high),
        statistics.median(ratios),
        statistics.fmean(logs) / spread if spread > 0 else None,
        p_value(logs) if spread > 0 else None,
    )


def p_value(differences: Sequence[float]) -> float:
    """How likely the mean of `differences` (two at least) lies so far from 0 by chance alone.

    Student's t, both sides. Where they do not vary it is 1 if all are 0, and else 0.
    """
    from scipy.special import stdtr  # where it is needed, as above

    spread = statistics.stdev(differences)
    if spread == 0:
        return 1.0 if not any(differences) else 0.0
    n = len(differences)
    return 2 * float(stdtr(n - 1, -abs(statistics.fmean(differences)) * math.sqrt(n) / spread))


def holm(p_values: Sequence[float]) -> list[float]:
    """The same, corrected for their number: below 0.05 is below it for all together (Holm, Scand. J. Statist. 6, 1979)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    found, least = [0.0] * len(p_values), 0.0
    for passed, place in enumerate(order):
        least = max(least, min((len(p_values) - passed) * p_values[place], 1.0))
        found[place] = least
    return found


def quantile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile of `values` (0 <= q <= 1), None where there are none."""
    return float(np.quantile(np.asarray(values), q)) if values else None
