"""Pictures of tuning: the path that a search took, and how methods compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from results import colours
from results.pictures import style

MEGABYTE = 1e6


@dataclass(frozen=True, slots=True)
class Tried:
    """One sample: the options, bytes, and the iteration time; None where there is none."""

    partition_bytes: int
    credit_bytes: int
    value_s: float | None


@dataclass(frozen=True, slots=True)
class TuningPath:
    """The samples for some jobs in the order in which they were taken, and the times with the file's options and with none."""

    title: str
    default_s: float
    off_s: float | None
    """With the job scheduler left off; None where that is not known."""
    tried: Sequence[Tried]


def draw_tuning(
    path: Path,
    paths: Sequence[TuningPath],
    partition_bytes: tuple[int, int],
    credit_bytes: tuple[int, int],
) -> None:
    """For each path, iteration times sample by sample, and beside them where in the space the samples lie."""
    with style.picture(path, 3.4 * len(paths)) as figure:
        axes = figure.subplots(len(paths), 2, squeeze=False, width_ratios=[3, 2])
        for (left, right), each in zip(axes, paths, strict=True):
            _draw_times(left, each)
            _draw_places(figure, right, each, partition_bytes, credit_bytes)


def _draw_times(ax: Any, path: TuningPath) -> None:
    numbers = [i + 1 for i, tried in enumerate(path.tried) if tried.value_s is not None]
    values_s = [tried.value_s for tried in path.tried if tried.value_s is not None]
    failed = [i + 1 for i, tried in enumerate(path.tried) if tried.value_s is None]
    ax.axhline(path.default_s, color=colours.GREY, linestyle="--", label="options of the file")
    if path.off_s is not None:
        ax.axhline(path.off_s, color=colours.GREY, linestyle=":", label="left off (fifo)")
    if values_s:
        best_s = list(accumulate(values_s, min))
        ax.step(
            [*numbers, len(path.tried)], [*best_s, best_s[-1]], where="post", color=colours.BLUE, label="best so far"
        )
    ax.plot(numbers, values_s, "o", color=colours.ORANGE, ms=5, label="sample")
    for number in failed:
        ax.axvline(
            number, color=colours.VERMILION, linestyle=":", label="no valid run" if number == failed[0] else None
        )
    ax.set(xlabel="sample", ylabel="iteration (s)", title=path.title)
    ax.set_xlim(0.5, max(len(path.tried), 1) + 0.5)
    ax.legend(loc="upper right")


def _draw_places(
    figure: Any, ax: Any, path: TuningPath, partition_bytes: tuple[int, int], credit_bytes: tuple[int, int]
) -> None:
    low, high = (end / MEGABYTE for end in (partition_bytes[0], max(partition_bytes[1], partition_bytes[0] + 1)))
    bottom, top = (end / MEGABYTE for end in credit_bytes)
    ax.set(xscale="log", yscale="log", xlim=(low / 1.15, high * 1.15), ylim=(bottom / 1.15, top * 1.15))
    ax.fill_between([low / 1.15, high * 1.15], [low / 1.15, high * 1.15], bottom / 1.15, color="#eeeeee", linewidth=0)
    numbered = [(number, tried) for number, tried in enumerate(path.tried, start=1) if tried.value_s is not None]
    across = [tried.partition_bytes / MEGABYTE for _, tried in numbered]
    up = [tried.credit_bytes / MEGABYTE for _, tried in numbered]
    ax.plot(across, up, color=colours.GREY, linewidth=0.6, zorder=2)
    if numbered:
        values_s = [tried.value_s or 0.0 for _, tried in numbered]
        drawn = ax.scatter(across, up, c=values_s, cmap="viridis_r", s=42, zorder=3)
        figure.colorbar(drawn, ax=ax, label="iteration (s)")
        best = values_s.index(min(values_s))
        place = across[best], up[best]
        ax.plot(*place, "o", ms=11, mfc="none", mec=colours.VERMILION, mew=1.6, zorder=4, label="best")
        ax.legend(loc="lower right")
    for (number, _), at in zip(numbered, zip(across, up, strict=True), strict=True):
        ax.annotate(str(number), at, (4, 4), textcoords="offset points", fontsize=6)
    ax.set(xlabel="partition (MB); grey: more than the credit", ylabel="credit (MB)", title="where the samples lie")


def draw_regrets(
    path: Path, panels: Sequence[tuple[str, Mapping[str, Sequence[tuple[float, float, float]]]]], first: int = 1
) -> None:
    """Panels of curves, by method: mean regret after each sample from `first` on, and its 95 % interval, as shares."""
    with style.picture(path, 3.6) as figure:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for ax, (title, curves) in zip(axes, panels, strict=True):
            for i, (name, curve) in enumerate(curves.items()):
                numbers = range(first, len(curve) + 1)
                mean, low, high = ([100 * each[k] for each in curve[first - 1 :]] for k in range(3))
                colour = colours.GREY if name == "random" else style.PALETTE[i % len(style.PALETTE)]
                ax.plot(numbers, mean, color=colour, marker=style.MARKERS[i % len(style.MARKERS)], ms=3.5, label=name)
                ax.fill_between(numbers, low, high, color=colour, alpha=0.15, linewidth=0)
            ax.set(xlabel="samples", title=title)
            ax.set_ylim(0, 130 * max(curve[first - 1][0] for curve in curves.values()) or 1.0)
        axes[0].set_ylabel("mean regret (% of the least iteration time)")
        axes[-1].legend(loc="upper right")
