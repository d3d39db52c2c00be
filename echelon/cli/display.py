"""What a person sees while an experiment runs: one live line, or plain lines where there is no terminal."""

from __future__ import annotations

import contextlib
import math
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as ProgressBar

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

_ALWAYS_SAID = (RunFailed, Repeating, Broke, Failed, Invalid, Warned, Interrupted)
OVERHEAD_S = 2.5
"""What a run takes beside the replay itself: agents, captures, queues."""


class Display:
    """Callable that shows progress reports of `runner.run`; a context manager for the live line.

    On a terminal one live line says policy, repeat, iteration and time left. Elsewhere only what went wrong is reported,
    unless `verbose`.
    """

    def __init__(self, experiment: Experiment, console: Console, *, verbose: bool = False) -> None:
        self._experiment = experiment
        self._console = console
        self._verbose = verbose
        columns = (TextColumn("{task.description}"), BarColumn(30), TextColumn("{task.fields[left]}"))
        self._bar = ProgressBar(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(experiment.name, total=None, left="")
        self._started_s = time.monotonic()
        self._now: Running | None = None

    def __enter__(self) -> Display:
        self._bar.__enter__()
        for note in self._experiment.notes:
            for warning in note.warnings:
                self._say(f"warning: job {note.job}: {warning}")
            for fact in (*note.imported, *note.facts) if self._verbose else ():
                self._say(f"job {note.job}: {fact}")
            for lost in note.dropped if not self._verbose else ():
                self._say(f"job {note.job}: dropped {lost}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # a terminal that has gone
            self._bar.__exit__(kind, error, trace)

    def __call__(self, report: Progress) -> None:
        if isinstance(report, Running):
            self._now = report
        now = self._now
        words = in_words(report, now)
        if now is not None and isinstance(report, Running | IterationBegun):
            self._bar.update(self._task, total=now.of, completed=now.run, left=_left(now))
        self._bar.update(self._task, description=printable(f"{self._experiment.name}: {words}"))
        if self._verbose or isinstance(report, _ALWAYS_SAID):
            self._say(words)

    def _say(self, words: str) -> None:
        at = f"[{time.monotonic() - self._started_s:6.1f} s]"
        with contextlib.suppress(OSError):  # nobody reads it any more, and the experiment goes on
            line = printable(f"{at} {self._experiment.name}: {words}")
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _left(now: Running) -> str:
    """Time left, from the predicted length of the runs to come."""
    left_s = (now.of - now.run) * (now.expected_s + OVERHEAD_S)
    return f"about {math.ceil(left_s)} s left"
