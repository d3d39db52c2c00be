"""The two logs of a run: what happened (events.jsonl) and what was decided (decisions.jsonl), side by side."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from echelonflow.records.decisions import DecisionLog
from echelonflow.records.events import Event, EventLog, Handled, Opening
from echelonflow.records.folder import RunFiles
from echelonflow.records.run_record import DecisionRecord


class RunLogs:
    """Both logs of one run, open from its begin to its end; every method may raise OSError.

    `path` is that of the decisions, in a folder of the run's own.

    Decisions are written line by line, events are buffered: there are many more of them, and no decision may wait.
    """

    def __init__(self, path: Path, opening: Opening, preamble: Iterable[Handled]) -> None:
        self._decisions = DecisionLog(path)
        self._events = EventLog(RunFiles(path.parent).events, opening)
        for logged in preamble:
            self._events.append(logged.now_s, logged.event)

    def event(self, event: Event, now_s: float) -> None:
        """Add what is handled at `now_s`."""
        self._events.append(now_s, event)

    def decision(self, record: DecisionRecord) -> None:
        """Add a decision."""
        self._decisions.write(record)

    def close(self) -> None:
        """Write out what is buffered."""
        self._decisions.close()
        self._events.close()
