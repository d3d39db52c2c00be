"""What a person sees while an experiment runs: one live line, or plain lines where there is no terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from experiments.schema import Experiment

_WORDS = {
    "predicting": "predicting by fluid simulation",
    "building": "building {hosts} hosts, {switches} switches",
    "calibrating": "calibrating links ({datapath} datapath)",
    "running": "run {number} of {of}: {policy}, repeat {repeat}",
    "analysing": "reading packets, drawing pictures",
    "failed": "failed: {reason}",
    "invalid": "invalid: {reason}",
    "warning": "warning: {reason}",
    "interrupted": "interrupted; keeping what there is",
    "done": "all runs done",
}


class Display:
    """Callable that shows progress reports of `runner.run`; a context manager for the live line."""

    def __init__(self, experiment: Experiment, console: Console) -> None:
        self._name = experiment.name
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(30), TimeRemainingColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task(self._name, total=None)
        self._started_s = time.monotonic()

    def __enter__(self) -> Display:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def __call__(self, report: dict[str, Any]) -> None:
        facts = {"number": report.get("run", 0) + 1, **report}
        words = _WORDS[report["stage"]].format(**facts)
        if report["stage"] == "running":
            self._bar.update(self._task, total=report["of"], completed=report["run"])
        self._bar.update(self._task, description=f"{self._name}: {words}")
        if not self._console.is_terminal or report["stage"] in ("failed", "invalid", "interrupted", "warning"):
            self._console.print(
                f"[{time.monotonic() - self._started_s:6.1f} s] {self._name}: {words}", highlight=False, markup=False
            )
