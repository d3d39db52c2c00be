"""The small picture of a policy: how flows share one link over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from results.colours import BLACK
from results.pictures.style import picture

WIDTH_IN, HEIGHT_IN = 6.0, 1.7


@dataclass(frozen=True, slots=True)
class Band:
    """One flow: the spans (start, end, share of the link) in which it was served, in time units."""

    label: str
    colour: str
    spans: tuple[tuple[float, float, float], ...]


def draw_shares(path: Path, title: str, bands: Sequence[Band], ends: Sequence[tuple[float, str]]) -> None:
    """Stack `bands` in the order given, the first at the bottom, and mark `ends` (time, colour); saved as `path`, SVG.

    Bands are served together or one after the other, so each rests on what those before it use at that moment.
    """
    with picture(path.with_suffix(".png"), HEIGHT_IN, WIDTH_IN) as figure:
        axes = figure.add_subplot()
        for place, band in enumerate(bands):
            for start, end, share in band.spans:
                floor = sum(_share_at(below, (start + end) / 2) for below in bands[:place])
                axes.bar(
                    start,
                    share,
                    end - start,
                    floor,
                    align="edge",
                    color=band.colour,
                    edgecolor=band.colour,
                    linewidth=0.3,
                )
            if band.spans:
                start, end, share = max(band.spans, key=lambda span: (span[1] - span[0]) * span[2])
                middle = (start + end) / 2
                floor = sum(_share_at(below, middle) for below in bands[:place])
                axes.text(middle, floor + share / 2, band.label, ha="center", va="center", fontsize=8, color=BLACK)
        for time, colour in ends:
            axes.axvline(time, color=colour, linewidth=1.5, linestyle="--")
        axes.set(xlim=(0, max(time for time, _ in ends) * 1.02), ylim=(0, 1), xlabel="time", ylabel="share of the link")
        axes.set_title(title)
    path.with_suffix(".png").unlink()  # text is what pages need, and changes legibly


def _share_at(band: Band, time: float) -> float:
    return sum(share for start, end, share in band.spans if start <= time < end)
