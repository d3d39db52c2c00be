"""The paper's example on real packets: end of the consuming stage in time units, against theory."""

from __future__ import annotations

import statistics

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import emulate, iteration_times_s, validity
from echelon.experiment import schema
from echelon.places import EXPERIMENTS

FILE = EXPERIMENTS / "pipeline.yaml"
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
        units = [value / unit_s for value in times[policy].values()]
        median = statistics.median(units)
        figures.append(
            Figure(
                f"{policy}: end of the consuming stage",
                f"{median:.3f} units ({min(units):.3f} to {max(units):.3f})",
                f"{theory} within {TOLERANCE:.0%}",
                abs(median / theory - 1) <= TOLERANCE,
            )
        )
    fair, coflow, echelon = (times[policy] for policy in THEORY_UNITS)
    complete = sorted(set(fair) & set(coflow) & set(echelon))
    in_order = sum(echelon[k] < fair[k] < coflow[k] for k in complete)
    figures.append(
        Figure(
            "repeats with echelonflow < fair < coflow",
            f"{in_order} of {len(complete)}",
            "all",
            in_order == len(complete),
        )
    )
    return [*figures, validity(folder)]
