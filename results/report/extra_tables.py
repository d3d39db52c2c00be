"""Tables that other analyses leave in a run folder, shown in the report where they are there: such as blame.csv."""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass
from pathlib import Path

_FILES = (("blame.csv", "Blame: what each job waited for"), ("measures.csv", "Measures"))
"""Name of a file, title of its section."""
MOST_ROWS = 500
"""Of a table; the file has all."""


@dataclass(frozen=True, slots=True)
class ExtraTable:
    """What is shown of one file."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: bool
    """Whether the file has more rows."""


def extra_tables(root: Path) -> list[ExtraTable]:
    """The tables that are in `root`; what is no table is left out, as what is made by analysis is made again."""
    return [found for name, title in _FILES if (found := _read(root / name, title)) is not None]


def _read(path: Path, title: str) -> ExtraTable | None:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            head, *rows = itertools.islice(csv.reader(file), MOST_ROWS + 2)
    except (OSError, ValueError, csv.Error):
        return None
    shown = tuple(tuple(row) for row in rows[:MOST_ROWS] if len(row) == len(head))
    return ExtraTable(path.name, title, tuple(head), shown, len(rows) > MOST_ROWS)
