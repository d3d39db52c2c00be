"""A table of results: columns as numpy arrays, rows as mappings, or a data frame where pandas is installed."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from echelonflow.errors import InputError
from echelonflow.spelling import unknown
from echelonflow.tables import text_table

_SHOWN = 20
"""Rows that are shown of a long table."""


class Table(Sequence[Mapping[str, Any]]):
    """Rows with named columns; `meanings` says what is in each, as docs/columns.md does.

    `table["iteration_s"]` is a column (numpy array), `table[0]` a row (mapping). Empty numbers are NaN.
    """

    def __init__(self, columns: Mapping[str, npt.NDArray[Any]], meanings: Mapping[str, str] | None = None) -> None:
        self._columns = dict(columns)
        self.meanings = dict(meanings or {})

    @property
    def names(self) -> list[str]:
        """The columns, in their order."""
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()))) if self._columns else 0

    def __getitem__(self, key: Any) -> Any:
        """A column by its name (InputError for one that there is not), a row by its number."""
        if isinstance(key, str):
            if key not in self._columns:
                raise InputError(f"there is no column {key!r}{unknown(key, self.names)}")
            return self._columns[key]
        if isinstance(key, slice):
            return self.where(np.arange(len(self))[key])
        return {name: column[key : key + 1 or None].tolist()[0] for name, column in self._columns.items()}

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return (self[number] for number in range(len(self)))

    def where(self, chosen: npt.ArrayLike) -> Table:
        """The rows that `chosen` picks, n of true and false, or numbers of rows: `t.where(t["valid"])`."""
        picked = np.asarray(chosen)
        return Table({name: column[picked] for name, column in self._columns.items()}, self.meanings)

    def frame(self) -> Any:
        """The same as a pandas DataFrame (InputError where pandas is not installed)."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("a data frame takes pandas: install it by `pip install pandas`") from None
        return pd.DataFrame(self._columns)

    def __repr__(self) -> str:
        return self._laid_out() + self._rest()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.names)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row.values()) + "</tr>"
            for row in self[:_SHOWN]
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{html.escape(self._rest())}"

    def _laid_out(self) -> str:
        return text_table(self.names, [[_shown(value) for value in row.values()] for row in self[:_SHOWN]])

    def _rest(self) -> str:
        return f"\n{len(self) - _SHOWN} rows more" if len(self) > _SHOWN else ""


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.6g}"
    return str(value)


def read_table(path: Path, meanings: Mapping[str, str] | None = None) -> Table:
    """A CSV file as a table (InputError for what is none): columns of numbers are numbers, all others text."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return table_of(file.read(), str(path), meanings)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is no table: {error}") from None


def table_of(text: str, where: str, meanings: Mapping[str, str] | None = None) -> Table:
    """A CSV table as `read_table` has it; an InputError begins with `where` the text is from."""
    try:
        names, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    except (ValueError, csv.Error) as error:
        raise InputError(f"{where} is no table: {error}") from None
    if any(len(row) != len(names) for row in rows):
        raise InputError(f"{where} is damaged: not every row has {len(names)} values")
    cells = zip(*rows, strict=True) if rows else ([] for _ in names)
    return Table({name: _column(list(values)) for name, values in zip(names, cells, strict=True)}, meanings)


def _column(values: list[str]) -> npt.NDArray[Any]:
    if set(values) <= {"true", "false"} and values:
        return np.array([value == "true" for value in values])
    for kind in (int, float):
        try:
            return np.array([kind(value or "nan") for value in values])
        except ValueError:
            continue
    return np.array(values, dtype=object)
