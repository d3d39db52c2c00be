"""Bars of every policy: its times beside the prediction, and where they went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from echelonflow.records.blame import CAUSES, Cause
from results.analysis.budget import PARTS
from results.analysis.summary import PolicyResult, Summary
from results.colours import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, YELLOW, job_colours, policy_colour
from results.report.charts import Chart, short

MEASURES = (("iteration_s", "iteration time"), ("exposed_s", "exposed communication"), ("tardiness_s", "tardiness"))
"""Fields of results and predictions, and what they are called."""
_PART_COLOURS = (GREY, GREEN, BLUE, SKY, ORANGE, VERMILION)
_CAUSE_COLOURS: Mapping[Cause, str] = MappingProxyType(
    {
        "computation": GREY,
        "communication": SKY,
        "own flows": BLUE,
        "job scheduler": PURPLE,
        "enforcement": YELLOW,
        "unexplained": BLACK,
    }
)
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


def spent(summary: Summary) -> list[Chart]:
    """One chart for each job of which it is known: what a mean iteration was spent on, in seconds; other jobs by name."""
    told = [result for result in summary.results if result.blame]
    job_of = job_colours(_jobs(told))
    charts: list[Chart] = []
    for job in _jobs(told)[:MOST_JOBS]:
        mine = [result for result in told if result.job == job]
        others = sorted({each.other for result in mine for each in result.blame if each.other})
        parts: list[tuple[str, str, Cause, str]] = [
            (cause, _CAUSE_COLOURS[cause], cause, "") for cause in CAUSES if cause != "other job"
        ]
        parts += [(f"waiting for {other}", job_of[other], "other job", other) for other in others]
        drawn = [
            {"name": words, "colour": colour, "seconds": [_spent_s(result, cause, other) for result in mine]}
            for words, colour, cause, other in parts
        ]
        charts.append(
            {
                "kind": "spent",
                "job": job,
                "policies": [result.policy for result in mine],
                "parts": [part for part in drawn if any(part["seconds"])],
            }
        )
    return charts


def _spent_s(result: PolicyResult, cause: Cause, other: str) -> float | None:
    return short(sum(each.blamed_s for each in result.blame if (each.cause, each.other) == (cause, other)))


def _jobs(results: Sequence[PolicyResult]) -> list[str]:
    return list(dict.fromkeys(result.job for result in results))


def _estimate(result: PolicyResult, name: str) -> list[float | None] | None:
    found = getattr(result, name)
    return None if found is None else [short(found.median), short(found.low), short(found.high)]


def _predicted(result: PolicyResult, name: str) -> float | None:
    return None if result.predicted is None else short(getattr(result.predicted, name))
