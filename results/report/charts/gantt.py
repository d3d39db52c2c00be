"""Computations and flows of every host over time: the whole run where it can be read, else the shown iteration."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence

from echelonflow.records.run_record import ComputeRecord
from results.analysis.lanes import lanes
from results.analysis.rows import IterationRow
from results.analysis.sample import Bounds, Sample, sampled
from results.analysis.shown import LATE_TOLD, ShownRun, Window
from results.colours import LATE, flow_colour, job_colours, step_colour
from results.report.charts import Chart, digits_for, rounded, short

MOST_BARS = 8_000
"""In all Gantt charts of a page together: a megabyte, and drawn in a blink."""
MOST_HOSTS = 48
"""Of all charts together, where there are more bars than that."""
_FEWEST_HOSTS = 4
_FLOW = "flow"
"""What bars that are no computation are called."""


def gantts(runs: Sequence[ShownRun]) -> list[Chart]:
    """One chart for each run, with the same rows and the same axis of time, which begins at the run's zero."""
    if not runs:
        return []
    widened = [_whole(run) for run in runs]
    if sum(_bars(run) for run in runs) <= MOST_BARS:
        sample = sampled(widened, None)
    else:
        widened = list(runs)
        hosts = max(_FEWEST_HOSTS, MOST_HOSTS // len(runs))
        sample = sampled(widened, Bounds(hosts, max(2, MOST_BARS // (2 * hosts * len(runs)))))
    last_s = max(run.window.finish_s for run in widened)
    charts = [_gantt(run, wide, sample, last_s) for run, wide in zip(runs, widened, strict=True)]
    zoom = [min(chart["zoom"][0] for chart in charts), max(chart["zoom"][1] for chart in charts)]
    deepest = max((lane for chart in charts for lane in chart["lanes"]), default=1)
    return [{**chart, "zoom": zoom, "deepest": deepest} for chart in charts]


def _bars(run: ShownRun) -> int:
    return len(run.record.computes) + len(run.record.flows)


def _whole(run: ShownRun) -> ShownRun:
    """The same run, shown from its beginning to its end."""
    return dataclasses.replace(
        run, window=Window(run.window.iteration, 0.0, max(run.record.end_s, run.window.finish_s))
    )


@dataclasses.dataclass(slots=True)
class _Bar:
    row: int
    job: int
    iteration: int
    name: str
    kind: str
    begin_s: float
    """When it began; of a flow, its release."""
    start_s: float
    """When its first byte was sent; of a computation, the same as `begin_s`."""
    finish_s: float
    ideal_s: float | None
    detail: str
    rank: int | None = None
    """Of a computation."""
    lane: int = 0
    of_lanes: int = 1


def _gantt(run: ShownRun, wide: ShownRun, sample: Sample, last_s: float) -> Chart:
    jobs = list(dict.fromkeys(row.job for row in run.rows.iterations))
    place = {job: i for i, job in enumerate(jobs)}
    rows = [f"{host} {what}" for host in sample.hosts for what in ("computes", "sends")]
    row_of = {row: i for i, row in enumerate(rows)}
    bars = [_of_computation(c, row_of, place) for c in sample.computes(wide)]
    flows, shown_rows = wide.record.flows, run.rows.flows
    for at in sample.flow_places(wide):
        f = flows[at]
        bars.append(
            _Bar(
                row_of[f"{f.src_host} sends"], place.setdefault(f.job, len(place)), f.iteration, f.flow, _FLOW, f.release_s,
                f.start_s, f.finish_s, shown_rows[at].ideal_finish_s, f"to {f.dst_host}, {f.size_bytes} bytes, group {f.group}",
            )
        )  # fmt: skip
    _lay(bars)
    window = wide.window
    until_s = min(window.finish_s, window.start_s + sample.until_s)
    span_s = (window.start_s, max(last_s, until_s) if math.isinf(sample.until_s) else until_s)
    names, kinds, details = _Texts(), _Texts(), _Texts()
    of_kinds = [kinds.place(bar.kind) for bar in bars]
    colours = list(job_colours(list(place)).values())
    digits = digits_for(span_s[1] - span_s[0])
    return {
        "kind": "gantt",
        "title": run.title,
        "policy": run.record.policy,
        "rows": rows,
        "jobs": list(place),
        "colours": colours,
        "shades": [[_shade(colour, kind) for kind in kinds.found()] for colour in colours],
        "red": LATE,
        "span": list(span_s),
        "shown": run.window.iteration,
        "zoom": [run.window.start_s, min(run.window.finish_s, span_s[1])],
        "late": LATE_TOLD * (span_s[1] - span_s[0]),
        "row": [bar.row for bar in bars],
        "lane": [bar.lane for bar in bars],
        "lanes": [bar.of_lanes for bar in bars],
        "job": [bar.job for bar in bars],
        "iteration": [bar.iteration for bar in bars],
        "name": [names.place(bar.name) for bar in bars],
        "what": of_kinds,
        "detail": [details.place(bar.detail) for bar in bars],
        "begin": rounded((bar.begin_s for bar in bars), digits),
        "start": rounded((bar.start_s for bar in bars), digits),
        "finish": rounded((bar.finish_s for bar in bars), digits),
        "ideal": [None if bar.ideal_s is None else round(bar.ideal_s, digits) for bar in bars],
        "names": names.found(), "kinds": kinds.found(), "details": details.found(),
        "ends": [
            [place[row.job], row.iteration, round(row.finish_s, digits), row.duration_s] for row in _ends(run, span_s)
        ],
        "takes": _takes(list(place), run),
        "faults": [[fault.what, fault.begin_s, fault.end_s] for fault in run.faults],
        "left_out": sample.words,
    }  # fmt: skip


def _shade(colour: str, kind: str) -> str:
    return flow_colour(colour) if kind == _FLOW else step_colour(colour, kind)


def _takes(jobs: Sequence[str], run: ShownRun) -> list[list[float | None]]:
    """Of each job, how long its shown iteration took, how many it ended in the run, the shortest of them, and the longest."""
    times_s: dict[str, dict[int, float]] = {job: {} for job in jobs}
    for row in run.rows.iterations:
        times_s[row.job][row.iteration] = row.duration_s
    return [
        [
            short(mine.get(run.window.iteration)), len(mine),
            short(min(mine.values(), default=None)), short(max(mine.values(), default=None)),
        ]
        for mine in times_s.values()
    ]  # fmt: skip


def _ends(run: ShownRun, span_s: tuple[float, float]) -> list[IterationRow]:
    """Iterations that end in what is shown."""
    return [row for row in run.rows.iterations if span_s[0] <= row.finish_s <= span_s[1] * (1 + LATE_TOLD)]


def _of_computation(c: ComputeRecord, row_of: dict[str, int], place: dict[str, int]) -> _Bar:
    job = place.setdefault(c.job, len(place))
    row = row_of[f"{c.host} computes"]
    return _Bar(row, job, c.iteration, c.step, c.kind, c.start_s, c.start_s, c.finish_s, None, f"rank {c.rank}", c.rank)


def _lay(bars: Sequence[_Bar]) -> None:
    """Lanes of every row: of a host's computations one for each rank, of its flows as few as there may be without overlap."""
    by_row: dict[int, list[_Bar]] = defaultdict(list)
    for bar in bars:
        by_row[bar.row].append(bar)
    for mine in by_row.values():
        if mine[0].rank is None:
            places = lanes([(bar.begin_s, bar.finish_s) for bar in mine])
        else:
            ranks = sorted({(bar.job, bar.rank) for bar in mine})
            places = [ranks.index((bar.job, bar.rank)) for bar in mine]
        for bar, lane in zip(mine, places, strict=True):
            bar.lane, bar.of_lanes = lane, max(places) + 1


class _Texts:
    """Texts that occur again and again, each kept once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Where `text` is."""
        return self._places.setdefault(text, len(self._places))

    def found(self) -> list[str]:
        """All texts in the order of their places."""
        return list(self._places)
