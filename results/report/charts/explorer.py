"""What a reader explores of many runs: every measure and ratio of each policy and job at each point, as columns."""

from __future__ import annotations

from collections.abc import Mapping

from results import colours
from results.analysis.across import Across, Comparisons
from results.analysis.explored import MEASURE_WORDS, axes_of, value_at
from results.report.charts import Chart, short

MOST_ROWS = 20_000
"""Of a page: some two megabytes."""


def explorer(found: Mapping[str, Comparisons]) -> Chart | None:
    """The columns of `found`, which has the comparisons by each measure; None where nothing was measured.

    Rows of all of them are the same but for the ratios.
    """
    first = next(iter(found.values()))
    rows = first.rows[:MOST_ROWS]
    measures = [name for name in found if any(getattr(row, name) is not None for row in rows)]
    if not measures:
        return None
    axes = {axis.path: axis.values for axis in axes_of(rows)}
    policies = list(dict.fromkeys(row.policy for row in rows))
    jobs = list(dict.fromkeys(row.job for row in rows))
    look_of = colours.looks(policies)
    place = {path: {value: i for i, value in enumerate(values)} for path, values in axes.items()}
    return {
        "kind": "explorer",
        "axes": [{"path": path, "values": values} for path, values in axes.items()],
        "policies": policies,
        "colours": [look_of[policy].colour for policy in policies],
        "lines": [look_of[policy].line for policy in policies],
        "jobs": jobs,
        "basis": first.against,
        "measures": [{"name": name, "words": MEASURE_WORDS.get(name, name)} for name in measures],
        "first": measures.index(first.measure) if first.measure in measures else 0,
        "at": [[place[path][value_at(row, path)] for path in axes] for row in rows],
        "policy": [policies.index(row.policy) for row in rows],
        "job": [jobs.index(row.job) for row in rows],
        "value": [[_median(row, name) for row in rows] for name in measures],
        "ratio": [[_ratio(row) for row in found[name].rows[:MOST_ROWS]] for name in measures],
        "left_out": len(first.rows) - len(rows),
        "ramps": {"ratio": colours.RATIO_RAMP, "value": colours.VALUE_RAMP},
    }


def _median(row: Across, name: str) -> float | None:
    found = getattr(row, name)
    return None if found is None else short(found.median)


def _ratio(row: Across) -> list[float | None] | None:
    found = row.ratio
    return None if found is None else [short(found.mean), short(found.low), short(found.high)]
