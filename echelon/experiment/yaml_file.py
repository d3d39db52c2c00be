"""A YAML file of somebody's as plain data: read within bounds, and refused in one line where it is anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from echelonflow.errors import InputError

MOST_BYTES = 256 * 1024
MOST_NESTING = 32
MOST_VALUES = 100_000
"""Aliases counted as often as they are used: few lines of YAML can stand for billions of values."""
_LARGEST = 1 << 63


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in the file at `path`: text, numbers, truth values and nothing, in lists and mappings by text.

    Raises InputError, naming file and place, for what is no YAML, is no mapping, holds anything else, or is beyond
    the bounds of this module.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > MOST_BYTES:
        raise InputError(f"{path}: is longer than {MOST_BYTES // 1024} KiB, which no experiment file is")
    try:
        data = YAML(typ="safe", pure=True).load(content.decode("utf-8"))
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply; an experiment file is at most {MOST_NESTING} deep") from None
    except (YAMLError, ValueError, OverflowError, TypeError) as error:
        raise InputError(f"{path}: is not YAML: {error}") from None
    try:
        _count(data, "", 0, {})
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: is empty or not a mapping; an experiment has name, network, jobs and policies")
    return data


def _count(node: Any, where: str, depth: int, known: dict[int, int]) -> int:
    """How many values a reader of `node` meets; InputError for what is beyond the bounds, or no plain data."""
    if depth > MOST_NESTING:  # also where it holds itself
        raise InputError(f"{where}: is nested too deeply; an experiment file is at most {MOST_NESTING} deep")
    if isinstance(node, dict | list):
        if id(node) not in known:
            known[id(node)] = 1 + sum(_count(child, place, depth + 1, known) for place, child in _parts(node, where))
        if known[id(node)] > MOST_VALUES:
            raise InputError(f"{where or 'file'}: holds more than {MOST_VALUES:,} values, aliases counted")
        return known[id(node)]
    if node is not None and not isinstance(node, str | bool | int | float):
        raise InputError(f"{where}: a {type(node).__name__} is no value of an experiment; put it in quotes")
    if isinstance(node, int) and not -_LARGEST < node < _LARGEST:
        raise InputError(f"{where}: is a number beyond 63 bits")
    return 1


def _parts(node: dict[Any, Any] | list[Any], where: str) -> list[tuple[str, Any]]:
    """The children of a mapping or list, each with its path in the file."""
    before = f"{where}." if where else ""
    if isinstance(node, list):
        return [(f"{before}{i}", child) for i, child in enumerate(node)]
    for key in node:
        if not isinstance(key, str):
            raise InputError(f"{where or 'file'}: the key {key!r} is not text; put it in quotes")
    return [(f"{before}{key}", child) for key, child in node.items()]
