"""Pictures of measured numbers: throughput by class, tardiness of flows, times by policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from echelonflow.model.dag import Job
from echelonflow.wire.classes import class_of_dscp
from results import colours
from results.analysis.rows import tardiness_of
from results.analysis.shown import ShownRun, shown_iteration
from results.analysis.summary import PolicyResult, Summary
from results.colours import looks, policy_colour
from results.pictures import style

MOST_JOBS = 12
"""More are not drawn in one picture, unless all is asked for: a page of 30 inches with four policies."""
MOST_FLOWS_BY_NAME = 40
"""With more flows than this in an iteration, their tardiness is drawn as a distribution."""


def draw_throughput(path: Path, runs: Sequence[ShownRun], *, page: style.Page = style.SCREEN) -> bool:
    """Stacked payload throughput per traffic class, one panel per policy; False if there is nothing to draw."""
    panels = [(run.title, run.throughput) for run in runs if run.throughput is not None]
    if not panels:
        return False
    marks = sorted({dscp for _, arrived in panels for dscp in arrived.rate_Bps}, key=class_of_dscp)
    colours = dict(zip(marks, style.class_colours(len(marks)), strict=True))
    with style.picture(path, page.inches(1.5 * len(panels) + 0.9), page=page) as figure:
        axes = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for ax, (title, arrived) in zip(axes, panels, strict=True):
            below = np.zeros_like(arrived.edges_s[1:])
            for dscp in marks:
                rate = arrived.rate_Bps.get(dscp)
                if rate is None:
                    continue
                top = below + rate * 8e-6
                ax.stairs(top, arrived.edges_s, baseline=below, fill=True, color=colours[dscp], linewidth=0)
                below = top
            ax.set_title(title)
            ax.set_ylabel("Mbit/s")
        axes[0].set_ylim(bottom=0)
        axes[-1].set_xlim(0, max(float(arrived.edges_s[-1]) for _, arrived in panels))
        since = "time since the start of the iteration (s)"
        axes[-1].set_xlabel(since if page.narrow else f"{since}; payload that arrived at all hosts together")
        handles = [_patch(colours[d], f"class {class_of_dscp(d)} (DSCP {d})") for d in marks]
        figure.legend(handles=handles, loc="outside lower center", ncols=page.columns(4))
    return True


def draw_tardiness(
    path: Path,
    runs: Sequence[ShownRun],
    jobs: Sequence[Job],
    *,
    whole: bool = True,
    vector: bool = True,
    page: style.Page = style.SCREEN,
) -> bool:
    """Tardiness of the shown iteration's flows, by name or (many flows) as a distribution; False if there is none.

    Unless the `whole` is to be drawn, a distribution has no more steps than can be seen.
    """
    iteration = shown_iteration(jobs)
    found = [(run, tardiness_of(run.rows.flows, iteration)) for run in runs]
    look_of = looks([run.record.policy for run in runs])
    sent = {key for _, late in found for key in late}
    if not sent:
        return False
    # Where a job is placed in the run, it depends on the policy which of its transfers are flows.
    order = [
        (job.name, t.name)
        for job in jobs
        for t in job.dag.transfers
        if (not job.is_local(t) if job.is_placed else (job.name, t.name) in sent)
    ]
    several = len(jobs) > 1
    names = [f"{job}/{flow}" if several else flow for job, flow in order]
    by_name = len(order) <= MOST_FLOWS_BY_NAME / (3 if page.narrow else 1)
    crowded = by_name and sum(map(len, names)) > 80 * page.width_in / style.WIDTH_IN
    height_in = page.inches(3.4 + (0.075 * max(map(len, names)) if crowded else 0))
    with style.picture(path, height_in, vector=vector, page=page) as figure:
        ax = figure.subplots()
        for i, (run, late) in enumerate(found):
            drawn = look_of[run.record.policy]
            look: dict[str, Any] = {"color": drawn.colour, "label": run.title}
            if by_name:
                places = [n for n, key in enumerate(order) if key in late]
                shift = (i - (len(found) - 1) / 2) * 0.12
                marker = style.MARKERS[i % len(style.MARKERS)]
                heights = [late[order[n]] for n in places]
                ax.plot([n + shift for n in places], heights, marker, markersize=6, **look)
            else:
                values, share = style.distribution(list(late.values()), whole=whole)
                ax.step(values, share, where="post", linewidth=1.6, linestyle=drawn.line, **look)
        if by_name:
            ax.set_xticks(range(len(order)), names, rotation=90 if crowded else 0)
            ax.set_xlim(-0.5, len(order) - 0.5)
            ax.axhline(0, color=colours.GREY, linewidth=0.8)
            ax.set_ylabel("tardiness (s)")
            ax.set_xlabel(f"flow (iteration {iteration})")
        else:
            ax.set_xlabel(f"tardiness (s) of the {len(order)} flows of iteration {iteration}")
            ax.set_ylabel("share of flows")
            ax.set_ylim(0, 1)
        ax.set_title(
            "Finish less ideal finish time" if page.narrow else "Finish of each flow less its ideal finish time"
        )
        figure.legend(loc="outside lower center", ncols=page.columns(4))
    return True


def draw_times(
    path: Path, summary: Summary, *, whole: bool = True, vector: bool = True, page: style.Page = style.SCREEN
) -> bool:
    """Iteration time, exposed communication and tardiness per policy, with intervals and predictions.

    Unless the `whole` is to be drawn, the first `MOST_JOBS` jobs are, and the picture says so.
    """
    named = list(dict.fromkeys(result.job for result in summary.results))
    jobs = named if whole else named[:MOST_JOBS]
    if not any(result.iteration_s is not None for result in summary.results):
        return False
    what = (
        ("iteration_s", "iteration time (s)"),
        ("exposed_s", "exposed communication (s)"),
        ("tardiness_s", "tardiness (s)"),
    )
    policies = len({result.policy for result in summary.results})
    height_in = page.inches((0.42 * policies + 0.75 + 0.3 * page.narrow) * len(jobs) + 0.6)
    with style.picture(path, height_in, vector=vector, page=page) as figure:
        grid = figure.subplots(len(jobs), len(what), sharey="row", squeeze=False)
        for line, job in zip(grid, jobs, strict=True):
            results = [result for result in summary.results if result.job == job]
            for ax, (name, title) in zip(line, what, strict=True):
                _times_panel(ax, results, name, page)
                ax.set_xlabel(title.replace(" ", "\n", 1) if page.narrow else title)
            line[0].set_yticks(range(len(results)), [style.beside_axis(result.policy) for result in results])
            line[0].set_ylim(len(results) - 0.4, -0.6)
            line[0].set_title(job)
        simulated = summary.backend == "fluid"
        if len(jobs) < len(named):
            line[0].annotate(
                f"the first {len(jobs)} of {len(named)} jobs; --pictures all draws all", (0, 0), (0, -34),
                xycoords="axes fraction", textcoords="offset points", fontsize=page.points(8),
            )  # fmt: skip
        words = "bars: simulated" if simulated else "bars: measured, median and 95 % interval over runs"
        handles = [_patch("none", words)]
        if not simulated:
            handles.append(_diamond())
        figure.legend(handles=handles, loc="outside lower center", ncols=1 if page.narrow else 2)
    return True


def _times_panel(ax: Any, results: Sequence[PolicyResult], name: str, page: style.Page) -> None:
    for y, result in enumerate(results):
        found = getattr(result, name)
        reach = 0.0
        if found is not None:
            ax.barh(y, found.median, height=0.62, color=policy_colour(result.policy))
            reach = found.median
            if found.low is not None:
                ax.plot([found.low, found.high], [y, y], color=colours.BLACK, linewidth=1.4, marker="|", markersize=7)
                reach = max(reach, found.high)
        predicted = getattr(result.predicted, name) if result.predicted is not None else None
        if predicted is not None:
            ax.plot(predicted, y, "D", color=colours.BLACK, markersize=5, markeredgecolor="white", zorder=3)
            reach = max(reach, predicted)
        if found is not None:
            ax.annotate(
                style.seconds(found.median),
                (reach, y),
                (6, 0),
                textcoords="offset points",
                va="center",
                fontsize=page.points(8),
            )
    ax.margins(x=0.7 if page.narrow else 0.22)  # room for the numbers
    if page.narrow:
        ax.locator_params(axis="x", nbins=2)
    ax.set_xlim(left=min(0.0, ax.get_xlim()[0] if ax.get_xlim()[0] < 0 else 0.0))
    ax.grid(visible=False, axis="y")


def _patch(colour: Any, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=colour, label=label)


def _diamond() -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colours.BLACK, marker="D", linestyle="", markersize=5, label="fluid prediction")
