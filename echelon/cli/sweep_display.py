"""What a person sees while a sweep goes on: one live line, or a plain line now and then where there is no terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console

from echelon.cli.live_line import LiveLine, left_in_words
from echelonflow.printable import printable
from echelonflow.records.progress import Broke, Failed, Progress, RunFailed, Warned

if TYPE_CHECKING:
    from echelon.sweeps.carrying import State

_DRAWN_EVERY_S = 0.5
_SAID_EVERY_S = 10.0


class SweepDisplay(LiveLine):
    """Callable that shows how far a sweep is; a context manager for the live line.

    It has no thread of its own: workers are forked beside it, and every drawing takes time from them.
    """

    def __init__(self, name: str, console: Console) -> None:
        super().__init__(name, console, refreshes=False)
        self._shown_s = time.monotonic()

    def plan(self, state: State) -> None:
        """Say what is to be done."""
        record = state.record
        parts = f"{_number(len(record.points), 'point')} x {_number(len(record.policies), 'policy', 'policies')}"
        words = f"{parts} x {_number(len(record.seeds), 'seed')} = {_number(state.total, 'cell')}"
        there = f", of which {state.kept} are there already" if state.kept else ""
        damaged = f"; {state.damaged} are damaged, and made anew" if state.damaged else ""
        self._say(words + there + damaged)

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
        left = left_in_words(state.left_s() or 0.0)
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
        self._print(f"{self._name}: {words}")


def _number(count: int, one: str, several: str | None = None) -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"
