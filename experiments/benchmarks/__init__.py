"""Benchmarks by name, one file each: what the testbed measures of itself.

A benchmark module has `run(repeat, say) -> list[Figure]`: `repeat` measurements of each figure, `say` for
progress in words. Its docstring's first line describes it. If `run` has a parameter `folder`, it is told where
pictures go: beside the file of figures, or into the working folder.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from echelonflow import plugins
from echelonflow.errors import EXIT_FAILED, EXIT_VALID, EchelonError

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: what was measured, and what it must be (`ok` is None where nothing is demanded)."""

    what: str
    measured: str
    must: str
    ok: bool | None


def names() -> list[str]:
    """All benchmarks."""
    return plugins.names(sys.modules[__name__])


def describe(name: str) -> str:
    """What a benchmark shows, in a line."""
    return (inspect.getdoc(plugins.load(sys.modules[__name__], name, "benchmark")) or "").partition("\n")[0]


def run_benchmarks(chosen: list[str], repeat: int, out: Path | None, console: Console) -> int:
    """Run the benchmarks, print a table of figures, write them to `out`; returns an exit code.

    One that cannot run here is reported with its reason and counts as failed only if it was asked for.
    """
    failed = False
    found: dict[str, list[dict[str, object]]] = {}
    for name in chosen or names():
        module = plugins.load(sys.modules[__name__], name, "benchmark")
        console.print(f"[bold]{name}[/bold]: {describe(name)}", highlight=False)
        started_s = time.monotonic()
        try:
            draws = "folder" in inspect.signature(module.run).parameters
            figures: list[Figure] = module.run(
                repeat,
                lambda words: console.print(f"  {words}", style="dim", highlight=False, markup=False),
                **({"folder": Path() if out is None else out.parent} if draws else {}),
            )
        except EchelonError as error:
            console.print(f"  not measured: {error}", style="red", markup=False)
            failed = failed or bool(chosen)
            continue
        table = Table("figure", "measured", "must", "")
        for figure in figures:
            mark = "" if figure.ok is None else ("ok" if figure.ok else "MISSED")
            table.add_row(figure.what, figure.measured, figure.must, mark)
        console.print(table, f"  {time.monotonic() - started_s:.0f} s\n", highlight=False)
        found[name] = [asdict(figure) for figure in figures]
        failed = failed or any(figure.ok is False for figure in figures)
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n")
    return EXIT_FAILED if failed else EXIT_VALID
