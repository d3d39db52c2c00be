"""Picture of what policies bring on clusters of growing size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from results import colours
from results.colours import looks
from results.pictures import style

APART = 0.06
"""Between policies on a size of cluster, of a doubling."""


@dataclass(frozen=True, slots=True)
class Line:
    """Of a policy, by number of GPUs: iteration time over that of the basis, and its interval where there is one."""

    policy: str
    ratios: Mapping[int, tuple[float, float | None, float | None]]


def draw_scale(path: Path, panels: Mapping[str, Sequence[Line]], basis: str) -> None:
    """A panel for each load, side by side; GPUs to the right, the ratio upwards."""
    with style.picture(path, 3.6) as figure:
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        names = list(dict.fromkeys(line.policy for lines in panels.values() for line in lines))
        look_of = looks(names)
        for ax, (title, lines) in zip(axes, panels.items(), strict=True):
            ax.axhline(1.0, color=colours.GREY, linewidth=0.8)
            for line in lines:
                place = names.index(line.policy)
                # Side by side, so that intervals do not hide each other.
                places = [math.log2(count) + (place - len(names) / 2) * APART for count in line.ratios]
                means = [mean for mean, _, _ in line.ratios.values()]
                spread = [
                    [0.0 if low is None else mean - low for mean, low, _ in line.ratios.values()],
                    [0.0 if high is None else high - mean for mean, _, high in line.ratios.values()],
                ]
                ax.errorbar(
                    places, means, yerr=spread, color=look_of[line.policy].colour, linestyle=look_of[line.policy].line,
                    marker=style.MARKERS[place % len(style.MARKERS)], markersize=4, elinewidth=0.9, linewidth=1.2, label=line.policy,
                )  # fmt: skip
            counts = sorted({count for line in lines for count in line.ratios})
            ax.set_xticks([math.log2(count) for count in counts], [f"{count:,}" for count in counts])
            ax.set_title(title)
            ax.set_xlabel("GPUs")
        axes[0].set_ylabel(f"iteration time / {basis}")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
