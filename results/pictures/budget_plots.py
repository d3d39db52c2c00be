"""Where the time of an iteration went, as bars: what each cause added, policy by policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from results import colours
from results.analysis.budget import PARTS, JobBudget
from results.analysis.summary import PolicyResult, Summary
from results.pictures import style

_COLOURS = dict(
    zip(
        (name for name, _ in PARTS),
        (colours.GREY, colours.GREEN, colours.BLUE, colours.SKY, colours.ORANGE, colours.VERMILION),
        strict=True,
    )
)


def draw_budgets(path: Path, summary: Summary, *, page: style.Page = style.SCREEN) -> bool:
    """One bar per policy and job: the ideal in full to the left, what was added to it magnified to the right."""
    explained = [result for result in summary.results if result.budget is not None]
    if not explained:
        return False
    jobs = list(dict.fromkeys(result.job for result in explained))
    height_in = page.inches(0.42 * len(explained) + 0.75 * len(jobs) + (1.0 if page.narrow else 0.6))
    with style.picture(path, height_in, page=page) as figure:
        heights = [sum(result.job == job for result in explained) + 1 for job in jobs]
        grid = figure.subplots(len(jobs), 2, squeeze=False, height_ratios=heights, width_ratios=(1, 2))
        for line, job in zip(grid, jobs, strict=True):
            mine = [result for result in explained if result.job == job]
            _panel(line[0], mine, PARTS)
            line[0].set_yticks(range(len(mine)), [style.beside_axis(result.policy) for result in mine])
            line[0].set_title(job)
            line[0].set_xlabel("iteration time (s)")
            _panel(line[1], mine, PARTS[1:], scale=1e3)
            line[1].set_yticks(range(len(mine)), [""] * len(mine))
            line[1].axvline(0, color=colours.BLACK, linewidth=0.8)
            line[1].set_xlabel("added to the ideal (ms)")
        handles = [_patch(_COLOURS[name], words) for name, words in PARTS]
        figure.legend(handles=handles, loc="outside lower center", ncols=page.columns(len(PARTS)))
    return True


def _panel(ax: Any, results: Sequence[PolicyResult], parts: Sequence[tuple[str, str]], scale: float = 1.0) -> None:
    for y, result in enumerate(results):
        assert result.budget is not None  # by the choice of results
        for name, left, width in _stacked(result.budget, parts):
            ax.barh(y, width * scale, left=left * scale, height=0.62, color=_COLOURS[name])
    ax.set_ylim(len(results) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")


def _stacked(budget: JobBudget, parts: Sequence[tuple[str, str]]) -> list[tuple[str, float, float]]:
    """Name, left end and width of each part: what adds to the right of zero, what takes away to its left."""
    found, right_s, left_s = [], 0.0, 0.0
    for name, _ in parts:
        part_s = getattr(budget, name)
        if part_s >= 0:
            found.append((name, right_s, part_s))
            right_s += part_s
        else:
            left_s += part_s
            found.append((name, left_s, -part_s))
    return found


def _patch(colour: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=colour, label=label)
