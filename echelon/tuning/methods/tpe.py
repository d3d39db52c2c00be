"""Tree-structured Parzen estimator, of optuna (Bergstra et al., NIPS 2011; Akiba et al., KDD 2019).

Told points are split into good ones and others, and a density is laid over each. Asked next is where the ratio of the two is
largest. It is given the numbers from 0 to 1 at which points stand, so that every proposal keeps the constraint. The first points
are by chance, the same as in the other methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from echelon.tuning.methods import require
from echelon.tuning.methods._told import Told
from echelon.tuning.space import Point, Space

SUMMARY = "tree-structured Parzen estimator, of optuna"
ACROSS, UP = "across", "up"


def build(space: Space, *, samples: int, seed: int, first: int = 5) -> ParzenSearch:
    """The first points are by chance. InputError where optuna is not installed."""
    require("optuna")
    return ParzenSearch(space, seed, first)


@dataclass
class ParzenSearch(Told):
    """A study of optuna, made anew of what was told whenever it is asked: it keeps no state of its own."""

    first: int

    def ask(self) -> Point:
        """What the estimator proposes."""
        if len(self.measured) < self.first:
            return self.any_point()
        trial = self._study().ask()
        return self.space.point(trial.suggest_float(ACROSS, 0, 1), trial.suggest_float(UP, 0, 1))

    def _study(self) -> Any:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would say that there is a study
        sampler = optuna.samplers.TPESampler(n_startup_trials=0, seed=self.draw("study").randrange(1 << 32))
        study = optuna.create_study(sampler=sampler)
        one = optuna.distributions.FloatDistribution(0, 1)
        for point, value_s in self.learned:
            across, up = self.space.place(point)
            study.add_trial(
                optuna.trial.create_trial(
                    params={ACROSS: across, UP: up}, distributions={ACROSS: one, UP: one}, value=value_s
                )
            )
        return study
