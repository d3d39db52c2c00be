"""Picture of how decision times grow with the number of flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from results import colours
from results.colours import policy_colour
from results.pictures import style


@dataclass(frozen=True, slots=True)
class Curve:
    """Median milliseconds of a decision for each number of flows; `dashed` is for kernels that are not compiled."""

    name: str
    policy: str
    dashed: bool
    flows: tuple[int, ...]
    milliseconds: tuple[float, ...]


def draw_scaling(curves: Sequence[Curve], limit_ms: Mapping[int, float], path: Path) -> None:
    """Draw the curves log-log, with what a decision may take at most with so many flows."""
    with style.picture(path, 4.5, 7.0) as figure:
        axes = figure.add_subplot()
        for curve in curves:
            colour = policy_colour(curve.policy)
            line = "--" if curve.dashed else "-"
            axes.plot(curve.flows, curve.milliseconds, line, color=colour, marker="o", ms=4, label=curve.name)
        for flows, most_ms in limit_ms.items():
            axes.plot(flows, most_ms, "v", color=colours.BLACK, ms=7)
            axes.annotate(f"at most {most_ms:g} ms", (flows, most_ms), (-8, 4), textcoords="offset points", ha="right")
        axes.set(xscale="log", yscale="log", xlabel="flows in flight", ylabel="one decision (ms, median)")
        axes.set_title("Time of a decision")
        axes.legend(loc="upper left")
