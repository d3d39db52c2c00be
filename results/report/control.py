"""The table of the control plane: for each policy, what its controller had to do, and how long its decisions took."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from results.analysis.control_plane import ControlPlane
from results.analysis.summary import Summary


@dataclass(frozen=True, slots=True)
class ControlLine:
    """One policy: medians over its valid runs, or over all where none is valid; the longest decision is that of any of them."""

    policy: str
    runs: int
    decisions: float
    messages: float
    settings: float
    rules: float | None
    """None where switches were not asked to confirm them."""
    p50_ms: float | None
    p95_ms: float | None
    max_ms: float | None
    """None, as both before it, where no decision was taken."""


def control_table(summary: Summary) -> list[ControlLine]:
    """A line for each policy; nothing for simulations, which have no control plane."""
    found = []
    for policy in dict.fromkeys(run.policy for run in summary.runs):
        mine = [run for run in summary.runs if run.policy == policy and run.control is not None]
        counted = [run for run in mine if run.valid] or mine
        all_of = [run.control for run in counted if run.control is not None]
        if all_of:
            found.append(_line(policy, all_of))
    return found


def _line(policy: str, runs: list[ControlPlane]) -> ControlLine:
    longest = [run.decision_max_ms for run in runs if run.decision_max_ms is not None]
    return ControlLine(
        policy,
        len(runs),
        statistics.median(run.decisions for run in runs),
        statistics.median(run.messages for run in runs),
        statistics.median(run.settings for run in runs),
        _median(runs, lambda run: run.rules),
        _median(runs, lambda run: run.decision_p50_ms),
        _median(runs, lambda run: run.decision_p95_ms),
        max(longest, default=None),
    )


def _median(runs: list[ControlPlane], of: Callable[[ControlPlane], float | None]) -> float | None:
    known = [value for run in runs if (value := of(run)) is not None]
    return statistics.median(known) if known else None
