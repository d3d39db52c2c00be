"""What can be told apart from chance: an effect, and how far chance alone may reach (Student's t, 95 %)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from results.analysis.statistics import reach


@dataclass(frozen=True, slots=True)
class Effect:
    """A time, or a share, and what chance may have to do with it."""

    KEYS: ClassVar[tuple[str, ...]] = ("value", "chance", "error", "freedom")

    value: float
    """What it is, in seconds or as a share. Computed."""
    error: float = 0.0
    """Its standard error; 0 where a single simulation says what it is. Computed."""
    freedom: float = 1.0
    """Degrees of freedom of that. Computed."""

    @property
    def chance(self) -> float:
        """How far chance alone reaches either way, 19 times in 20. Computed."""
        return reach(self.freedom) * self.error if self.error > 0 else 0.0

    @property
    def beyond(self) -> float:
        """What of it is more than chance; it has the sign of the whole."""
        return math.copysign(max(abs(self.value) - self.chance, 0.0), self.value)

    def over(self, whole: float) -> Effect:
        """The same as a share of `whole`; none of nothing."""
        return Effect(self.value / whole, self.error / whole, self.freedom) if whole > 0 else Effect(0.0)


def difference(after: Sequence[float], before: Sequence[float]) -> Effect:
    """How far the mean of some draws (two at least) lies above that of others (Welch, Biometrika 34, 1947); nothing if they are the same."""
    if after == before:
        return Effect(0.0)
    return mean([_mean_of(after), _negative(_mean_of(before))], whole=1)


def one_more(value: float, draws: Sequence[float]) -> Effect:
    """How far a value lies above the mean of some draws (two at least), if it is one more of them."""
    spread = statistics.stdev(draws)
    return Effect(value - statistics.fmean(draws), spread * math.sqrt(1 + 1 / len(draws)), len(draws) - 1)


def mean(effects: Sequence[Effect], whole: int | None = None) -> Effect:
    """The mean of effects that chance moves apart, one at least: their sum over their number, or over `whole`.

    Degrees of freedom are those of Welch and Satterthwaite.
    """
    number = whole or len(effects)
    variance = math.fsum(one.error**2 for one in effects)
    freedom = math.fsum(one.error**4 / one.freedom for one in effects)
    value = math.fsum(one.value for one in effects) / number
    return Effect(value, math.sqrt(variance) / number, variance**2 / freedom if freedom > 0 else 1.0)


def _mean_of(draws: Sequence[float]) -> Effect:
    return Effect(statistics.fmean(draws), statistics.stdev(draws) / math.sqrt(len(draws)), len(draws) - 1)


def _negative(effect: Effect) -> Effect:
    return Effect(-effect.value, effect.error, effect.freedom)
