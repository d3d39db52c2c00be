"""Picture of several experiments side by side: exposed communication under every policy, emulated and fluid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from results import colours
from results.analysis.side_by_side import Cell, by_row
from results.colours import policy_colour
from results.pictures import style

_ROW_IN = 0.36
_SPREAD = 0.62
"""Share of a row over which its policies are spread."""


def draw_paradigms(path: Path, found: Sequence[Cell], policies: Sequence[str]) -> bool:
    """Draw a row per experiment and job, the first policy's emulated median being 100 %; False where there is none.

    A filled mark is the median over runs with its 95 % interval, an upright line what fluid simulation says.
    Rows in which the first policy has no valid run are left out: there is nothing to divide by.
    """
    rows = {
        row: mine
        for row, mine in by_row(found).items()
        if policies[0] in mine and mine[policies[0]].result.exposed_s is not None
    }
    if not rows:
        return False
    with style.picture(path, _ROW_IN * len(rows) + 1.3, 8.0) as figure:
        axes = figure.add_subplot()
        for y, mine in enumerate(rows.values()):
            first = mine[policies[0]].result.exposed_s
            assert first is not None
            for place, policy in enumerate(policies):
                if policy in mine:
                    at = y + _SPREAD * (place / max(len(policies) - 1, 1) - 0.5)
                    _mark(axes, mine[policy], at, first.median, place)
            if y:
                axes.axhline(y - 0.5, color="#dddddd", linewidth=0.6)
        axes.axvline(100, color=colours.GREY, linewidth=0.8)
        names = [experiment if job == "gpt2" else f"{experiment}: {job}" for experiment, job in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"exposed communication (% of that under {policies[0]}, emulated)")
        axes.grid(visible=False, axis="y")
        figure.legend(handles=_legend(policies), loc="outside lower center", ncols=3)
    return True


def _mark(axes: Any, cell: Cell, y: float, full_s: float, place: int) -> None:
    result, colour = cell.result, policy_colour(cell.result.policy)
    found = result.exposed_s
    if found is not None:
        if found.low is not None and found.high is not None:
            axes.plot([100 * found.low / full_s, 100 * found.high / full_s], [y, y], color=colour, linewidth=1.4)
        axes.plot(100 * found.median / full_s, y, style.MARKERS[place], color=colour, markersize=4.5)
    if result.predicted is not None:
        fluid = 100 * result.predicted.exposed_s / full_s
        axes.plot(fluid, y, "|", color=colours.BLACK, markersize=11, markeredgewidth=1.0)


def _legend(policies: Sequence[str]) -> list[Line2D]:
    handles = [
        Line2D([], [], color=policy_colour(policy), marker=style.MARKERS[i], markersize=5, label=policy)
        for i, policy in enumerate(policies)
    ]
    fluid = Line2D([], [], color=colours.BLACK, marker="|", linestyle="", markersize=11)
    fluid.set_label("fluid simulation")
    return [*handles, fluid]
