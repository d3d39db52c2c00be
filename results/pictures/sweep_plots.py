"""Pictures of a sweep: maps of two values that were varied, curves along one, and the distribution of ratios."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, Normalize

from results import colours
from results.analysis.across import Comparisons
from results.analysis.explored import Axis, Drawable, axes_of
from results.colours import looks
from results.pictures import style

MOST_MAPS = 6
"""In one picture, unless all is asked for."""
_MOST_BESIDE = 3
_FIELD_IN = 0.26
"""Height of a field of a map on a screen."""
_TITLE_IN = 0.32
_WORDS_IN = 1.3
"""What all maps need below: values and path of what is across, the range of colours and its words."""
_MOST_HEIGHT_IN = 40.0
_LETTER_IN = 0.068
"""Width of a letter of a tick on a screen."""
_PATH_LETTERS = 18
"""Of a path up an axis: longer ones have a line for each part."""
_MOST_THICKER = 3.0
_NUMBER_LETTERS = 5
_MOST_LABELS = 24
"""Of an axis: of more values, as many have a label as can be read."""


def draw_sweep(folder: Path, found: Comparisons, *, whole: bool = False, page: style.Page = style.SCREEN) -> list[Path]:
    """Draw what was `found` into `folder`: maps.png, curves.png and ratios.png, and each as SVG; returns the PNG files.

    Maps are of the first two values that were varied, curves along the first; with the `whole`, more files are of each
    other two, and along each other one. What there are no numbers for is not drawn.
    """
    drawn = Drawable.of(found)
    axes = [axis for axis in axes_of(found.rows) if len(axis.values) > 1]
    pairs = list(itertools.combinations(axes, 2))
    along: list[Axis | None] = [*axes] or [None]
    made: list[Path] = []
    if not drawn.numbers:
        return made
    for number, (across, up) in enumerate(pairs if whole else pairs[:1]):
        made.append(_numbered(folder, "maps", number))
        _draw_maps(made[-1], drawn, across, up, whole=whole, page=page)
    for number, axis in enumerate(along if whole else along[:1]):
        made.append(_numbered(folder, "curves", number))
        _draw_curves(made[-1], drawn, axis, page)
    if drawn.is_ratio:
        made.append(folder / "ratios.png")
        _draw_ratios(made[-1], drawn, page)
    return made


def _numbered(folder: Path, name: str, number: int) -> Path:
    return folder / (f"{name}-{number + 1}.png" if number else f"{name}.png")


def _draw_maps(path: Path, drawn: Drawable, across: Axis, up: Axis, *, whole: bool, page: style.Page) -> None:
    """A map for each policy, with one range of colours; a field is the geometric mean over all else."""
    means = drawn.means(across, up)
    policies = drawn.policies if whole else drawn.policies[:MOST_MAPS]
    beside = 1 if page.narrow else min(_MOST_BESIDE, len(policies))
    below = math.ceil(len(policies) / beside)
    width_in = page.width_in / beside * 0.8
    turned = _crowded(across, width_in, page)
    letters_in = max(map(len, across.values)) * _LETTER_IN if turned else 0.0
    height_in = below * (len(up.values) * _FIELD_IN + _TITLE_IN) + _WORDS_IN + letters_in
    low, high = _range(list(means.values()), is_ratio=drawn.is_ratio)
    ramp = colours.RATIO_RAMP if drawn.is_ratio else colours.VALUE_RAMP
    if drawn.is_ratio and drawn.more_is_better:
        ramp = ramp[::-1]
    look = LinearSegmentedColormap.from_list("ramp", ramp)
    with style.picture(path, min(page.inches(height_in), _MOST_HEIGHT_IN), page=page) as figure:
        panels = figure.subplots(below, beside, squeeze=False)
        mesh: Any = None
        for ax in panels.flat[len(policies) :]:
            ax.set_axis_off()
        for place, (ax, policy) in enumerate(zip(panels.flat, policies, strict=False)):
            fields = np.array([[means.get((policy, x, y), math.nan) for x in across.values] for y in up.values])
            shown = np.log(fields) if drawn.is_ratio else fields
            mesh = ax.pcolormesh(shown, cmap=look, norm=Normalize(low, high), edgecolors="white", linewidth=0.8)
            _write_numbers(ax, fields, mesh, width_in, page)
            ax.set_title(style.beside_axis(policy))
            ax.grid(visible=False)
            lowest, first = place + beside >= len(policies), place % beside == 0
            _ticks(ax.xaxis, across, turned=turned, named=lowest)
            _ticks(ax.yaxis, up, named=first)
            ax.set_xlabel(across.path if lowest else "")
            ax.set_ylabel(_in_lines(up.path) if first else "")
        left_out = len(drawn.policies) - len(policies)
        note = f"\n{left_out} more policies are left out; --pictures all draws all" if left_out else ""
        bar = figure.colorbar(mesh, ax=panels, location="bottom", shrink=0.7, aspect=36)
        bar.set_label(drawn.words + note)
        ends = np.linspace(low, high, 5).tolist()
        bar.set_ticks(ends, labels=[f"{math.exp(end) if drawn.is_ratio else end:.3g}" for end in ends])
        bar.outline.set_visible(False)


def _range(values: Sequence[float], *, is_ratio: bool) -> tuple[float, float]:
    """The ends of the colours: of ratios their logarithms, as far to either side of 1; of values the least and the most."""
    if is_ratio:
        far = max(0.01, *(abs(math.log(value)) for value in values))
        return -far, far
    return min(values), max(values)


def _write_numbers(ax: Any, fields: Any, mesh: Any, width_in: float, page: style.Page) -> None:
    """The number of each field, where it has room for letters that can be read."""
    size_pt = page.points(7)
    if width_in / fields.shape[1] < _NUMBER_LETTERS * _LETTER_IN * size_pt / 9:
        return
    for (row, column), value in np.ndenumerate(fields):
        if math.isnan(value):
            continue
        face = mesh.to_rgba(mesh.get_array()[row, column])
        dark = colours.is_dark("#" + "".join(f"{round(part * 255):02X}" for part in face[:3]))
        ax.text(
            column + 0.5, row + 0.5, f"{value:.3g}", ha="center", va="center", fontsize=size_pt, color="white" if dark else "black",
        )  # fmt: skip


def _ticks(axis: Any, of: Axis, *, turned: bool = False, named: bool = True) -> None:
    """Values as labels in the middle of fields; marks alone where another picture has the names."""
    places = range(0, len(of.values), _step(of))
    labels = [style.beside_axis(of.values[place] or "-") if named else "" for place in places]
    axis.set_ticks([place + 0.5 for place in places], labels, **({"rotation": 90} if turned else {}))


def _crowded(axis: Axis, width_in: float, page: style.Page) -> bool:
    """Whether labels have to be turned to stand beside each other."""
    letters = sum(len(value) + 2 for value in axis.values[:: _step(axis)])
    return letters * _LETTER_IN * page.points(9) / 9 > width_in


def _step(axis: Axis) -> int:
    """Of so many values one has a label."""
    return math.ceil(len(axis.values) / _MOST_LABELS)


def _in_lines(path: str) -> str:
    return path if len(path) <= _PATH_LETTERS else path.replace(".", ".\n")


def _thickness(place: int, of: int) -> float:
    """Of a curve that may lie below later ones: so much thicker that it is seen on either side of them."""
    return 1.4 + min(0.9 * (of - 1 - place), _MOST_THICKER)


def _draw_curves(path: Path, drawn: Drawable, axis: Axis | None, page: style.Page) -> None:
    """A curve for each policy along an axis, over all else; without an axis, over the jobs."""
    jobs = list(dict.fromkeys(row.job for row, _ in drawn.numbers))
    shown = Axis("job", jobs) if axis is None else axis
    means = drawn.means(axis)
    look_of = looks(drawn.policies)
    turned = _crowded(shown, page.width_in * 0.85, page)
    height_in = 3.2 + (max(map(len, shown.values)) * _LETTER_IN if turned else 0)
    with style.picture(path, page.inches(height_in), page=page) as figure:
        ax = figure.subplots()
        for i, policy in enumerate(drawn.policies):
            thick = _thickness(i, len(drawn.policies))
            places = [place for place, value in enumerate(shown.values) if (policy, value) in means]
            ax.plot(
                [place + 0.5 for place in places], [means[policy, shown.values[place]] for place in places],
                color=look_of[policy].colour, linestyle=look_of[policy].line if axis is not None else "none",
                marker=style.MARKERS[i % len(style.MARKERS)], markersize=page.points(9) / 2 + thick, linewidth=thick,
                label=style.beside_axis(policy),
            )  # fmt: skip
        if drawn.is_ratio:
            ax.axhline(1.0, color=colours.GREY, linewidth=0.8, zorder=1)
        _ticks(ax.xaxis, shown, turned=turned)
        ax.set_xlim(0, len(shown.values))
        ax.set_xlabel(shown.path)
        ax.set_ylabel(drawn.words)
        ax.grid(visible=False, axis="x")
        figure.legend(loc="outside lower center", ncols=page.columns(4))


def _draw_ratios(path: Path, drawn: Drawable, page: style.Page) -> None:
    """Share of conditions and jobs in which the ratio of a policy is no larger."""
    look_of = looks(drawn.policies)
    with style.picture(path, page.inches(3.2), page=page) as figure:
        ax = figure.subplots()
        for i, policy in enumerate(drawn.policies):
            values, share = style.distribution([number for row, number in drawn.numbers if row.policy == policy])
            ax.step(
                [values[0], *values], [0.0, *share], where="post", color=look_of[policy].colour,
                linewidth=_thickness(i, len(drawn.policies)), linestyle=look_of[policy].line, label=style.beside_axis(policy),
            )  # fmt: skip
        ax.axvline(1.0, color=colours.GREY, linewidth=0.8, zorder=1)
        ax.set_ylim(0, 1)
        ax.set_xlabel(drawn.words)
        ax.set_ylabel("share of conditions and jobs")
        figure.legend(loc="outside lower center", ncols=page.columns(4))
