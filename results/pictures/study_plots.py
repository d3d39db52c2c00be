"""Pictures of the study: ratios with intervals, gaps to bounds, tardiness against iteration time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from results import colours
from results.colours import looks, policy_colour
from results.pictures import style

Ratio = tuple[float, float, float]
"""Geometric mean of ratios and its 95 % interval."""


def draw_patterns(
    path: Path, rows: Sequence[tuple[str, Mapping[str, Ratio]]], names: Sequence[str], basis: str
) -> None:
    """One line per family of cases: mean iteration time under each of `names`, relative to `basis`, with intervals."""
    with style.picture(path, 0.3 * len(rows) + 1.4) as figure:
        ax = figure.subplots()
        ax.axvline(1.0, color=colours.GREY, linewidth=0.8)
        for i, name in enumerate(names):
            shift = (i - (len(names) - 1) / 2) * 0.16
            ratios = np.array([ratios[name] for _, ratios in rows])
            places = np.arange(len(rows)) + shift
            spread = np.abs(ratios[:, 1:] - ratios[:, :1]).T
            ax.errorbar(
                ratios[:, 0], places, xerr=spread, fmt=style.MARKERS[i % len(style.MARKERS)], markersize=4,
                color=policy_colour(name), elinewidth=1.0, label=name,
            )  # fmt: skip
        ax.set_yticks(range(len(rows)), [label for label, _ in rows])
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_xlabel(f"iteration time / {basis} (geometric mean, 95 % interval)")
        figure.legend(loc="outside lower center", ncols=2)


def draw_roster(path: Path, rows: Sequence[tuple[str, Ratio, float]], basis: str) -> None:
    """All policies on mixed jobs: iteration time relative to `basis`, and the mean gap to the lower bound beside it."""
    with style.picture(path, 0.24 * len(rows) + 1.0) as figure:
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
        ratios = np.array([ratio for _, ratio, _ in rows])
        places = np.arange(len(rows))
        hues = [policy_colour(name) for name, _, _ in rows]
        spread = np.abs(ratios[:, 1:] - ratios[:, :1]).T
        left.axvline(1.0, color=colours.GREY, linewidth=0.8)
        left.errorbar(ratios[:, 0], places, xerr=spread, fmt="none", ecolor=colours.GREY, elinewidth=1.2)
        left.scatter(ratios[:, 0], places, c=hues, s=22, zorder=3)
        left.set_yticks(places, [name for name, _, _ in rows])
        left.set_ylim(len(rows) - 0.5, -0.5)
        left.set_xlabel(f"iteration time relative to {basis}")
        right.barh(places, [gap * 100 for _, _, gap in rows], color=hues, height=0.6)
        right.set_xlabel("mean gap to the lower bound (%)")


def draw_gaps(path: Path, gaps: Mapping[str, Sequence[float]], most: float = 1.0) -> None:
    """Distribution of each policy's gap to the bound; a curve further left is better."""
    with style.picture(path, 3.8) as figure:
        ax = figure.subplots()
        look_of = looks(list(gaps))
        for name, values in gaps.items():
            ordered = np.sort(np.array(values))
            ax.step(
                ordered * 100, np.arange(1, len(ordered) + 1) / len(ordered), where="post", linewidth=1.6, label=name,
                color=look_of[name].colour, linestyle=look_of[name].line,
            )  # fmt: skip
        ax.set_xlim(0, most * 100)
        ax.set_ylim(0, 1)
        ax.set_xlabel("sum of tardiness above the lower bound (%)")
        ax.set_ylabel("share of instances")
        figure.legend(loc="outside lower center", ncols=2)


def draw_property(path: Path, panels: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> None:
    """Tardiness against iteration time of many orders of the same case, both relative to the case's mean."""
    with style.picture(path, 3.4) as figure:
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for ax, (title, points) in zip(axes, panels, strict=True):
            late, long = zip(*points, strict=True)
            ax.scatter(late, long, s=6, alpha=0.35, color=colours.BLUE, linewidths=0)
            ax.axhline(1.0, color=colours.GREY, linewidth=0.6)
            ax.axvline(1.0, color=colours.GREY, linewidth=0.6)
            ax.set_xlim(0, 2)
            ax.set_title(title)
            ax.set_xlabel("sum of tardiness, relative")
        axes[0].set_ylabel("mean iteration time, relative")
