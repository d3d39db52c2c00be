"""How far a policy is from the bound, in every instance measured."""

from __future__ import annotations

from collections.abc import Sequence

from echelon.study.section import Scores

GOAL = 0.10
"""A policy is near the bound where its weighted sum of tardiness is so little above it."""


def gaps_of(found: Sequence[Scores], name: str) -> list[float]:
    """The policy's gap in every instance: 0.1 is 10 % above the bound."""
    return [scores[name][0] / scores["bound"][0] - 1 for scores in found]
