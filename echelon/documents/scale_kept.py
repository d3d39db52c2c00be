"""What was computed of large clusters, kept in docs/scale/: files of rows, where what is computed anew replaces what was kept of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from echelon.places import DOCS
from echelonflow.codec import Log
from echelonflow.files import write_whole

NAME = "scale"
"""Of the page, of its picture, and of the folder of what was computed."""
FOLDER = DOCS / NAME
DIGITS = 6


class OfCluster(Protocol):
    """What is known of a point of a cluster."""

    @property
    def gpus(self) -> int: ...
    @property
    def load(self) -> float: ...
    @property
    def placement(self) -> str: ...


Row = TypeVar("Row", bound=OfCluster)


@dataclass(frozen=True)
class Kept(Generic[Row]):
    """One file of rows."""

    file: str
    log: Log[Row]
    key: Callable[[Row], Hashable]
    """By what a row is told from others."""

    def rows_in(self, folder: Path = FOLDER) -> list[Row]:
        """What was computed before."""
        path = folder / self.file
        return list(self.log.read(path)) if path.is_file() else []

    def merged(self, kept: Iterable[Row], found: Iterable[Row]) -> list[Row]:
        """All rows by size of cluster; one that was computed anew stands in the place of what was kept."""
        rows = {self.key(row): row for row in (*kept, *found)}
        return sorted(rows.values(), key=lambda row: row.gpus)

    def write(self, rows: Iterable[Row], folder: Path = FOLDER) -> None:
        """Keep these rows, and no others."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / self.file, self.log.header + b"".join(map(self.log.line, rows)))

    def add(self, found: Iterable[Row], folder: Path = FOLDER) -> None:
        """Keep these rows beside those of other points."""
        self.write(self.merged(self.rows_in(folder), found), folder)


def rounded(value: float) -> float:
    """As it is kept."""
    return float(f"{value:.{DIGITS}g}")
