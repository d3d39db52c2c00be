"""Values of an experiment that are set by their paths, such as network.rate or jobs.gpt2.weight, in place of the file's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from echelon.experiment import yaml_file
from echelonflow.errors import InputError
from echelonflow.spelling import shown, unknown

Settings = Mapping[str, Any]
"""Path to value. Parts of a path are keys, places in lists (from 0), and names of entries that have a name (jobs)."""
NOTHING_SET: Settings = MappingProxyType({})


def parse(texts: Sequence[str], said: str = "--set") -> dict[str, Any]:
    """The settings in texts such as "network.rate=40 Mbit/s"; values are YAML.

    Raises InputError, which begins with `said`, for a text that is none, and for a path that is given twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        path = path.strip()
        if not equals or not path:
            raise InputError(f"{said} {text}: must be written PATH=VALUE, such as network.rate='40 Mbit/s'")
        if path in found:
            raise InputError(f"{said} {text}: {path} is set twice")
        found[path] = yaml_file.value_of(value, f"{said} {path}")
    return found


def with_settings(data: dict[str, Any], settings: Settings, said: str = "--set") -> tuple[dict[str, Any], set[str]]:
    """`data` of an experiment file with these values, and the paths that were set, with places for names.

    `data` stays as it is. Which keys there may be is not judged here. Raises InputError, which begins with `said`, where a
    part on the way is no mapping or list, and where a list has no such entry.
    """
    placed = set()
    for path, value in settings.items():
        data, place = _with(data, path.split("."), value, f"{said} {path}", "")
        placed.add(place)
    return data, placed


def covers(placed: set[str], where: str) -> bool:
    """Whether the part at path `where` was set, or lies in one that was."""
    return any(where == path or where.startswith(f"{path}.") for path in placed)


def _with(node: Any, parts: Sequence[str], value: Any, said: str, where: str) -> tuple[Any, str]:
    """`node`, which stands at `where`, with `value` at the path `parts` within it; and where that is."""
    part, *rest = parts
    if not part:
        raise InputError(f"{said}: a part of the path is empty")
    key: Any = part
    if node is None:  # a key without a value
        node = {}
    if isinstance(node, dict):
        changed: Any = dict(node)
        below = node.get(part)
    elif isinstance(node, list):
        key, rest = _entry(node, parts, said, where)
        changed, below = list(node), node[key]
    else:
        raise InputError(f"{said}: {where} is {shown(node)}, which has no parts; end the path there")
    here = f"{where}.{key}" if where else str(key)
    if not rest:
        changed[key] = value
        return changed, here
    changed[key], here = _with(below, rest, value, said, here)
    return changed, here


def _entry(entries: list[Any], parts: Sequence[str], said: str, where: str) -> tuple[int, list[str]]:
    """The place in a list that a path names, by the entry's name or number, and what of the path is left."""
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
    for length in range(len(parts), 0, -1):  # a name may have dots in it
        name = ".".join(parts[:length])
        if name in names:
            return names.index(name), list(parts[length:])
    part = parts[0]
    if part.isdecimal() and len(part) < 10:
        if int(part) < len(entries):
            return int(part), list(parts[1:])
        raise InputError(f"{said}: {where} has {len(entries)} entries, counted from 0; there is no {part}")
    known = [name for name in names if isinstance(name, str)]
    if known:
        raise InputError(f"{said}: {where} has no entry {part!r}{unknown(part, known)}")
    raise InputError(f"{said}: {where} is a list; its entries are named by their numbers, from 0 on")
