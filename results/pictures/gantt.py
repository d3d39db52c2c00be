"""Computations and flows of every host over time, one panel per policy: the paper's Fig. 2 for any jobs."""

from __future__ import annotations

import math
import re
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
from results.analysis.sample import Bounds, Sample, sampled
from results.analysis.shown import LATE_TOLD, ShownRun, Window
from results.pictures import style

MOST_JOBS_NAMED = 4
"""In the title of a panel: it has one line."""
_LANE_SHARE = 0.86
_LATE_SHARES = (0.74, 0.96)
"""Of the height of a bar, from above: the line that is drawn in it for what is late."""
_MOST_IN_LEGEND = 22
_NARROW_LETTERS = 40
"""Of a title that has to go on in the next line."""
_TICK_PT = 0.9
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
    ideal_s: float | None = None
    """When it should have finished; None for a computation."""


def draw_gantt(path: Path, runs: Sequence[ShownRun], *, whole: bool = True, page: style.Page = style.SCREEN) -> bool:
    """Draw the shown iteration of each run, and what there is of others meanwhile; False, and nothing, if there is none.

    Time 0 is the start of the iteration. Bars have the colours of their jobs, in the shades of what they are. A flow's bar goes from its first byte to its last, after a
    thin line from its release. A tick marks its ideal finish, and a red line in the bar what lasted longer. What one host sends at the same time is drawn in lanes. Unless the `whole` is to be drawn, as much
    is as can be read, and the picture says what is left out. Such a sample has no vector form: nobody enlarges it.
    """
    if not runs:
        return False
    most_hosts = max(_FEWEST_HOSTS, _MOST_ROWS // (2 * len(runs)))
    sample = sampled(runs, None if whole else Bounds(most_hosts, MOST_IN_A_ROW))
    panels = [_panel(run, sample) for run in runs]
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
    ideals_s: Sequence[float]
    """Of the flows: when they should have finished."""

    @property
    def jobs(self) -> dict[str, str]:
        """The colour of each job, by their places in the experiment; those of which no iteration is known come last."""
        named = (self.run.rows.iterations, self.computes, self.flows)
        return colours.job_colours([each.job for part in named for each in part])

    @property
    def first_s(self) -> float:
        """When the first of it began, 0 at the latest: the DAG may let an iteration begin before the one before ends."""
        shown = self.run.window.iteration
        begin_s = [c.start_s for c in self.computes if c.iteration == shown]
        begin_s += [f.release_s for f in self.flows if f.iteration == shown]
        return min(0.0, min(begin_s, default=math.inf) - self.run.window.start_s)


def _panel(run: ShownRun, sample: Sample) -> _Panel:
    places = sample.flow_places(run)
    flows = [run.record.flows[place] for place in places]
    return _Panel(run, sample.computes(run), flows, [run.rows.flows[place].ideal_finish_s for place in places])


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
    of_job = panel.jobs
    bars = _compute_bars(panel.computes, part, rows, of_job) + _flow_bars(ax, panel, rows, of_job)
    corners = []
    for bar in bars:
        low, high = _span(bar.row, bar.lane, bar.of_lanes)
        corners.append([(bar.start_s, low), (bar.start_s, high), (bar.finish_s, high), (bar.finish_s, low)])
        _label(ax, bar, (low + high) / 2, longest_s, page)
    ax.add_collection(
        PolyCollection(corners, facecolors=[bar.colour for bar in bars], edgecolors="white", linewidths=0.6)
    )
    _mark_ideals(ax, bars, LATE_TOLD * longest_s, page)
    for row, (_, what) in enumerate(rows):
        if row and what == "compute":
            ax.axhline(row - 0.5, color="#bbbbbb", linewidth=0.8)
    _mark_faults(ax, run, page)
    shown = [one for one in run.rows.iterations if one.iteration == part.iteration]
    for one in shown:
        colour = of_job.get(one.job, colours.BLACK)
        ax.axvline(one.finish_s - part.start_s, color=colour, linewidth=1.2, linestyle=(0, (4, 2)))
    title = f"{run.title}: {iteration_words(shown)}"
    ax.set_title(_wrapped(title) if page.narrow else title)
    ax.set_yticks(range(len(rows)), [f"{host} {what}" for host, what in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5 - (_WORDS_ROWS if run.faults else 0.0))
    ax.set_xlim(first_s, first_s + longest_s * 1.02)
    ax.grid(visible=False, axis="y")


def _wrapped(title: str) -> str:
    """The same in lines; a number and its unit stay together."""
    return textwrap.fill(re.sub(r"(\d) s\b", "\\1\u00a0s", title), _NARROW_LETTERS)


def iteration_words(rows: Sequence[IterationRow]) -> str:
    """How long the iteration takes that is shown: of every job, where there are several."""
    if len(rows) == 1:
        return f"iteration takes {style.seconds(rows[0].duration_s)} s"
    words = [f"{row.job} {style.seconds(row.duration_s)} s" for row in rows[:MOST_JOBS_NAMED]]
    more = f" and {len(rows) - len(words)} more" if len(rows) > len(words) else ""
    return f"iteration of {', '.join(words)}{more}"


def _mark_ideals(ax: Any, bars: Sequence[_Bar], told_s: float, page: style.Page) -> None:
    """A tick at the ideal finish of each flow, and in red by how much it is late, where that is more than `told_s`."""
    ticks, late = [], []
    for bar in bars:
        if bar.ideal_s is None:
            continue
        low, high = _span(bar.row, bar.lane, bar.of_lanes)
        ticks.append([(bar.ideal_s, low), (bar.ideal_s, high)])
        if bar.finish_s > bar.ideal_s + told_s:
            above, below = (low + share * (high - low) for share in _LATE_SHARES)
            begin_s = max(bar.ideal_s, bar.start_s)
            late.append([(begin_s, above), (begin_s, below), (bar.finish_s, below), (bar.finish_s, above)])
    ax.add_collection(PolyCollection(late, facecolors=colours.LATE, linewidths=0))
    ax.add_collection(
        LineCollection(ticks, colors=colours.BLACK, linewidths=_TICK_PT * page.font_pt / style.SCREEN.font_pt)
    )


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
            colours.step_colour(of_job[c.job], c.kind), c.step,
        )
        for c in mine
    ]  # fmt: skip


def _flow_bars(ax: Any, panel: _Panel, rows: Sequence[tuple[str, str]], of_job: Mapping[str, str]) -> list[_Bar]:
    """Bars of flows; draws the thin lines from release to first byte as well."""
    bars, waits, shades = [], [], []
    part = panel.run.window
    groups: dict[tuple[str, str], int] = {}
    by_host: dict[str, list[tuple[FlowRecord, float]]] = {}
    for f, ideal_s in zip(panel.flows, panel.ideals_s, strict=True):
        groups.setdefault((f.job, f.group), len(groups))
        by_host.setdefault(f.src_host, []).append((f, ideal_s))
    for row, (host, what) in enumerate(rows):
        mine = by_host.get(host, ())
        if what != "sends" or not mine:
            continue
        places = lanes([(f.release_s, f.finish_s) for f, _ in mine])
        for lane, (f, ideal_s) in zip(places, mine, strict=True):
            colour = colours.flow_colour(of_job[f.job], groups[f.job, f.group])
            bar = _Bar(
                f.start_s - part.start_s, f.finish_s - part.start_s, row, lane, max(places) + 1, colour, f.flow,
                ideal_s - part.start_s,
            )  # fmt: skip
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
    of_job = {job: colour for panel in panels for job, colour in panel.jobs.items()}
    one = next(iter(of_job.values())) if len(of_job) == 1 else colours.GREY
    kinds = {c.kind for panel in panels for c in panel.computes}
    handles: list[Any] = []
    if len(of_job) > 1:
        handles = [Patch(color=colour, label=job) for job, colour in list(of_job.items())[:_MOST_IN_LEGEND]]
        kinds.discard("forward")  # which has the colour of its job
    handles += [
        Patch(color=colours.step_colour(one, kind), label=kind) for kind in colours.COMPUTATIONS if kind in kinds
    ]
    if kinds - {*colours.COMPUTATIONS}:
        handles.append(Patch(color=one, label="computation"))
    flows = [f for panel in panels for f in panel.flows]
    if flows:
        handles.append(Patch(color=colours.flow_colour(one), label="flow"))
        handles.append(Line2D([], [], color=colours.BLACK, marker="|", linestyle="", label="ideal finish"))
        handles.append(Patch(color=colours.LATE, label="late"))
    if len({(f.job, f.group) for f in flows}) > 1:
        handles.insert(-2, Patch(color=colours.flow_colour(one, 1), label="flow of another group"))
    return [*handles, Line2D([], [], color=colours.BLACK, linestyle=(0, (4, 2)), label="end of iteration")]
