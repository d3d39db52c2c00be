"""Orders reused over iterations: recomputations saved, and what that costs in iteration time.

Fluid simulation of random pipelines (forward only, GPipe, one-forward-one-backward), alone and 2 to 4 jobs that share
one link or a leaf-spine. Each case is simulated twice: with the order computed in every decision, and with orders
remembered.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from echelon.benchmarks import Figure, Say
from echelon.benchmarks.forms import relative
from echelon.cases.random_jobs import TOPOLOGIES, Case, draw
from echelonflow.scheduling import policies
from results.analysis.rows import iteration_rows
from simulator.fluid import simulate

CASES = 6
"""Cases on each topology, for each repeat."""
ITERATIONS = 20
PATTERNS = ("pipeline", "gpipe", "1f1b")
ORDERS = ("job", "due", "remaining", "tardiness")
MOST_LOST = 0.01


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` times `CASES` cases on each topology."""
    figures = []
    for topology, (jobs, words) in itertools.product(TOPOLOGIES, ((1, "a job alone"), (0, "2 to 4 jobs"))):
        seeds = [f"reuse {topology} {n}" for n in range(CASES * repeat)]
        cases = [draw(random.Random(seed), topology, PATTERNS, jobs=jobs, iterations=ITERATIONS) for seed in seeds]
        for order in ORDERS:
            figures.append(compare(cases, order, f"{topology}, {words}: order={order}"))
            say(f"{topology}, {words}: order={order}, {len(cases)} cases")
    return figures


def compare(cases: Sequence[Case], order: str, what: str, options: str = "") -> Figure:
    """Both ways over all cases; `options` of the memory as in the policy's text."""
    always, reused, decisions, recomputations = [], [], 0, 0
    for case in cases:
        always.append(_iteration_s(case, policies.load(f"echelonflow(order={order})")))
        policy = policies.load(f"echelonflow(order={order},reuse=iterations{options})")
        reused.append(_iteration_s(case, policy))
        counters = policy.counters()
        decisions += counters["decisions"]
        recomputations += counters["recomputations"]
    ratio, low, high = relative(reused, always)
    measured = (
        f"{1 - recomputations / decisions:.1%} of {decisions:,} recomputations saved, iterations {ratio - 1:+.2%} "
        f"({low - 1:+.2%} to {high - 1:+.2%})"
    )
    return Figure(what, measured, f"less than {MOST_LOST:.0%} longer", ratio - 1 < MOST_LOST)


def _iteration_s(case: Case, policy: policies.Policy) -> float:
    rows = iteration_rows(simulate(case.jobs, case.network, policy), case.jobs)
    return sum(row.duration_s for row in rows) / len(rows)
