"""Benchmarks by name, one file each: what the testbed measures of itself.

A benchmark module has `run(repeat, say) -> list[Figure]`: `repeat` measurements of each figure, `say` for
progress in words. Its docstring's first line describes it. If `run` has a parameter `folder`, it is told where
pictures go: beside the file of figures, or into the working folder. If it has a parameter `only`, it can measure a
part: it is told the patterns of names that the user gave, none for all. If it has a parameter `emulated`, some of it is
emulated, and measured only where the user says so.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.table import Table

from echelonflow import plugins
from echelonflow.errors import EXIT_FAILED, EXIT_VALID, EchelonError, InputError
from echelonflow.files import write_whole

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


def run_benchmarks(
    chosen: list[str],
    repeat: int,
    out: Path | None,
    console: Console,
    only: Sequence[str] = (),
    *,
    emulated: bool = False,
) -> int:
    """Run the benchmarks, print a table of figures, write them to `out`; returns an exit code.

    One that cannot run here is reported with its reason and counts as failed only if it was asked for. InputError if
    `only` (patterns of names) is given for one that has no parts, or `emulated` for one that has no such part.
    """
    for name in (chosen or names()) if only or emulated else []:  # before anything is measured
        _wanted(name, plugins.load(sys.modules[__name__], name, "benchmark"), out, only, emulated=emulated)
    failed = False
    found: dict[str, list[dict[str, object]]] = {}
    for name in chosen or names():
        module = plugins.load(sys.modules[__name__], name, "benchmark")
        console.print(f"[bold]{name}[/bold]: {describe(name)}", highlight=False)
        started_s = time.monotonic()
        try:
            figures: list[Figure] = module.run(
                repeat,
                lambda words: console.print(f"  {words}", style="dim", highlight=False, markup=False),
                **_wanted(name, module, out, only, emulated=emulated),
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
        write_whole(out, json.dumps(found, indent=1) + "\n")
    return EXIT_FAILED if failed else EXIT_VALID


def _wanted(
    name: str, module: ModuleType, out: Path | None, only: Sequence[str], *, emulated: bool
) -> dict[str, object]:
    """What a benchmark wants to be told beyond `repeat` and `say`."""
    parameters = inspect.signature(module.run).parameters
    if emulated and "emulated" not in parameters:
        raise InputError(f"--emulated: {name} has no part that can be left out; leave --emulated out")
    if only and "only" not in parameters:
        raise InputError(f"--only: {name} is measured as a whole; leave --only out, or name a benchmark that has parts")
    told: dict[str, object] = {
        "folder": Path() if out is None else out.parent,
        "only": tuple(only),
        "emulated": emulated,
    }
    return {key: value for key, value in told.items() if key in parameters}
