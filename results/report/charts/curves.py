"""Distributions: how long iterations take, how late flows end, when Coflows complete; one curve for each policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from echelonflow.model.arrays import Floats
from results.analysis.analysed_run import AnalysedRun
from results.analysis.coflows import TraceRun
from results.analysis.rows import SimulatedFlowRows
from results.colours import looks
from results.report.charts import Chart, short, spread

MOST_POINTS = 400
"""Of a curve."""
MOST_JOBS = 6
"""With a chart of iteration times each; of more, all iterations together are in one."""


def iteration_curves(runs: Sequence[AnalysedRun], policies: Sequence[str]) -> list[Chart]:
    """Iteration times of the valid runs, of every job or of all together; nothing where there are none."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    jobs = list(dict.fromkeys(row.job for run in runs for row in run.rows.iterations))
    for run in _valid(runs):
        for row in run.rows.iterations:
            found[row.job if len(jobs) <= MOST_JOBS else ""][run.record.policy].append(row.duration_s)
    return [
        distribution_of(f"{job or 'all jobs'}: iteration time (s)", values, policies) for job, values in found.items()
    ]


def tardiness_curves(runs: Sequence[AnalysedRun], policies: Sequence[str]) -> list[Chart]:
    """How much later than its ideal finish time each flow of the valid runs ended; nothing where there are none."""
    found: dict[str, list[Floats]] = defaultdict(list)
    for run in _valid(runs):
        late_s = _tardiness_s(run)
        if late_s.size:
            found[run.record.policy].append(late_s)
    values = {policy: np.concatenate(parts) for policy, parts in found.items()}
    return [distribution_of("tardiness of flows (s)", values, policies)] if values else []


def completion_curves(runs: Sequence[TraceRun]) -> list[Chart]:
    """Completion times of Coflows under every policy, on a logarithmic axis, and the share that takes longer."""
    values = {run.policy: run.completion_s for run in runs}
    policies = [run.policy for run in runs]
    body = distribution_of("Coflow completion time (s)", values, policies)
    return [{**body, "log": True}, {**body, "log": True, "tail": True}]


def _valid(runs: Sequence[AnalysedRun]) -> list[AnalysedRun]:
    return [run for run in runs if run.result.valid]


def _tardiness_s(run: AnalysedRun) -> Floats:
    rows = run.rows.flows
    if isinstance(rows, SimulatedFlowRows):
        late_s = np.asarray(rows.by_column().varying["tardiness_s"], np.float64)
        return late_s[~np.isnan(late_s)]
    return np.array([row.tardiness_s for row in rows if row.tardiness_s is not None], np.float64)


def distribution_of(what: str, values: Mapping[str, Sequence[float] | Floats], policies: Sequence[str]) -> Chart:
    """Share of values up to a value, a curve for each of `policies` that has any; `what` names the values and their unit."""
    look_of = looks(policies)
    series = []
    for policy in policies:
        if policy not in values:
            continue
        ordered = np.sort(np.asarray(values[policy], np.float64))
        places = spread(ordered.size, MOST_POINTS)
        series.append(
            {
                "name": policy, "colour": look_of[policy].colour, "line": look_of[policy].line, "count": int(ordered.size),
                "x": [short(x) for x in ordered[places].tolist()],
                "y": [short((place + 1) / ordered.size) for place in places],
            }
        )  # fmt: skip
    return {"kind": "cdf", "what": what, "series": series}
