"""The columns of a table, from the dataclass of its rows: what is written of it, and what each column means.

A row's fields are its columns. The docstring under a field says what it means, and in its last sentence where the value
comes from. Its name carries the unit. docs/columns.md is made of that, and of what the printed table says of itself.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from echelonflow.files import writing
from echelonflow.model.arrays import Floats, Ints

_UNITS = {"s": "s", "ms": "ms", "bytes": "bytes", "Bps": "bytes/s", "share": "0 to 1"}
"""Word of a name to the unit of what it names."""


_LINES_AT_ONCE = 10_000
_BREAKS = re.compile('[,"\\r\\n]')


@dataclass(frozen=True, slots=True)
class Column:
    """One column, in words."""

    name: str
    unit: str
    """Empty for texts, counts and ratios."""
    meaning: str
    source: str
    """Where the value comes from; empty where the docstring does not say so."""


def keys_of(kind: type) -> tuple[str, ...]:
    """What is written of a row or record, in this order: its fields, or the fields and properties that its KEYS name."""
    named: tuple[str, ...] | None = getattr(kind, "KEYS", None)
    if named is not None:
        return named
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return tuple(field.name for field in msgspec.structs.fields(kind))


def to_json(value: Any) -> Any:
    """`value` as JSON has it; a row or record becomes an object of its keys."""
    if dataclasses.is_dataclass(type(value)) or isinstance(value, msgspec.Struct):
        return {key: to_json(getattr(value, key)) for key in keys_of(type(value))}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


@dataclass(frozen=True, eq=False)
class ByColumn:
    """Rows of a table as columns: each row is one of some kinds, with a few numbers of its own."""

    kinds: Sequence[Mapping[str, Any]]
    """What rows of a kind have in common, by name of the column; columns that are named nowhere are empty."""
    kind: Ints
    """Place of every row in `kinds`, n."""
    varying: Mapping[str, Ints | Floats]
    """What is every row's own, n each, by name of the column; what is not a number is empty."""

    def lines(self, names: Sequence[str]) -> Iterator[str]:
        """The lines of the table with these columns."""
        own = {name: _formatted(self.varying[name]) for name in names if name in self.varying}
        columns = [values for _, values in own.values()]
        # What varies stands in a row of its own first: only the rest differs from kind to kind.
        fixed = [(place, name) for place, name in enumerate(names) if name not in own]
        row = [own[name][0] if name in own else "" for name in names]
        templates = []
        for cells in self.kinds:
            for place, name in fixed:
                row[place] = cell if (cell := _cell(cells.get(name))) == "" else str(cell).replace("%", "%%")
            templates.append(csv_line(row))
        for kind, *values in zip(self.kind.tolist(), *columns, strict=True):
            yield templates[kind] % tuple(values)


def write_csv(path: Path, kind: type, *tables: Sequence[Any], beside: Sequence[Any] = ()) -> None:
    """Write the rows of `tables`, of dataclass `kind`, one column per key; None is empty, times have six decimals (µs).

    `beside` has a dataclass for each table, or none: its keys are further columns, the same in all rows of that table.
    They are written as they are made, so that a long table is never in memory as text.
    """
    names, more = keys_of(kind), keys_of(type(beside[0])) if beside else ()
    ends = ["".join(f",{_cell(getattr(each, name))}" for name in more) + "\n" for each in beside] or ["\n"] * len(
        tables
    )
    found = (_ended(_lines(names, table), end) for table, end in zip(tables, ends, strict=True))
    lines = itertools.chain([csv_line([*names, *more])], *found)
    with writing(path) as file:
        while part := "".join(itertools.islice(lines, _LINES_AT_ONCE)):
            file.write(part.encode())


def write_joined(path: Path, kinds: Sequence[type], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table whose rows are made of several records each, one of each of `kinds`; what is None has empty cells."""
    names = [keys_of(kind) for kind in kinds]
    with writing(path) as file:
        file.write(csv_line(itertools.chain.from_iterable(names)).encode())
        for row in rows:
            cells = (
                (_cell(getattr(one, name)) if one is not None else "" for name in its)
                for one, its in zip(row, names, strict=True)
            )
            file.write(csv_line(itertools.chain.from_iterable(cells)).encode())


def _lines(names: Sequence[str], table: Sequence[Any]) -> Iterator[str]:
    by_column = getattr(table, "by_column", None)
    if by_column is not None:
        return iter(by_column().lines(names))
    return (csv_line([_cell(getattr(row, name)) for name in names]) for row in table)


def _ended(lines: Iterable[str], end: str) -> Iterable[str]:
    return lines if end == "\n" else (line[:-1] + end for line in lines)


def csv_line(cells: Iterable[Any]) -> str:
    """Cells as CSV has them (RFC 4180): in quotes where they would break the line or the column."""
    texts = map(str, cells)
    return ",".join(['"' + text.replace('"', '""') + '"' if _BREAKS.search(text) else text for text in texts]) + "\n"


def _formatted(values: Ints | Floats) -> tuple[str, list[Any]]:
    """How the numbers of a column are to be formatted, and what is formatted so."""
    found = values.tolist()
    if values.dtype.kind != "f":
        return "%d", found
    if not np.isnan(values).any():
        return "%.6f", found
    return "%s", ["" if math.isnan(value) else _cell(value) for value in found]


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6f}" if isinstance(value, float) else value


def columns_of(kind: type) -> list[Column]:
    """What is written of dataclass `kind`, described by the docstrings of its fields and properties.

    Raises ValueError for a key without a docstring: nobody could say what it means.
    """
    words: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        words.update(_docstrings(base))
    missing = [key for key in keys_of(kind) if key not in words]
    if missing:
        raise ValueError(f"{kind.__name__}: no docstring says what is in {', '.join(missing)}")
    texts = {
        name for base in kind.__mro__ for name, hint in inspect.get_annotations(base).items() if "str" in str(hint)
    }
    return [_column(key, words[key], measured=key not in texts) for key in keys_of(kind)]


def _column(name: str, words: str, *, measured: bool) -> Column:
    """The last sentence is the source where it says so; the unit is in the name of what is measured."""
    meaning, _, source = words.removesuffix(".").rpartition(". ")
    if not meaning or not source.startswith(("From ", "Computed")):
        meaning, source = words.removesuffix("."), ""
    units = [_UNITS[word] for word in name.split("_") if measured and word in _UNITS]
    unit = units[-1] if units else ""
    return Column(name, unit, f"{meaning}.", "computed" if source == "Computed" else source.removeprefix("From "))


def _docstrings(kind: type) -> dict[str, str]:
    """The docstring under each field and in each property of a class's own source, on one line."""
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):  # a base class without source in Python
        return {}
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for item, after in zip(body.body, [*body.body[1:], ast.Pass()], strict=True):
        match item, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = " ".join(words.split())
            case ast.FunctionDef(name=name), _ if (text := ast.get_docstring(item)) is not None:
                found[name] = " ".join(text.split())
    return found
