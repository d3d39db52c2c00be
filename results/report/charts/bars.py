"""Bars of every policy: its times beside the prediction, and where they went."""

from __future__ import annotations

from collections.abc import Sequence

from results.analysis.budget import PARTS
from results.analysis.summary import PolicyResult, Summary
from results.colours import BLUE, GREEN, GREY, ORANGE, SKY, VERMILION, policy_colour
from results.report.charts import Chart, short

MEASURES = (("iteration_s", "iteration time"), ("exposed_s", "exposed communication"), ("tardiness_s", "tardiness"))
"""Fields of results and predictions, and what they are called."""
_PART_COLOURS = (GREY, GREEN, BLUE, SKY, ORANGE, VERMILION)
MOST_JOBS = 24
"""With bars of their own: the table has them all."""


def times(summary: Summary) -> list[Chart]:
    """One chart for each job: measured medians with intervals, and predictions."""
    charts: list[Chart] = []
    for job in _jobs(summary.results)[:MOST_JOBS]:
        mine = [result for result in summary.results if result.job == job]
        if not any(result.iteration_s for result in mine):
            continue
        charts.append(
            {
                "kind": "times",
                "job": job,
                "measures": [words for _, words in MEASURES],
                "policies": [result.policy for result in mine],
                "colours": [policy_colour(result.policy) for result in mine],
                "found": [[_estimate(result, name) for result in mine] for name, _ in MEASURES],
                "predicted": [[_predicted(result, name) for result in mine] for name, _ in MEASURES],
            }
        )
    return charts


def budgets(summary: Summary) -> list[Chart]:
    """One chart for each job whose runs were explained: what each cause added to the ideal, in seconds."""
    explained = [result for result in summary.results if result.budget is not None]
    charts: list[Chart] = []
    for job in _jobs(explained)[:MOST_JOBS]:
        mine = [result for result in explained if result.job == job]
        charts.append(
            {
                "kind": "budget",
                "job": job,
                "policies": [result.policy for result in mine],
                "parts": [
                    {"name": words, "colour": colour, "seconds": [short(getattr(r.budget, name)) for r in mine]}
                    for (name, words), colour in zip(PARTS, _PART_COLOURS, strict=True)
                ],
            }
        )
    return charts


def _jobs(results: Sequence[PolicyResult]) -> list[str]:
    return list(dict.fromkeys(result.job for result in results))


def _estimate(result: PolicyResult, name: str) -> list[float | None] | None:
    found = getattr(result, name)
    return None if found is None else [short(found.median), short(found.low), short(found.high)]


def _predicted(result: PolicyResult, name: str) -> float | None:
    return None if result.predicted is None else short(getattr(result.predicted, name))
