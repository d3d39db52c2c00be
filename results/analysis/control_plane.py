"""How much the controller of a run had to do, and how long its decisions took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from echelonflow.records.events import messages
from echelonflow.records.folder import RunFiles
from echelonflow.records.rules import read_rules
from echelonflow.records.run_record import RunRecord
from results.analysis.statistics import quantile


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The control plane of one emulated run."""

    messages: int
    """Messages of agents that reached the controller. From events.jsonl."""
    decisions: int
    """Decisions that it took, ahead of releases or at events. From decisions.jsonl."""
    settings: int
    """Settings of flows that these changed: each is a message to an agent, and where its mark is new a rule. From decisions.jsonl."""
    rules: int | None
    """Changes of rules that switches confirmed; empty where they were not asked to (`emulation: {confirm_rules: true}`). From rules.jsonl."""
    decision_p50_ms: float | None
    """Time from the first of the events to the instructions: median over decisions. From decisions.jsonl."""
    decision_p95_ms: float | None
    """The same: 95th percentile. From decisions.jsonl."""
    decision_max_ms: float | None = None
    """The same: the longest. From decisions.jsonl."""


def control_plane(record: RunRecord, files: Sequence[RunFiles]) -> ControlPlane:
    """What the controller did in a run whose logs are in `files`: of the first one, and of each that was started anew."""
    took_ms = [decision.total_ms for decision in record.decisions]
    given = [line.rules for each in files for line in read_rules(each.rules, [])]
    return ControlPlane(
        messages=sum(messages(each.events) for each in files),
        decisions=len(record.decisions),
        settings=sum(len(decision.changed) for decision in record.decisions),
        rules=sum(given) if any(each.rules.exists() for each in files) else None,
        decision_p50_ms=quantile(took_ms, 0.5),
        decision_p95_ms=quantile(took_ms, 0.95),
        decision_max_ms=max(took_ms, default=None),
    )
