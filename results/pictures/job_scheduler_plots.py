"""Picture of what job schedulers bring: speed-up over bandwidth, a panel for each model and architecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from results import colours
from results.pictures import style

_PANEL_IN = (3.0, 2.3)


@dataclass(frozen=True, slots=True)
class Panel:
    """One model on one architecture: by label, a speed-up for each bandwidth (None: not known), and what is ideal."""

    title: str
    gbit: Sequence[float]
    speed_ups: Mapping[str, Sequence[float | None]]
    ideal: Sequence[float]


def draw_speed_ups(path: Path, panels: Sequence[Panel], columns: int) -> None:
    """Draw the panels row by row, `columns` beside each other, with one legend for all."""
    rows = -(-len(panels) // columns)
    width_in, height_in = _PANEL_IN
    with style.picture(path, height_in * rows + 0.6, width_in * columns) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
        labels = list(dict.fromkeys(label for panel in panels for label in panel.speed_ups))
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for place, (axes, panel) in enumerate(zip(grid.flat, panels, strict=False)):
            axes.axhline(1, color=colours.GREY, linewidth=0.8)
            axes.plot(panel.gbit, panel.ideal, "--", color=colours.BLACK, linewidth=1.2, label="ideal overlap (bound)")
            for i, label in enumerate(labels):
                points = [
                    (x, y) for x, y in zip(panel.gbit, panel.speed_ups.get(label, ()), strict=False) if y is not None
                ]
                if points:
                    axes.plot(
                        *zip(*points, strict=True),
                        color=style.PALETTE[i], marker=style.MARKERS[i], markersize=4, linewidth=1.2, label=label,
                    )  # fmt: skip
            axes.set_xscale("log")
            axes.set_title(panel.title)
            if place % columns == 0:
                axes.set_ylabel("times as fast as fifo")
            if place // columns == rows - 1:
                axes.set_xlabel("Gbit/s")
        handles = {
            h.get_label(): h for axes in grid.flat for h in axes.get_lines() if not str(h.get_label()).startswith("_")
        }
        figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=4)
