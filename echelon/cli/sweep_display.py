"""What a person sees while a sweep goes on: one live line, or a plain line now and then where there is no terminal."""

from __future__ import annotations

import contextlib
import math
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as ProgressBar

from echelonflow.printable import printable
from echelonflow.records.progress import Broke, Failed, Progress, RunFailed, Warned

if TYPE_CHECKING:
    from echelon.sweeps.carrying import State

_DRAWN_EVERY_S = 0.5
_SAID_EVERY_S = 10.0


class SweepDisplay:
    """Callable that shows how far a sweep is; a context manager for the live line.

    It has no thread of its own: workers are forked beside it, and every drawing takes time from them.
    """

    def __init__(self, name: str, console: Console) -> None:
        self._name = name
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(30), TextColumn("{task.fields[left]}"))
        self._bar = ProgressBar(
            *columns, console=console, transient=True, disable=not console.is_terminal, auto_refresh=False
        )
        self._task = self._bar.add_task(printable(name), total=None, left="")
        self._shown_s = time.monotonic()

    def __enter__(self) -> SweepDisplay:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # a terminal that has gone
            self._bar.__exit__(kind, error, trace)

    def plan(self, state: State) -> None:
        """Say what is to be done."""
        record = state.record
        parts = f"{_number(len(record.points), 'point')} x {_number(len(record.policies), 'policy', 'policies')}"
        words = f"{parts} x {_number(len(record.seeds), 'seed')} = {_number(state.total, 'cell')}"
        there = f", of which {state.kept} are there already" if state.kept else ""
        self._say(words + there)

    def report(self, progress: Progress) -> None:
        """Say what went wrong in making a cell, and is no reason to end."""
        if isinstance(progress, Warned | RunFailed | Failed | Broke):
            self._say(progress.reason)

    def __call__(self, state: State) -> None:
        now_s = time.monotonic()
        every_s = _DRAWN_EVERY_S if self._console.is_terminal else _SAID_EVERY_S
        if now_s - self._shown_s < every_s and state.done < state.total:
            return
        self._shown_s = now_s
        bad = f", {state.failed} failed" if state.failed else ""
        words = f"{state.done} of {state.total} cells{bad}"
        left = _left(state.left_s())
        if not self._console.is_terminal:
            self._say(f"{words}{left and ', '}{left}")
            return
        self._bar.update(
            self._task,
            description=printable(f"{self._name}: {words}"),
            total=state.total,
            completed=state.done,
            left=left,
        )
        self._bar.refresh()

    def _say(self, words: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads it any more, and the sweep goes on
            self._console.print(printable(f"{self._name}: {words}"), highlight=False, markup=False, soft_wrap=True)


def _left(left_s: float | None) -> str:
    if left_s is None or left_s <= 0:
        return ""
    if left_s < 100:
        return f"about {math.ceil(left_s)} s left"
    return f"about {math.ceil(left_s / 60)} min left" if left_s < 100 * 60 else f"about {left_s / 3600:.1f} h left"


def _number(count: int, one: str, several: str | None = None) -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"
