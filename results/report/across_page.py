"""The report of a sweep, or of several folders compared: one HTML file with heat maps, curves and the table."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echelonflow.records.experiment_file import experiment_text, sweep_command
from echelonflow.records.sweeps import SweepRecord
from results.analysis.across import Across, Comparisons, by_every_measure, compare_across
from results.analysis.across_measures import FIRST, MEASURES, Measure
from results.analysis.gathered import Gathered
from results.colours import policy_colour
from results.report.across import SHOWN_ALWAYS, format_measure, ratio_words, unit_of
from results.report.charts import Chart
from results.report.charts.curves import distribution_of
from results.report.charts.explorer import explorer
from results.report.headline import TOLD_APART
from results.report.html import with_filters
from results.report.page import SCRIPTS, download, environment, write_page
from results.report.printed_column import MISSING, TimeUnit, format_estimate

MOST_TABLE_ROWS = 3_000
"""Rows of the table in a page; cells.csv, and `echelon compare --csv`, have all."""
_SURE = 0.05


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page says of itself."""

    title: str
    command: str
    """By which it is made again, in one line."""
    folders: Sequence[str] = ()
    record: SweepRecord | None = None
    """Of a sweep."""
    experiment: Mapping[str, Any] | None = None
    """Its experiment, files by names that can be found from elsewhere; else as in the record."""
    facts: Mapping[str, str] = field(default_factory=dict)


def write_across(
    path: Path,
    gathered: Gathered,
    shown: Shown,
    against: str | None = None,
    measure: str = FIRST,
    *,
    charts: bool = True,
) -> Path:
    """Write the page of the runs that were `gathered` at `path`; returns it. Policies are compared `against` one by `measure`.

    Without `charts` it has the table alone. InputError where there is no such policy or measure.
    """
    found = compare_across(gathered, against, measure)
    drawn = _charts(gathered, found, against) if charts else {}
    unit = unit_of(found.rows, measure)
    templates = with_filters(environment(), unit)
    templates.filters["estimate"] = lambda value: format_estimate(value, unit)
    templates.filters["in_words"] = ratio_words
    templates.filters["asked"] = lambda row: format_measure(row, measure, unit)
    templates.filters["p"] = lambda p: MISSING if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
    return write_page(
        path,
        templates,
        "across.html.j2",
        drawn,
        (*SCRIPTS, "across.js"),
        shown=shown,
        found=found,
        headline=across_headline(found, unit),
        unit=unit,
        measure=measure,
        known=MEASURES[measure],
        shows_measure=measure not in SHOWN_ALWAYS,
        paths=list(found.rows[0].settings) if found.rows else [],
        several_backends=len({row.backend for row in found.rows}) > 1,
        backends=sorted({row.backend for row in found.rows}),
        rows=found.rows[:MOST_TABLE_ROWS],
        colour=policy_colour,
        sure=_SURE,
        experiment=None
        if shown.record is None
        else sweep_file(shown.record, shown.experiment or shown.record.experiment),
        as_download=download,
    )


def _charts(gathered: Gathered, found: Comparisons, against: str | None) -> dict[str, list[Chart]]:
    """The charts of each section; sections without any are left out."""
    made = explorer(*by_every_measure(gathered, against), found.against, found.measure)
    charts = {} if made is None else {"explorer": [made], "ratios": _ratio_curves(found)}
    return {section: mine for section, mine in charts.items() if mine}


def sweep_file(record: SweepRecord, experiment: Mapping[str, Any]) -> str:
    """The experiment file of a sweep, with what is swept in it: `echelon sweep` takes it as it is. `experiment` is without that."""
    swept = {key: value for key, value in (("over", record.over), ("points", record.listed)) if value}
    data = {**experiment, **({"sweep": swept} if swept else {})}
    return experiment_text(data, sweep_command(record.backend))


def across_headline(found: Comparisons, unit: TimeUnit) -> str:
    """Which policy is best over all conditions and jobs, by how much, and where it is not."""
    measure = MEASURES[found.measure]
    ratios: dict[str, list[float]] = defaultdict(list)
    for row in found.rows:
        if row.ratio is not None:
            ratios[row.policy].append(row.ratio.mean)
    if not ratios:
        return _alone(found.rows, measure, unit)
    means = {policy: math.exp(sum(map(math.log, values)) / len(values)) for policy, values in ratios.items()}
    best = (max if measure.more_is_better else min)(means, key=means.__getitem__)
    values, mean = ratios[best], means[best]
    among = f"{'the better' if len(means) == 1 else 'the best'} of {len(means) + 1} policies"
    better = sum(_is_better(value, measure) for value in values)
    where = _where(len(values), measure)
    changes = [_change(value, measure) for value in (min(values), max(values))]
    spread = f", from {changes[0]} to {changes[1]}" if len(values) > 1 else ""
    if not _is_better(mean, measure):
        return (
            f"No policy beats {found.against} over {where}: the next is {best}, whose {measure.words} is "
            f"{_change(mean, measure)} in the geometric mean{spread}."
        )
    return (
        f"{best} is {among}: its {measure.words} is {_change(mean, measure)} than under {found.against} in the geometric mean "
        f"over {where}{spread}; it is {measure.more if measure.more_is_better else measure.less} in {better} of {len(values)}."
    )


def _is_better(ratio: float, measure: Measure) -> bool:
    return ratio > 1 + TOLD_APART if measure.more_is_better else ratio < 1 - TOLD_APART


def _where(ratios: int, measure: Measure) -> str:
    """Over what so many ratios are."""
    if measure.of_run:
        return f"{ratios} conditions" if ratios > 1 else "the one condition"
    return f"{ratios} combinations of conditions and job" if ratios > 1 else "the one job"


def _alone(rows: Sequence[Across], measure: Measure, unit: TimeUnit) -> str:
    if not any(row.valid_runs for row in rows):
        return "Nothing can be said of any policy: no run counts."
    known = [row.iteration_s.median for row in rows if row.iteration_s is not None]
    times = [f"{value * unit.of_a_second:.3f} {unit.name}" for value in (min(known), max(known))] if known else []
    took = f"; iterations take {' to '.join(times)}" if times else ""
    return f"There is nothing to compare {measure.words} with{took}."


def _change(ratio: float, measure: Measure) -> str:
    return f"{abs(1 - ratio) * 100:.1f} % {measure.less if ratio <= 1 else measure.more}"


def _ratio_curves(found: Comparisons) -> list[Chart]:
    values: dict[str, list[float]] = defaultdict(list)
    for row in found.rows:
        if row.ratio is not None:
            values[row.policy].append(row.ratio.mean)
    words = MEASURES[found.measure].words
    return [distribution_of(f"{words} over that of {found.against}", values, list(values))] if values else []
