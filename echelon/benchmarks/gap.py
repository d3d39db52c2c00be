"""How far each policy is from the least sum of tardiness that any scheduler could reach, on random groups.

Fluid simulation of 2 to 6 groups, staggered EchelonFlows and Coflows mixed, of weight 1 or 2, on one link and on a
leaf-spine. Their releases are known beforehand; the bound is that of `echelonflow.scheduling.bounds`. A gap is the
policy's weighted sum of tardiness over the bound, less one; it counts what the bound lacks as well. The instances of
`echelon study`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from echelon.benchmarks import Figure, Say
from echelon.study import closed, compare, contenders
from echelon.study.gaps import GOAL, gaps_of
from echelon.study.section import Scores
from results.analysis.statistics import estimate

INSTANCES = 40
"""Instances for each repeat: 200 with the usual five."""


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` times `INSTANCES` instances under every policy and every form of EchelonFlow."""
    found = []
    for number in range(repeat * INSTANCES):
        found.append(closed.measure_groups(closed.groups_case(number)))
        if number % 10 == 9:
            say(f"{number + 1} of {repeat * INSTANCES} instances")
    return figures(found)


def figures(found: Sequence[Scores]) -> list[Figure]:
    """One figure for each policy, from the weighted sums of tardiness of every instance, and its bound."""
    shown = []
    for name in compare.names(found):
        gaps = gaps_of(found, name)
        mean = estimate(gaps)
        assert mean is not None
        interval = "" if mean.low is None else f" [{mean.low:.1%}, {mean.high:.1%}]"
        near = sum(gap <= GOAL for gap in gaps) / len(gaps)
        measured = (
            f"mean {statistics.fmean(gaps):.1%}{interval}, median {mean.median:.1%}, within {GOAL:.0%}: {near:.0%}"
        )
        must = f"reported; goal: mean under {GOAL:.0%}" if contenders.is_form(name) else "reported"
        shown.append(Figure(f"gap to the bound: {name}", measured, must, None))
    return shown
