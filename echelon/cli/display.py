"""What a person sees while an experiment runs: one live line, or plain lines where there is no terminal."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from echelon.experiment.schema import Experiment

_WORDS = {
    "predicting": "predicting by fluid simulation",
    "simulating": "simulating {policy}: {now_s:.0f} s; the last Coflow arrives at {last_s:.0f} s",
    "building": "building {hosts} hosts, {switches} switches",
    "calibrating": "calibrating links ({datapath} datapath)",
    "running": "run {number} of {of}: {policy}, repeat {repeat}",
    "iteration": "run {number} of {of}: {policy}, repeat {repeat}, iteration {iteration}",
    "analysing": "reading packets, drawing pictures",
    "failed": "failed: {reason}",
    "invalid": "invalid: {reason}",
    "warning": "warning: {reason}",
    "interrupted": "interrupted; keeping what there is",
    "done": "all runs done",
}
_ALWAYS_SAID = ("failed", "invalid", "warning", "interrupted")
OVERHEAD_S = 2.5
"""What a run takes beside the replay itself: agents, captures, queues."""


class Display:
    """Callable that shows progress reports of `runner.run`; a context manager for the live line.

    On a terminal one live line says policy, repeat, iteration and time left. Elsewhere only what went wrong is said,
    unless `verbose`.
    """

    def __init__(self, experiment: Experiment, console: Console, *, verbose: bool = False) -> None:
        self._experiment = experiment
        self._console = console
        self._verbose = verbose
        columns = (TextColumn("{task.description}"), BarColumn(30), TextColumn("{task.fields[left]}"))
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(experiment.name, total=None, left="")
        self._started_s = time.monotonic()
        self._now: dict[str, Any] = {}

    def __enter__(self) -> Display:
        self._bar.__enter__()
        for note in self._experiment.notes:
            for warning in note.warnings:
                self._say(f"warning: job {note.job}: {warning}")
            for fact in note.facts if self._verbose else ():
                self._say(f"job {note.job}: {fact}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def __call__(self, report: dict[str, Any]) -> None:
        if report["stage"] == "running":
            self._now = {"number": report["run"] + 1, **report}
        words = _WORDS[report["stage"]].format(**{**self._now, **report})
        if report["stage"] in ("running", "iteration"):
            total = self._now["of"]
            self._bar.update(self._task, total=total, completed=self._now["run"], left=self._left())
        self._bar.update(self._task, description=f"{self._experiment.name}: {words}")
        if self._verbose or report["stage"] in _ALWAYS_SAID:
            self._say(words)

    def _left(self) -> str:
        """Time left, from the predicted length of the runs to come."""
        mean_s = self._now["expected_s"] + OVERHEAD_S
        left_s = (self._now["of"] - self._now["run"]) * mean_s
        return f"about {math.ceil(left_s)} s left"

    def _say(self, words: str) -> None:
        at = f"[{time.monotonic() - self._started_s:6.1f} s]"
        self._console.print(f"{at} {self._experiment.name}: {words}", highlight=False, markup=False, soft_wrap=True)
