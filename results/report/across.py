"""The printed table of policies compared over runs of several folders, and the same as CSV."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from echelonflow.printable import printable
from results.analysis.across import Across, Comparisons, Overall
from results.analysis.across_measures import FIRST, MEASURES
from results.analysis.columns import csv_line
from results.analysis.statistics import Ratio
from results.report.printed_column import (
    MISSING,
    SECONDS,
    PrintedColumn,
    TimeUnit,
    format_estimate,
    plain,
    printed,
    timed,
    unit_for,
)

MOST_ROWS = 60
"""More are not printed unless they are asked for: they stand in the CSV and JSON tables."""
MOST_REASONS = 8
_SURE = 0.05


def ratio_words(found: Ratio | None) -> str:
    """A ratio and its interval, such as "0.912 [0.904, 0.921]"."""
    if found is None:
        return MISSING
    if found.low is None or found.high is None:
        return f"{found.mean:.3f}"
    return f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _p(row: Across) -> str:
    if row.p_holm is None:
        return MISSING
    return "<0.001" if row.p_holm < 0.001 else f"{row.p_holm:.3f}"


ACROSS_COLUMNS: tuple[PrintedColumn[Across], ...] = (
    plain("policy", "", "Policy with its options.", lambda r: r.policy),
    plain("job", "", "Name of the job.", lambda r: r.job),
    timed(
        "iteration", "Iteration time: median over the runs that count, and the 95 % interval of their mean.",
        lambda r: r.iteration_s,
    ),
    timed("exposed", "Exposed communication.", lambda r: r.exposed_s),
    timed("tardiness", "Tardiness of the job's EchelonFlows, on average by their weights.", lambda r: r.tardiness_s),
    timed("completion", "Job completion time.", lambda r: r.completion_s),
    PrintedColumn(
        "measure", "", "The measure that was asked for by `--measure`, where it is none of these; its name is the head.",
        lambda *_: MISSING,
    ),
    plain(
        "ratio", "", "The measure (iteration time, unless asked otherwise) over the other policy's: geometric mean over "
        "pairs of runs with the same conditions and seed, and its 95 % interval.",
        lambda r: ratio_words(r.ratio),
    ),
    plain("p", "", "How likely that is by chance, corrected by Holm for all ratios of the table.", _p),
    plain("valid", "", "Runs that count out of those that were made.", lambda r: f"{r.valid_runs}/{r.runs}"),
)  # fmt: skip
"""The table of comparisons over folders; before it stands a column for every value that differs between runs. A measure of all
jobs together stands in place of the times of each."""
SHOWN_ALWAYS = ("iteration_s", "exposed_s", "tardiness_s", "completion_s")
_TIMES = ("iteration", "exposed", "tardiness", "completion")


OVERALL_COLUMNS: tuple[PrintedColumn[Overall], ...] = (
    plain("policy", "", "Policy with its options.", lambda r: r.policy),
    plain("job", "", "Name of the job.", lambda r: r.job),
    plain(
        "ratio", "", "The same ratio over all conditions, each of which counts once, and its 95 % interval.",
        lambda r: ratio_words(r.ratio),
    ),
    plain(
        "better/same/worse", "", "Conditions under which the measure is better by over 0.5 %, differs by less, or is worse.",
        lambda r: f"{r.wins}/{r.ties}/{r.losses}",
    ),
)  # fmt: skip
"""The table of all conditions together."""
_OVERALL_BACKEND: PrintedColumn[Overall] = plain("backend", "", "Simulated or on packets.", lambda r: r.backend)


def across_lines(found: Comparisons, *, most: int | None = MOST_ROWS) -> list[str]:
    """The table with what is to be known of it, in lines; `most` rows of it, all where that is None."""
    shown = list(found.rows if most is None else found.rows[:most])
    unit = unit_of(shown, found.measure)
    paths = _paths(found.rows)
    columns = [_of_path(path) for path in paths] + ([_BACKEND] if _several_backends(found.rows) else [])
    lines = [printed([*columns, *_columns(found.measure)], shown, "l" * (len(columns) + 2), unit)]
    if len(found.rows) > len(shown):
        lines.append(f"... and {len(found.rows) - len(shown)} more rows; --all prints them, --csv writes them")
    lines.append(
        f"{unit.words}: medians over runs [95 % interval of the mean]; ratio: {found.measure} over that of "
        f"{printable(found.against)}, pair by pair [95 % interval]; p below {_SURE} is no chance"
    )
    return [*lines, *_overall(found), *_remarks(found)]


def _columns(measure: str) -> list[PrintedColumn[Across]]:
    """The columns of the table of a comparison by `measure`."""
    known = MEASURES[measure]
    left_out = {*(_TIMES if known.of_run else ()), *(("measure",) if measure in SHOWN_ALWAYS else ())}
    asked = _of_measure(measure)
    return [asked if each.head == "measure" else each for each in ACROSS_COLUMNS if each.head not in left_out]


def _of_measure(measure: str) -> PrintedColumn[Across]:
    words = MEASURES[measure].words
    return PrintedColumn(measure, "", words, lambda row, unit: format_measure(row, measure, unit))


def format_measure(row: Across, measure: str, unit: TimeUnit) -> str:
    """The estimate of a measure: a time of a run in `unit`, anything else as it is."""
    return format_estimate(getattr(row, measure), unit if MEASURES[measure].unit == "s" else SECONDS)


def _overall(found: Comparisons) -> list[str]:
    """The table of all conditions together."""
    if not found.overall:
        return []
    columns = [*([_OVERALL_BACKEND] if len({row.backend for row in found.overall}) > 1 else []), *OVERALL_COLUMNS]
    return ["", "all conditions together:", printed(columns, found.overall, "l" * (len(columns) - 2))]


def _remarks(found: Comparisons) -> list[str]:
    lines = []
    if all(getattr(row, found.measure) is None for row in found.rows):
        lines.append(f"no run that counts says its {MEASURES[found.measure].words} ({found.measure})")
    if found.left_out:
        lines.append(f"{found.left_out} of {found.runs} runs do not count, and are in no average:")
        for number, (reason, runs) in enumerate(found.reasons.items()):
            if number == MOST_REASONS:
                lines.append(f"  and {len(found.reasons) - MOST_REASONS} other reasons")
                break
            lines.append(f"  {runs} x {printable(reason)}")
    lines += _missing(found)
    if not found.by_chance:
        lines.append(
            "all seeds gave the same to the last digit: nothing in these runs is by chance, and intervals over seeds say nothing"
        )
    return lines


def _missing(found: Comparisons) -> list[str]:
    never, lines = found.missing - found.damaged, []
    if never:
        lines.append(f"{never} cells are not made yet; the same `echelon sweep` goes on with them")
    if found.damaged:
        lines.append(f"{found.damaged} cells are damaged and cannot be read; the same `echelon sweep` makes them anew")
    return lines


def across_csv(found: Comparisons) -> str:
    """All rows as CSV: estimates of all measures that any run says, and ratios, in columns of their own."""
    paths = _paths(found.rows)
    known = [name for name in MEASURES if any(getattr(row, name) is not None for row in found.rows)]
    head = [*paths, "backend", "policy", "job", "runs", "valid_runs"]
    for measure in known:
        head += [f"{measure}_{part}" for part in ("median", "low", "high")]
    head += ["against", "measure", "pairs", *(f"ratio_{field.name}" for field in dataclasses.fields(Ratio)), "p_holm"]
    return csv_line(head) + "".join(csv_line(map(_cell, _values(row, paths, known, found))) for row in found.rows)


def _values(row: Across, paths: Sequence[str], known: Sequence[str], found: Comparisons) -> list[Any]:
    values: list[Any] = [*(row.settings[path] for path in paths), row.backend, row.policy, row.job]
    values += [row.runs, row.valid_runs]
    for measure in known:
        estimate = getattr(row, measure)
        values += [getattr(estimate, part, None) for part in ("median", "low", "high")]
    values += [found.against, found.measure, row.pairs]
    values += [getattr(row.ratio, field.name, None) for field in dataclasses.fields(Ratio)]
    return [*values, row.p_holm]


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else value


_BACKEND: PrintedColumn[Across] = plain("backend", "", "Simulated or on packets.", lambda r: r.backend)


def _paths(rows: Sequence[Across]) -> list[str]:
    return list(rows[0].settings) if rows else []


def _several_backends(rows: Sequence[Across]) -> bool:
    return len({row.backend for row in rows}) > 1


def _of_path(path: str) -> PrintedColumn[Across]:
    return plain(path, "", "A value that differs between the runs.", lambda row: row.settings[path] or MISSING)


def unit_of(rows: Sequence[Across], measure: str) -> TimeUnit:
    """The unit of the times of a table of these rows."""
    name = measure if MEASURES[measure].of_run and MEASURES[measure].unit == "s" else FIRST
    return unit_for(found.median for row in rows if (found := getattr(row, name)) is not None)
