"""What a reader explores of many runs: every measure and ratio of each policy and job at each point, as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from echelonflow.errors import InputError
from echelonflow.model.units import parse_duration_s, parse_rate_bps, parse_size_bytes
from results.analysis.across import Across, Comparisons
from results.colours import looks
from results.report.charts import Chart, short

MOST_ROWS = 20_000
"""Of a page: some two megabytes."""
MEASURE_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "iteration_s": "iteration time",
        "exposed_s": "exposed communication",
        "tardiness_s": "tardiness",
        "completion_s": "completion time",
    }
)


def explorer(found: Mapping[str, Comparisons]) -> Chart | None:
    """The columns of `found`, which has the comparisons by each measure; None where nothing was measured.

    Rows of all of them are the same but for the ratios.
    """
    first = next(iter(found.values()))
    rows = first.rows[:MOST_ROWS]
    measures = [name for name in found if any(getattr(row, name) is not None for row in rows)]
    if not measures:
        return None
    axes = {path: in_order([row.settings[path] for row in rows]) for path in (rows[0].settings if rows else ())}
    backends = list(dict.fromkeys(row.backend for row in rows))
    if len(backends) > 1:
        axes["backend"] = backends
    policies = list(dict.fromkeys(row.policy for row in rows))
    jobs = list(dict.fromkeys(row.job for row in rows))
    look_of = looks(policies)
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
        "at": [[place[path][_value(row, path)] for path in axes] for row in rows],
        "policy": [policies.index(row.policy) for row in rows],
        "job": [jobs.index(row.job) for row in rows],
        "value": [[_median(row, name) for row in rows] for name in measures],
        "ratio": [[_ratio(row) for row in found[name].rows[:MOST_ROWS]] for name in measures],
        "left_out": len(first.rows) - len(rows),
    }


def in_order(values: Sequence[str]) -> list[str]:
    """Different values in the order of the quantities that they are, else in that in which they came."""
    different = list(dict.fromkeys(values))
    for parse in (float, parse_rate_bps, parse_size_bytes, parse_duration_s):
        keys = _keys(different, parse)
        if keys is not None:
            return sorted(different, key=keys.__getitem__)
    return different


def _keys(values: Sequence[str], parse: Callable[[str], Any]) -> dict[str, float] | None:
    try:
        return {value: float(parse(value)) for value in values}
    except (ValueError, InputError):
        return None


def _value(row: Across, path: str) -> str:
    return row.settings.get(path, row.backend)


def _median(row: Across, name: str) -> float | None:
    found = getattr(row, name)
    return None if found is None else short(found.median)


def _ratio(row: Across) -> list[float | None] | None:
    found = row.ratio
    return None if found is None else [short(found.mean), short(found.low), short(found.high)]
