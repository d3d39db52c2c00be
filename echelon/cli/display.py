"""What a person sees while an experiment runs: one live line, or plain lines where there is no terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console

from echelon.cli.live_line import LiveLine, left_in_words
from echelon.experiment.schema import Experiment
from echelon.running.progress_words import in_words
from echelonflow.printable import printable
from echelonflow.records.progress import (
    Broke,
    Failed,
    Interrupted,
    Invalid,
    IterationBegun,
    Progress,
    Repeating,
    RunFailed,
    Running,
    Warned,
)

if TYPE_CHECKING:
    from typing_extensions import Self

_ALWAYS_SAID = (RunFailed, Repeating, Broke, Failed, Invalid, Warned, Interrupted)
OVERHEAD_S = 2.5
"""What a run takes beside the replay itself: agents, captures, queues."""


class Display(LiveLine):
    """Callable that shows progress reports of `runner.run`; a context manager for the live line.

    On a terminal one live line says policy, repeat, iteration and time left. Elsewhere only what went wrong is reported,
    unless `verbose`.
    """

    def __init__(self, experiment: Experiment, console: Console, *, verbose: bool = False) -> None:
        super().__init__(experiment.name, console, refreshes=True)
        self._experiment = experiment
        self._verbose = verbose
        self._started_s = time.monotonic()
        self._now: Running | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        for note in self._experiment.notes:
            for warning in note.warnings:
                self._say(f"warning: job {note.job}: {warning}")
            for fact in (*note.imported, *note.facts) if self._verbose else ():
                self._say(f"job {note.job}: {fact}")
            for lost in note.dropped if not self._verbose else ():
                self._say(f"job {note.job}: dropped {lost}")
        return self

    def __call__(self, report: Progress) -> None:
        if isinstance(report, Running):
            self._now = report
        now = self._now
        words = in_words(report, now)
        if now is not None and isinstance(report, Running | IterationBegun):
            self._bar.update(self._task, total=now.of, completed=now.run, left=_left(now))
        self._bar.update(self._task, description=printable(f"{self._name}: {words}"))
        if self._verbose or isinstance(report, _ALWAYS_SAID):
            self._say(words)

    def _say(self, words: str) -> None:
        self._print(f"[{time.monotonic() - self._started_s:6.1f} s] {self._name}: {words}")


def _left(now: Running) -> str:
    """Time left, from the predicted length of the runs to come."""
    return left_in_words((now.of - now.run) * (now.expected_s + OVERHEAD_S))
