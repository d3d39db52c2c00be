"""What a sweep varies: values of an experiment by their paths, as a grid, as a list of points, or both.

On a command line an axis is written network.rate=10 Mbit/s,20 Mbit/s; in a file it is a key with a list of values. Whole
numbers may be a range, such as 0..9, or 0..100..10 in steps of ten. `policies` and `seed` are axes like others, but not
parts of a point: policies are compared at each point, on the same seeds.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from echelon.experiment import yaml_file
from echelonflow.errors import InputError
from echelonflow.spelling import shown

MOST_VALUES = 10_000
MOST_CELLS = 100_000
_RANGE = re.compile(r"\s*(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(\d{1,18}))?\s*")
_POLICIES, _SEED = "policies", "seed"
_ALIASES = {"policy": _POLICIES, "seeds": _SEED}
_NOT_SWEPT = {
    "repeats": "the runs of a point are its seeds; write such as seed=0..9",
    "against": "it is the policy that others are compared with; name it by --against",
    "name": "cells have names of their own",
    "title": "it changes nothing",
    "sweep": "a sweep has none in it",
}
_CLOSING = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Swept:
    """What is varied, as it was asked for."""

    over: dict[str, list[Any]] = field(default_factory=dict)
    """Path to values; every combination is a point."""
    listed: list[dict[str, Any]] = field(default_factory=list)
    """Points one by one, each path to value; each goes with every combination of `over`."""

    def replaced_by(self, over: Mapping[str, list[Any]]) -> Swept:
        """The same with these axes, in the place of those of the same path."""
        return Swept({**self.over, **over}, self.listed)

    @property
    def policies(self) -> list[str] | None:
        """The policies, where they are named."""
        return self.over.get(_POLICIES)

    @property
    def seeds(self) -> list[int] | None:
        """The seeds, where they are named."""
        return self.over.get(_SEED)

    @property
    def axes(self) -> dict[str, list[Any]]:
        """What makes points."""
        return {path: values for path, values in self.over.items() if path not in (_POLICIES, _SEED)}

    def points(self) -> Iterator[dict[str, Any]]:
        """Every point: the listed ones in order, with each the grid, its last axis changing fastest."""
        for first in self.listed or [{}]:
            for values in itertools.product(*self.axes.values()):
                yield {**first, **dict(zip(self.axes, values, strict=True))}

    def number_of_points(self) -> int:
        """How many there are."""
        found = max(len(self.listed), 1)
        for values in self.axes.values():
            found *= len(values)
        return found


def parse(texts: Sequence[str], said: str = "--over") -> dict[str, list[Any]]:
    """The axes in texts such as "network.rate=10 Mbit/s,20 Mbit/s" or "seed=0..9".

    Commas in brackets or quotes belong to a value. Raises InputError, which begins with `said`, for what is no axis.
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        path, equals, rest = text.partition("=")
        path = _ALIASES.get(path.strip(), path.strip())
        if not equals or not path:
            raise InputError(
                f"{said} {text}: must be written PATH=VALUE,VALUE, such as network.rate='10 Mbit/s,20 Mbit/s'"
            )
        if path in found:
            raise InputError(f"{said} {text}: {path} is named twice; write all its values behind one {said}")
        about = f"{said} {path}"
        found[path] = _axis(path, [_value(piece, about) for piece in _pieces(rest)], about)
    return found


def of_file(written: Mapping[str, Any]) -> Swept:
    """What the key `sweep` of an experiment file asks for; InputError with one line per fault, each "path: what is wrong"."""
    faults: list[str] = []
    over: dict[str, list[Any]] = {}
    for key, values in (written.get("over") or {}).items():
        path, where = _ALIASES.get(key, key), f"over.{key}"
        try:
            over[path] = _axis(path, _listed(values, where), where)
        except InputError as error:
            faults.append(str(error))
    listed = list(written.get("points") or [])
    for i, point in enumerate(listed):
        for path in point:
            if _ALIASES.get(path, path) in (_POLICIES, _SEED):
                faults.append(f"points.{i}: {path} is no part of a point; name it under `over`")
            elif path in _NOT_SWEPT:
                faults.append(f"points.{i}: {path} cannot be swept: {_NOT_SWEPT[path]}")
    if not over and not listed and not faults:
        faults.append("over: neither `over` nor `points` names anything; write such as `over: {seed: 0..9}`")
    if faults:
        raise InputError("\n".join(faults))
    return Swept(over, listed)


def _listed(values: Any, said: str) -> list[Any]:
    """The values of an axis in a file: a list, or a range by itself."""
    if isinstance(values, list):
        return values
    if isinstance(values, str) and _RANGE.fullmatch(values):
        return [values]
    raise InputError(f"{said}: {shown(values)} is not a list of values, or a range such as 0..9")


def _pieces(text: str) -> list[str]:
    """The parts of `text` between commas that stand in no brackets or quotes."""
    found, begun, open_, quote = [], 0, 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _CLOSING.values():
            open_ += 1
        elif letter in _CLOSING:
            open_ = max(open_ - 1, 0)
        elif letter == "," and not open_:
            found.append(text[begun:place])
            begun = place + 1
    return [*found, text[begun:]]


def _value(piece: str, said: str) -> Any:
    return piece.strip() if _RANGE.fullmatch(piece) else yaml_file.value_of(piece, said)


def _axis(path: str, written: Sequence[Any], said: str) -> list[Any]:
    """The values of an axis, ranges written out; InputError where they are none that can be swept."""
    if path in _NOT_SWEPT:
        raise InputError(f"{said}: cannot be swept: {_NOT_SWEPT[path]}")
    values = [value for one in written for value in _spread(one, said)]
    if not values:
        raise InputError(f"{said}: has no values")
    if path == _SEED and not all(
        isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in values
    ):
        raise InputError(f"{said}: seeds are whole numbers from 0 on, such as 0..9")
    if path == _POLICIES and not all(isinstance(value, str) for value in values):
        raise InputError(f"{said}: policies are texts, such as 'fair' or 'coflow(grouping=group)'")
    for place, value in enumerate(values):
        if value in values[:place] and len(values) < MOST_VALUES:
            raise InputError(f"{said}: {shown(value)} stands twice")
    return values


def _spread(value: Any, said: str) -> Sequence[Any]:
    """The numbers of a range, or the value itself."""
    match = _RANGE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return [value]
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if last < first or step < 1:
        raise InputError(f"{said}: {value} is no range; write such as 0..9, or 0..100..10")
    numbers = range(first, last + 1, step)
    if len(numbers) > MOST_VALUES:
        raise InputError(f"{said}: {value} has {len(numbers):,} values, and an axis has {MOST_VALUES:,} at most")
    return numbers
