"""The table of a sweep: one row for each cell and job, what was swept as columns, whether it counts."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelonflow.errors import InputError
from echelonflow.files import write_whole
from echelonflow.model.units import parse_duration_s, parse_rate_bps, parse_size_bytes
from echelonflow.records.cells import Cell, read_cell
from echelonflow.records.sweeps import CELLS, SweepRecord
from echelonflow.spelling import in_one_line
from results.analysis.columns import csv_line, keys_of
from results.analysis.figures import JobFigures
from results.analysis.run_figures import MoreOfJob, RunFigures

COLUMNS = (JobFigures, MoreOfJob, RunFigures)
"""What stands between what was swept and the last columns; each by its name in the cell."""
_QUANTITIES = (("_bps", parse_rate_bps), ("_bytes", parse_size_bytes), ("_s", parse_duration_s))
_DIGITS = 10


@dataclass(frozen=True, slots=True)
class CellKey:
    """Which cell a row is of, and whether it counts: the first columns."""

    cell: str
    """Name of the cell's folder in `cells/`. From sweep.json."""
    point: int
    """Number of the point in the sweep, counted from 0. From sweep.json."""
    backend: str
    """`fluid` for simulated cells, `emulation` for those on packets. From sweep.json."""
    policy: str
    """Policy with its options. From sweep.json."""
    seed: int
    """Seed of the run: rows of one point and seed are compared pair by pair. From sweep.json."""
    job: str
    """Name of the job; empty in the one row of a cell that failed before it had any. From the experiment file."""
    valid: bool
    """Whether the row counts: the cell was carried out and kept all limits. From the cell."""
    reason: str
    """Why it does not count; empty where it does. From the cell."""


@dataclass(frozen=True, slots=True)
class CellEnd:
    """What else a cell says of a job: the last columns."""

    iterations: int | None
    """Number of iterations that the job ended, counted or not. From the cell."""
    counted: int | None
    """Number of those that count (`window:`), over which means and percentiles are; empty in cells of an older revision. From the cell."""
    set_aside: int
    """Number of emulated runs that were made for the cell and do not count. From the cell."""
    took_s: float
    """Time that it took to compute the cell, of all its jobs. From the cell."""


@dataclass(frozen=True)
class CellTable:
    """The table as columns of equal length, and which of them are values that were swept."""

    columns: Mapping[str, list[Any]]
    swept: Sequence[str]

    def __len__(self) -> int:
        return len(self.columns["cell"])

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows, in the order of the sweep."""
        return zip(*self.columns.values(), strict=True)


def found_cells(folder: Path, record: SweepRecord) -> dict[str, Cell]:
    """Every cell of a sweep that has ended, by name."""
    place = folder / CELLS
    there = {path.name for path in place.iterdir()} if place.is_dir() else set()
    read = {cell.name: read_cell(place / cell.name) for cell in record.cells if cell.name in there}
    return {name: cell for name, cell in read.items() if cell is not None}


def damaged_cells(folder: Path, record: SweepRecord, found: Mapping[str, Cell]) -> list[str]:
    """Names of cells whose folder is there, and is none of those that were `found`: it cannot be read."""
    return [cell.name for cell in record.cells if cell.name not in found and (folder / CELLS / cell.name).exists()]


def cell_table(record: SweepRecord, found: Mapping[str, Cell]) -> CellTable:
    """The table of the cells that were `found`; those that have not ended have no row.

    A value that was swept has a column by its path, as it was written. Where all values of one are rates, sizes or
    durations, a column beside it has them in bit/s, bytes or seconds.
    """
    paths = list(dict.fromkeys(path for point in record.points for path in point))
    numbers = {path: _measured([point.get(path) for point in record.points]) for path in paths}
    key, end = keys_of(CellKey), keys_of(CellEnd)
    figures = [name for kind in COLUMNS for name in keys_of(kind)]
    swept = []
    for path in paths:
        known = numbers[path]
        swept += [path] if known is None else [path, path + known[0]]
    columns: dict[str, list[Any]] = {name: [] for name in (*key, *swept, *figures, *end)}
    for planned in record.cells:
        cell = found.get(planned.name)
        if cell is None:
            continue
        of_point: dict[str, Any] = {}
        for path in paths:
            of_point[path] = _plain(record.points[planned.point].get(path))
            known = numbers[path]
            if known is not None:
                of_point[path + known[0]] = known[1][planned.point]
        for job, values in (cell.jobs or {"": {}}).items():
            row = {
                "cell": planned.name, "point": planned.point, "backend": cell.backend, "policy": planned.policy,
                "seed": planned.seed, "job": job, "valid": cell.valid and bool(job), "reason": "; ".join(cell.reasons),
                **of_point, **values, **cell.together, "set_aside": cell.set_aside, "took_s": cell.took_s,
            }  # fmt: skip
            for name, column in columns.items():
                column.append(row.get(name))
    return CellTable(columns, swept)


def cells_csv(table: CellTable) -> str:
    """The table as CSV; numbers with ten digits, true and false for what is either, nothing where there is no value."""
    return "".join([csv_line(table.columns), *(csv_line(map(_cell, row)) for row in table.rows())])


def write_cells_csv(path: Path, table: CellTable) -> None:
    """Write the table as CSV."""
    write_whole(path, cells_csv(table))


def write_cells_parquet(path: Path, table: CellTable) -> bool:
    """The table as Parquet; False, and nothing is written, where pyarrow is not installed."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        return False
    columns = {name: _of_one_kind(values) for name, values in table.columns.items()}
    text = io.BytesIO()
    parquet.write_table(pa.table(columns), text)
    write_whole(path, text.getvalue())
    return True


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else value


def _plain(value: Any) -> Any:
    """A value that was swept as a table holds it: numbers and texts as they are, what has parts as text."""
    return value if value is None or isinstance(value, str | int | float | bool) else in_one_line(value)


def _measured(values: Sequence[Any]) -> tuple[str, list[float | None]] | None:
    """The unit at the end of a column's name, and the values in it, where all are texts of one quantity."""
    texts = {value for value in values if value is not None}
    if not texts or not all(isinstance(value, str) for value in texts):
        return None
    for unit, parse in _QUANTITIES:
        try:
            known = {text: float(parse(text)) for text in texts}
        except InputError:
            continue
        return unit, [None if value is None else known[value] for value in values]
    return None


def _of_one_kind(values: Iterable[Any]) -> list[Any]:
    """The same values; as texts where they are of several kinds, which no column of Parquet holds."""
    values = list(values)
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and len(kinds) == 2:
        return [None if value is None else float(value) for value in values]
    return values if len(kinds) <= 1 else [None if value is None else str(_cell(value)) for value in values]
