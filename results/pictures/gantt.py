"""Computations and flows of every host over time, one panel per policy: the paper's Fig. 2 for any jobs."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from echelonflow.records.run_record import ComputeRecord, FlowRecord
from results import colours
from results.analysis.lanes import lanes
from results.analysis.rows import IterationRow
from results.analysis.sample import Bounds, sampled
from results.analysis.shown import ShownRun, Window
from results.pictures import style

FLOW_COLOURS = (colours.SKY, colours.BLUE)
"""Flows of neighbouring groups alternate, so that where one ends and the next begins is seen."""
_FLOW_LIGHTNESS = (1.25, 1.45)
"""The same with several jobs, of the colour of the job."""
MOST_JOBS_NAMED = 4
"""In the title of a panel: it has one line."""
_LANE_SHARE = 0.86
_MOST_IN_LEGEND = 22
_NARROW_LETTERS = 40
"""Of a title that has to go on in the next line."""
_WORDS_ROWS = 0.4
"""Room above the rows for the words of planned faults."""
_ROW_IN = 0.34
_MOST_HEIGHT_IN = 40.0
_POINTS_PER_LETTER = 5.0
_MOST_ROWS = 32
"""Of all panels together: a page of some 13 inches."""
_FEWEST_HOSTS = 2
MOST_IN_A_ROW = 60
"""Bars of a host: a row is some 1,100 dots wide, so that each has eighteen where they follow each other."""


@dataclass(frozen=True, slots=True)
class _Bar:
    start_s: float
    finish_s: float
    row: int
    lane: int
    of_lanes: int
    colour: str
    text: str


def draw_gantt(path: Path, runs: Sequence[ShownRun], *, whole: bool = True, page: style.Page = style.SCREEN) -> bool:
    """Draw the shown iteration of each run, and what there is of others meanwhile; False, and nothing, if there is none.

    Time 0 is the start of the iteration. With several jobs, bars have the colours of jobs. A flow's bar goes from its first byte to its last, after a thin line
    from its release. What one host sends at the same time is drawn in lanes. Unless the `whole` is to be drawn, as much
    is as can be read, and the picture says what is left out. Such a sample has no vector form: nobody enlarges it.
    """
    if not runs:
        return False
    most_hosts = max(_FEWEST_HOSTS, _MOST_ROWS // (2 * len(runs)))
    sample = sampled(runs, None if whole else Bounds(most_hosts, MOST_IN_A_ROW))
    panels = [_Panel(run, sample.computes(run), sample.flows(run)) for run in runs]
    rows = _rows(sample.hosts, panels)
    height_in = page.inches(min(len(runs) * (len(rows) * _ROW_IN + 0.5) + 0.8, _MOST_HEIGHT_IN))
    span_s = (min(panel.first_s for panel in panels), min(sample.until_s, sample.longest_s))
    with style.picture(path, height_in, vector=not sample.words, page=page) as figure:
        axes = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
        for ax, panel in zip(axes, panels, strict=True):
            _draw(ax, panel, rows, span_s, page)
        sampled_words = f"; shown are {sample.words}, --pictures all draws all" if sample.words else ""
        since = "time (s)" if page.narrow else f"time since the start of iteration {runs[0].window.iteration} (s)"
        axes[-1].set_xlabel(since + sampled_words)
        figure.legend(handles=_legend(panels), loc="outside lower center", ncols=page.columns(6))
    return True


@dataclass(frozen=True, slots=True)
class _Panel:
    """One run, and what is drawn of it."""

    run: ShownRun
    computes: Sequence[ComputeRecord]
    flows: Sequence[FlowRecord]

    @property
    def first_s(self) -> float:
        """When the first of it began, 0 at the latest: the DAG may let an iteration begin before the one before ends."""
        shown = self.run.window.iteration
        begin_s = [c.start_s for c in self.computes if c.iteration == shown]
        begin_s += [f.release_s for f in self.flows if f.iteration == shown]
        return min(0.0, min(begin_s, default=math.inf) - self.run.window.start_s)


def _rows(hosts: Sequence[str], panels: Sequence[_Panel]) -> list[tuple[str, str]]:
    """(host, "compute" or "sends") for every row, from above."""
    senders = {f.src_host for panel in panels for f in panel.flows}
    return [(host, what) for host in hosts for what in ("compute", "sends") if what == "compute" or host in senders]


def _draw(
    ax: Any, panel: _Panel, rows: Sequence[tuple[str, str]], span_s: tuple[float, float], page: style.Page
) -> None:
    run, (first_s, last_s) = panel.run, span_s
    longest_s = last_s - first_s
    part = run.window
    of_job = _job_colours(panel)
    bars = _compute_bars(panel.computes, part, rows, of_job) + _flow_bars(ax, panel.flows, part, rows, of_job)
    corners = []
    for bar in bars:
        low, high = _span(bar.row, bar.lane, bar.of_lanes)
        corners.append([(bar.start_s, low), (bar.start_s, high), (bar.finish_s, high), (bar.finish_s, low)])
        _label(ax, bar, (low + high) / 2, longest_s, page)
    ax.add_collection(
        PolyCollection(corners, facecolors=[bar.colour for bar in bars], edgecolors="white", linewidths=0.6)
    )
    for row, (_, what) in enumerate(rows):
        if row and what == "compute":
            ax.axhline(row - 0.5, color="#bbbbbb", linewidth=0.8)
    _mark_faults(ax, run, page)
    shown = [one for one in run.rows.iterations if one.iteration == part.iteration]
    for one in shown:
        colour = of_job.get(one.job, colours.BLACK)
        ax.axvline(one.finish_s - part.start_s, color=colour, linewidth=1.2, linestyle=(0, (4, 2)))
    title = f"{run.title}: {iteration_words(shown)}"
    ax.set_title(textwrap.fill(title, _NARROW_LETTERS) if page.narrow else title)
    ax.set_yticks(range(len(rows)), [f"{host} {what}" for host, what in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5 - (_WORDS_ROWS if run.faults else 0.0))
    ax.set_xlim(first_s, first_s + longest_s * 1.02)
    ax.grid(visible=False, axis="y")


def iteration_words(rows: Sequence[IterationRow]) -> str:
    """How long the iteration takes that is shown: of every job, where there are several."""
    if len(rows) == 1:
        return f"iteration takes {style.seconds(rows[0].duration_s)} s"
    words = [f"{row.job} {style.seconds(row.duration_s)} s" for row in rows[:MOST_JOBS_NAMED]]
    more = f" and {len(rows) - len(words)} more" if len(rows) > len(words) else ""
    return f"iteration of {', '.join(words)}{more}"


def _job_colours(panel: _Panel) -> dict[str, str]:
    """The colour of each job where there are several; one alone is coloured by what it computes."""
    jobs = list(dict.fromkeys(row.job for row in panel.run.rows.iterations))
    return colours.job_colours(jobs) if len(jobs) > 1 else {}


def _mark_faults(ax: Any, run: ShownRun, page: style.Page) -> None:
    """A grey band for every planned fault that holds in the shown iteration, with its words above the rows."""
    part = run.window
    length_s = part.finish_s - part.start_s
    for fault in run.faults:
        begin_s = max(fault.begin_s - part.start_s, 0.0)
        end_s = min(length_s if fault.end_s is None else fault.end_s - part.start_s, length_s)
        if end_s <= begin_s:
            continue
        ax.axvspan(begin_s, end_s, color=colours.GREY, alpha=0.25, linewidth=0, zorder=0)
        ax.text(begin_s, -0.5 - _WORDS_ROWS, fault.what, ha="left", va="top", fontsize=page.points(6.5), clip_on=True)


def _span(row: int, lane: int, of_lanes: int) -> tuple[float, float]:
    """Lower and upper edge of a lane of a row."""
    height = _LANE_SHARE / of_lanes
    low = row - _LANE_SHARE / 2 + lane * height
    return low, low + height


def _compute_bars(
    mine: Sequence[ComputeRecord], part: Window, rows: Sequence[tuple[str, str]], of_job: Mapping[str, str]
) -> list[_Bar]:
    row_of = {key: i for i, key in enumerate(rows)}
    ranks: dict[str, list[tuple[str, int]]] = {}
    for c in mine:
        here = ranks.setdefault(c.host, [])
        if (c.job, c.rank) not in here:
            here.append((c.job, c.rank))
    return [
        _Bar(
            c.start_s - part.start_s, c.finish_s - part.start_s, row_of[c.host, "compute"],
            ranks[c.host].index((c.job, c.rank)), len(ranks[c.host]),
            of_job.get(c.job) or style.KIND_COLOURS.get(c.kind, colours.GREY), c.step,
        )
        for c in mine
    ]  # fmt: skip


def _flow_bars(
    ax: Any, flows: Sequence[FlowRecord], part: Window, rows: Sequence[tuple[str, str]], of_job: Mapping[str, str]
) -> list[_Bar]:
    """Bars of flows; draws the thin lines from release to first byte as well."""
    bars, waits, shades = [], [], []
    groups: dict[tuple[str, str], int] = {}
    by_host: dict[str, list[FlowRecord]] = {}
    for f in flows:
        groups.setdefault((f.job, f.group), len(groups))
        by_host.setdefault(f.src_host, []).append(f)
    for row, (host, what) in enumerate(rows):
        mine = by_host.get(host, ())
        if what != "sends" or not mine:
            continue
        places = lanes([(f.release_s, f.finish_s) for f in mine])
        for lane, f in zip(places, mine, strict=True):
            turn = groups[f.job, f.group] % 2
            colour = colours.shaded(of_job[f.job], _FLOW_LIGHTNESS[turn]) if f.job in of_job else FLOW_COLOURS[turn]
            bar = _Bar(f.start_s - part.start_s, f.finish_s - part.start_s, row, lane, max(places) + 1, colour, f.flow)
            bars.append(bar)
            middle = sum(_span(row, lane, bar.of_lanes)) / 2
            waits.append([(f.release_s - part.start_s, middle), (bar.start_s, middle)])
            shades.append(colour)
    ax.add_collection(LineCollection(waits, colors=shades, linewidths=1.2))
    return bars


def _label(ax: Any, bar: _Bar, y: float, longest_s: float, page: style.Page) -> None:
    """The step's name on its bar, where there is room for it."""
    width_points = (bar.finish_s - bar.start_s) / longest_s * page.width_in * 0.85 * 72
    size = min(7.5, 20.0 / bar.of_lanes) * page.font_pt / style.SCREEN.font_pt
    if page.least_pt and bar.of_lanes == 1:
        size = max(size, page.least_pt)
    if width_points < _POINTS_PER_LETTER * len(bar.text) * size / 7.5 or size < max(4, page.least_pt):
        return
    ax.text(
        (bar.start_s + bar.finish_s) / 2, y, bar.text,
        ha="center", va="center", fontsize=size, color="white" if colours.is_dark(bar.colour) else "black", clip_on=True,
    )  # fmt: skip


def _legend(panels: Sequence[_Panel]) -> list[Any]:
    of_job = {job: colour for panel in panels for job, colour in _job_colours(panel).items()}
    end = Line2D([], [], color=colours.BLACK, linestyle=(0, (4, 2)), label="end of iteration")
    if of_job:
        named = [Patch(color=colour, label=job) for job, colour in list(of_job.items())[:_MOST_IN_LEGEND]]
        return [*named, Patch(color=colours.shaded(colours.GREY, _FLOW_LIGHTNESS[1]), label="lighter: flows"), end]
    kinds = sorted({c.kind for panel in panels for c in panel.computes})
    handles: list[Any] = [Patch(color=style.KIND_COLOURS.get(kind, colours.GREY), label=kind) for kind in kinds]
    groups = {(f.job, f.group) for panel in panels for f in panel.flows}
    handles.append(Patch(color=FLOW_COLOURS[0], label="flow"))
    if len(groups) > 1:
        handles.append(Patch(color=FLOW_COLOURS[1], label="flow of another group"))
    return [*handles, end]
