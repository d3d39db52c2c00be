"""Pipelines of random size, unit, rate, micro-batches and stages: emulation against fluid prediction."""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from typing import Any

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import emulate
from echelon.experiment import schema
from results.analysis.valid_rows import rows

CASES = 10
TOLERANCE = 0.04
POLICIES = ["fair", "coflow(grouping=group)", "echelonflow"]


def run(repeat: int, say: Say) -> list[Figure]:
    """Ten cases under three policies, once each; `repeat` does not multiply them (it seeds them)."""
    differences: list[float] = []
    figures = []
    for case in range(CASES):
        data = draw(random.Random(1000 * repeat + case), case)
        job = data["jobs"][0]
        words = (
            f"{job['stages']} stages, {job['micro_batches']} micro-batches, unit {job['forward']}, "
            f"{job['activation']}, {data['network']['rate']}"
        )
        say(f"case {case + 1} of {CASES}: {words}")
        folder = emulate(schema.check(data, Path(f"case-{case}")), lambda _: None)
        here = [float(r["duration_s"]) / float(r["predicted_s"]) - 1 for r in rows(folder, "iterations")]
        differences += here
        worst = max(here, key=abs)
        figures.append(
            Figure(words, f"worst of three policies {worst:+.1%}", f"within {TOLERANCE:.0%}", abs(worst) <= TOLERANCE)
        )
    figures.append(Figure("median difference to the prediction", f"{statistics.median(differences):+.2%}", "", None))
    return figures


def draw(rng: random.Random, case: int) -> dict[str, Any]:
    """A random experiment of a few seconds."""
    stages = rng.choice([2, 3, 4])
    unit_ms = rng.choice([200, 300, 400, 500])
    return {
        "name": f"random-{case}",
        "network": {
            "topology": "single-switch",
            "hosts": stages,
            "rate": f"{rng.choice([20, 40, 60, 80, 100])} Mbit/s",
        },
        "jobs": [
            {
                "name": "pipeline",
                "paradigm": "pipeline",
                "stages": stages,
                "micro_batches": rng.randint(2, 6),
                "forward": f"{unit_ms} ms",
                "activation": f"{round(unit_ms * rng.uniform(0.5, 2.5))} ms of link",
            }
        ],
        "policies": POLICIES,
    }
