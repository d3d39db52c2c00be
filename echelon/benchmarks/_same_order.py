"""Whether what fluid simulation tells apart comes in the same order on packets."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from echelon.benchmarks import Figure

Times = Mapping[str, tuple[float, float]]
"""By what is compared: the same on packets and in fluid simulation."""
APART = 0.05
"""Relative: what is closer in fluid simulation is not told apart."""


def pairs_kept(times: Mapping[str, Times]) -> tuple[int, list[str]]:
    """Of each two within an entry that are apart in fluid: how many are in the same order on packets, and which are not."""
    kept, turned = 0, []
    for name, entry in times.items():
        for one, other in itertools.combinations(entry, 2):
            (one_s, one_fluid_s), (other_s, other_fluid_s) = entry[one], entry[other]
            if abs(one_fluid_s / other_fluid_s - 1) <= APART:
                continue
            if (one_s < other_s) == (one_fluid_s < other_fluid_s):
                kept += 1
            else:
                turned.append(f"{name}: {one} and {other}")
    return kept, turned


def same_order(what: str, words: str, times: Mapping[str, Times], must: str) -> Figure:
    """The figure of that, for `what` is compared ("policies") and which runs count (`words`); demanded if it `must` be "all"."""
    kept, turned = pairs_kept(times)
    shown = f"{kept} of {kept + len(turned)} pairs" + "".join(f". Not {pair}" for pair in turned)
    said = f"{what} over {APART:.0%} apart in fluid: the same order on packets, {words}"
    return Figure(said, shown, must, not turned if must == "all" else None)
