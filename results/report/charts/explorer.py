"""What a reader explores of many runs: every measure and ratio of each policy and job at each point, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from results import colours
from results.analysis.across import Across
from results.analysis.across_measures import MEASURES
from results.analysis.explored import axes_of, value_at
from results.analysis.statistics import Ratio
from results.report.charts import Chart, short

MOST_NUMBERS = 200_000
"""Values and ratios of a page, rows times measures: some five megabytes."""


def explorer(
    found: Sequence[Across], ratios: Mapping[str, Sequence[Ratio | None]], against: str, measure: str
) -> Chart | None:
    """The columns of the rows that were `found`, with their `ratios` by each measure that is known; None where none is.

    Policies are compared with that named by `against`; `measure` is shown first, where it is known.
    """
    if not ratios:
        return None
    rows, measures = found[: MOST_NUMBERS // len(ratios)], list(ratios)
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
        "basis": against,
        "measures": [
            {
                "name": name,
                "words": known.words,
                "titled": known.titled,
                "unit": known.unit,
                "more": known.more_is_better,
            }
            for name, known in ((name, MEASURES[name]) for name in measures)
        ],
        "first": measures.index(measure) if measure in measures else 0,
        "at": [[place[path][value_at(row, path)] for path in axes] for row in rows],
        "policy": [policies.index(row.policy) for row in rows],
        "job": [jobs.index(row.job) for row in rows],
        "value": [[_median(row, name) for row in rows] for name in measures],
        "ratio": [[_ratio(ratio) for ratio in ratios[name][: len(rows)]] for name in measures],
        "left_out": len(found) - len(rows),
        "ramps": {"ratio": colours.RATIO_RAMP, "value": colours.VALUE_RAMP},
    }


def _median(row: Across, name: str) -> float | None:
    found = getattr(row, name)
    return None if found is None else short(found.median)


def _ratio(found: Ratio | None) -> list[float | None] | None:
    return None if found is None else [short(found.mean), short(found.low), short(found.high)]
