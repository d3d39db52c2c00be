"""Bayesian optimisation as ByteScheduler tunes: a Gaussian process with expected improvement (Peng et al., SOSP 2019).

The process (Matérn 5/2, a length of its own for each option, noise; scikit-learn) is fitted to the logarithms of the times,
less their mean, over their standard deviation. Asked next is where the expected improvement on the best is largest:
the mean of max(best - xi - y, 0) by the process (Močkus 1978; Jones et al. 1998).

**Differences from the original.** It takes 10 of its 15 points by chance, which `gp(first=10)` does; the default of 5 leaves
more to the process. Its xi of 0.1 is in the units of its speeds, here it is in standard deviations. The constraint that
a credit holds a partition is ours.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from echelon.tuning.methods import require
from echelon.tuning.methods._told import Told
from echelon.tuning.space import Point, Space
from echelonflow.errors import InputError

SUMMARY = "Gaussian process with expected improvement, as ByteScheduler has it (scikit-learn)"
CANDIDATES, NEAR = 1000, 200
"""Points that are looked at: anywhere first, then near the best of those."""
SPREAD = 0.04
"""How far those lie from it, in shares of the space (standard deviation)."""
RESTARTS = 1


def build(space: Space, *, samples: int, seed: int, first: int = 5, xi: float = 0.1) -> GaussianProcessSearch:
    """The first points are by chance; `xi` is the improvement that is not worth a try, in standard deviations.

    InputError for an xi below 0, and where scikit-learn is not installed.
    """
    if not 0 <= xi < math.inf:
        raise InputError(f"method gp: xi: {xi:g} is not a number from 0 on; the original has 0.1")
    require("sklearn.gaussian_process")
    return GaussianProcessSearch(space, seed, first, xi)


@dataclass
class GaussianProcessSearch(Told):
    """A Gaussian process over what was told."""

    first: int
    xi: float

    def ask(self) -> Point:
        """The point of the largest expected improvement."""
        if len(self.measured) < self.first:
            return self.any_point()
        values = np.log([value_s for _, value_s in self.learned])
        spread = float(values.std()) or 1.0
        process = self._fitted((values - values.mean()) / spread)
        draw = self.draw("candidates")
        anywhere = [(draw.random(), draw.random()) for _ in range(CANDIDATES)]
        across, up = self._best(process, anywhere)
        near = [(draw.gauss(across, SPREAD), draw.gauss(up, SPREAD)) for _ in range(NEAR)]
        return self.space.point(*self._best(process, [(across, up), *near]))

    def _fitted(self, values: Any) -> Any:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import Matern, WhiteKernel

        kernel = Matern(length_scale=(0.5, 0.5), length_scale_bounds=(0.05, 5.0), nu=2.5)
        noise = WhiteKernel(noise_level=1e-3, noise_level_bounds=(1e-6, 0.3))
        process = GaussianProcessRegressor(kernel + noise, n_restarts_optimizer=RESTARTS, random_state=self._whole())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound is an answer
            process.fit([self.space.coordinates(point) for point, _ in self.learned], values)
        return process

    def _whole(self) -> int:
        return self.draw("fit").randrange(1 << 32)

    def _best(self, process: Any, places: list[tuple[float, float]]) -> tuple[float, float]:
        """The place of the largest expected improvement; the first of several."""
        coordinates = [self.space.coordinates(self.space.point(*place)) for place in places]
        mean, spread = process.predict(coordinates, return_std=True)
        # The best is what the process makes of the points told: a lucky measurement is none. Nor is noise a hope of gain.
        best = float(process.predict(process.X_train_).min())
        certain = np.sqrt(np.maximum(spread**2 - process.kernel_.k2.noise_level, 0.0))
        return places[int(np.argmax(expected_improvement(mean, certain, best, self.xi)))]


def expected_improvement(mean: Any, spread: Any, best: float, xi: float) -> Any:
    """How much less than `best` - `xi` is expected of normal values with these means and standard deviations."""
    from scipy.special import ndtr

    gain = best - xi - mean
    safe = np.maximum(spread, 1e-12)
    z = gain / safe
    return np.maximum(gain * ndtr(z) + safe * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi), 0.0)
