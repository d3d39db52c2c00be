"""The paper's example on real packets: end of the consuming stage in time units, against theory."""

from __future__ import annotations

import statistics
from pathlib import Path

from experiments import schema
from experiments.benchmarks import Figure, Say
from experiments.benchmarks._emulated import emulate, iteration_times_s

FILE = Path(__file__).parents[1] / "pipeline.yaml"
THEORY_UNITS = {"fair": 8.5, "coflow(grouping=group)": 10.0, "echelonflow": 8.0}
TOLERANCE = 0.03


def run(repeat: int, say: Say) -> list[Figure]:
    """pipeline.yaml, `repeat` times each policy; medians, and the order in every single repeat."""
    experiment = schema.load(FILE, {"repeats": repeat})
    folder = emulate(experiment, say)
    times = iteration_times_s(folder)
    figures = []
    for policy, theory in THEORY_UNITS.items():
        unit_s = experiment.time_unit_s or 1.0
        units = [value / unit_s for value in times[policy]]
        median = statistics.median(units)
        figures.append(
            Figure(
                f"{policy}: end of the consuming stage",
                f"{median:.3f} units ({min(units):.3f} to {max(units):.3f})",
                f"{theory} within {TOLERANCE:.0%}",
                abs(median / theory - 1) <= TOLERANCE,
            )
        )
    in_order = sum(
        echelon < fair < coflow
        for fair, coflow, echelon in zip(*(times[policy] for policy in THEORY_UNITS), strict=True)
    )
    figures.append(
        Figure("repeats with echelonflow < fair < coflow", f"{in_order} of {repeat}", "all", in_order == repeat)
    )
    return figures
