"""The logs of a run, side by side.

What happened is in events.jsonl, what was decided in decisions.jsonl. When switches had their rules is in rules.jsonl,
where that is asked for. When switches' queues had other weights is in weights.jsonl, where they are given any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from echelonflow.records.decisions import DecisionLog
from echelonflow.records.events import Event, EventLog, Handled, Opening
from echelonflow.records.folder import RunFiles
from echelonflow.records.rules import RulesGiven, RulesLog
from echelonflow.records.run_record import DecisionRecord
from echelonflow.records.weights import WeightsGiven, WeightsLog


class RunLogs:
    """All logs of one run, open from its begin to its end; every method may raise OSError.

    `path` is that of the decisions, in a folder of the run's own.

    Decisions are written line by line, events are buffered: there are many more of them, and no decision may wait.
    """

    def __init__(
        self, path: Path, opening: Opening, preamble: Iterable[Handled], *, confirm_rules: bool = False
    ) -> None:
        self._decisions = DecisionLog(path)
        self._decided = 0
        self._rules = RulesLog(RunFiles(path.parent).rules) if confirm_rules else None
        self._weights_path = RunFiles(path.parent).weights
        self._weights: WeightsLog | None = None
        self._closed = False
        self._events = EventLog(RunFiles(path.parent).events, opening)
        for logged in preamble:
            self._events.append(logged.now_s, logged.event)

    def event(self, event: Event, now_s: float) -> None:
        """Add what is handled at `now_s`."""
        self._events.append(now_s, event)

    def decision(self, record: DecisionRecord) -> None:
        """Add a decision."""
        self._decisions.write(record)
        self._decided += 1

    def given(self, switch: str, rules: int, sent_s: float) -> Callable[[float], None]:
        """A switch was given rules at `sent_s`; call the result with the time at which it has confirmed them."""
        decisions = self._decided

        def confirmed(confirmed_s: float) -> None:
            if self._rules is not None:
                self._rules.write(RulesGiven(switch, rules, decisions, sent_s, confirmed_s))

        return confirmed

    def weighed(self, sent_s: float) -> Callable[[int, float], None]:
        """Switches' queues were given weights at `sent_s`; call the result with how many classes had theirs when."""
        decisions = self._decided

        def confirmed(classes: int, confirmed_s: float) -> None:
            if self._closed:
                return
            if self._weights is None:
                self._weights = WeightsLog(self._weights_path)
            self._weights.write(WeightsGiven(classes, decisions, sent_s, confirmed_s))

        return confirmed

    def close(self) -> None:
        """Write out what is buffered."""
        self._closed = True
        if self._weights is not None:
            self._weights.close()
        self._decisions.close()
        self._events.close()
        if self._rules is not None:
            self._rules.close()
            self._rules = None
