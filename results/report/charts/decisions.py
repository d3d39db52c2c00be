"""Decisions over time, with the reason of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from results.analysis.shown import ShownRun
from results.colours import KINDS
from results.report.charts import Chart, short, spread

MOST_DECISIONS = 2_000
"""Of a run; of more, so many are shown, evenly over the run."""
LONGEST_REASON = 160
"""Letters: a reason may name many events."""


def decisions(runs: Sequence[ShownRun]) -> list[Chart]:
    """One chart for each run in which decisions were recorded; simulations record none."""
    return [_of(run) for run in runs if run.record.decisions]


def _of(run: ShownRun) -> Chart:
    taken = run.record.decisions
    shown = [taken[place] for place in spread(len(taken), MOST_DECISIONS)]
    kinds = Counter(_kind(d.trigger) for d in taken).most_common()
    place = {kind: i for i, (kind, _) in enumerate(kinds)}
    return {
        "kind": "decisions",
        "title": run.title,
        "count": len(taken),
        "kinds": [kind for kind, _ in kinds],
        "colours": [KINDS[i % len(KINDS)] for i in range(len(kinds))],
        "counts": [count for _, count in kinds],
        "of_kind": [place[_kind(d.trigger)] for d in shown],
        "time": [short(d.time_s) for d in shown],
        "took_ms": [short(d.total_ms) for d in shown],
        "policy_ms": [short(d.policy_ms) for d in shown],
        "flows": [d.flows for d in shown],
        "groups": [d.groups for d in shown],
        "changed": [len(d.changed) for d in shown],
        "reason": [_cut(d.trigger) for d in shown],
    }


def _kind(trigger: str) -> str:
    """What kind of event a decision answers: the first word of its reason."""
    return trigger.partition(" ")[0] or "unknown"


def _cut(trigger: str) -> str:
    return trigger if len(trigger) <= LONGEST_REASON else trigger[: LONGEST_REASON - 1] + "…"
