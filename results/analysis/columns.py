"""The columns of a table, from the dataclass of its rows: what is written of it, and what each column means.

A row's fields are its columns. The docstring under a field says what it means, and in its last sentence where the value
comes from. Its name carries the unit. docs/columns.md is made of that, and of what the printed table says of itself.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import inspect
import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from echelonflow.files import write_whole

_UNITS = {"s": "s", "ms": "ms", "bytes": "bytes", "Bps": "bytes/s", "share": "0 to 1"}
"""Word of a name to the unit of what it names."""


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


def write_csv(path: Path, kind: type, rows: Sequence[Any]) -> None:
    """Write `rows` of dataclass `kind`, one column per key; None is empty, times have six decimals (µs)."""
    names = keys_of(kind)
    with io.StringIO(newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(getattr(row, name)) for name in names] for row in rows)
        write_whole(path, file.getvalue())


def _cell(value: Any) -> Any:
    if value is None:
        return ""
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
