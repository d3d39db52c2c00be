"""One live line at the bottom of a terminal, and plain lines above it or where there is no terminal."""

from __future__ import annotations

import contextlib
import math
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as ProgressBar

from echelonflow.printable import printable

if TYPE_CHECKING:
    from typing_extensions import Self


class LiveLine:
    """What displays of long work have in common; a context manager, which takes the line away at its end.

    Without `refreshes` it has no thread of its own, and is drawn when it is told to be.
    """

    def __init__(self, name: str, console: Console, *, refreshes: bool) -> None:
        self._name = name
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(30), TextColumn("{task.fields[left]}"))
        self._bar = ProgressBar(
            *columns, console=console, transient=True, disable=not console.is_terminal, auto_refresh=refreshes
        )
        self._task = self._bar.add_task(printable(name), total=None, left="")

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # a terminal that has gone
            self._bar.__exit__(kind, error, trace)

    def _print(self, words: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads it any more, and the work goes on
            self._console.print(printable(words), highlight=False, markup=False, soft_wrap=True)


def left_in_words(left_s: float) -> str:
    """Such as "about 40 s left", "about 12 min left", "about 2.5 h left"; empty where nothing is."""
    if left_s <= 0:
        return ""
    if left_s < 100:
        return f"about {math.ceil(left_s)} s left"
    return f"about {math.ceil(left_s / 60)} min left" if left_s < 100 * 60 else f"about {left_s / 3600:.1f} h left"
