"""What iterations were spent on, as stacked bars: a panel for each job, a bar for each policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from echelonflow.records.blame import CAUSES
from results import colours
from results.analysis.summary import PolicyResult, Summary
from results.pictures import style

MOST_JOBS = 8
"""That can be told apart in a picture: those that waited longest for others."""
_COLOURS = {
    "computation": colours.GREY,
    "communication": colours.SKY,
    "own flows": colours.BLUE,
    "job scheduler": colours.PURPLE,
    "enforcement": colours.YELLOW,
    "unexplained": colours.BLACK,
}
_OF_JOBS = (colours.VERMILION, colours.ORANGE, colours.GREEN)
_HATCHES = ("", "//", "..", "xx", "\\\\")


def draw_blame(
    path: Path, summary: Summary, *, whole: bool = False, vector: bool = True, page: style.Page = style.SCREEN
) -> bool:
    """One bar per policy and job, by cause; other jobs that were waited for in colours of their own. False where nothing is known."""
    told = [result for result in summary.results if result.blame]
    if not told:
        return False
    jobs = _shown(told, whole=whole)
    others = sorted({each.other for result in told if result.job in jobs for each in result.blame if each.other})
    looks = {
        other: (_OF_JOBS[i % len(_OF_JOBS)], _HATCHES[i // len(_OF_JOBS) % len(_HATCHES)])
        for i, other in enumerate(others)
    }
    bars = sum(result.job in jobs for result in told)
    height_in = page.inches(0.34 * bars + 0.6 * len(jobs) + (1.5 if page.narrow else 0.9))
    with style.picture(path, height_in, vector=vector, page=page) as figure:
        heights = [sum(result.job == job for result in told) + 1 for job in jobs]
        panels = figure.subplots(len(jobs), 1, squeeze=False, height_ratios=heights)[:, 0]
        for ax, job in zip(panels, jobs, strict=True):
            _panel(ax, job, [result for result in told if result.job == job], looks)
        left_out = len({result.job for result in told}) - len(jobs)
        note = f" ({left_out} more jobs waited less for others)" if left_out else ""
        panels[-1].set_xlabel(f"seconds of a mean iteration{note}")
        figure.legend(handles=_handles(told, jobs, looks), loc="outside lower center", ncols=page.columns(4))
    return True


def _shown(results: Sequence[PolicyResult], *, whole: bool) -> list[str]:
    waited_s: dict[str, float] = defaultdict(float)
    for result in results:
        waited_s[result.job] += sum(each.blamed_s for each in result.blame if each.cause == "other job")
    jobs = list(waited_s)
    if whole or len(jobs) <= MOST_JOBS:
        return jobs
    kept = sorted(jobs, key=lambda job: -waited_s[job])[:MOST_JOBS]
    return [job for job in jobs if job in kept]


def _panel(ax: Any, job: str, results: Sequence[PolicyResult], looks: Mapping[str, tuple[str, str]]) -> None:
    for y, result in enumerate(results):
        right_s = 0.0
        for (cause, other), spent_s in _parts(result).items():
            colour, hatch = looks[other] if other else (_COLOURS[cause], "")
            left_s = right_s if spent_s >= 0 else right_s + spent_s
            ax.barh(
                y, abs(spent_s), left=left_s, height=0.68, color=colour, hatch=hatch, edgecolor="white", linewidth=0.4
            )
            right_s += max(spent_s, 0.0)
    ax.set_yticks(range(len(results)), [style.beside_axis(result.policy) for result in results])
    ax.set_ylim(len(results) - 0.4, -0.6)
    ax.set_title(job)
    ax.grid(visible=False, axis="y")


def _parts(result: PolicyResult) -> dict[tuple[str, str], float]:
    """Seconds by cause and job waited for, in the order in which they are drawn."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for cause in CAUSES:
        for each in sorted((e for e in result.blame if e.cause == cause), key=lambda e: e.other):
            found[cause, each.other] += each.blamed_s
    return found


def _handles(results: Sequence[PolicyResult], jobs: Sequence[str], looks: Mapping[str, tuple[str, str]]) -> list[Any]:
    from matplotlib.patches import Patch

    there = {each.cause for result in results if result.job in jobs for each in result.blame}
    own = [Patch(color=_COLOURS[cause], label=cause) for cause in CAUSES if cause in there and cause in _COLOURS]
    others = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=f"waiting for {other}")
        for other, (colour, hatch) in looks.items()
    ]
    return own + others
