"""Finds implementations by name: one file each, so that adding one edits nothing else.

Policies, topologies and paradigms are modules of a package; the name a user writes is the module's
name with dashes for underscores. Options are written in brackets: `coflow(grouping=group)`.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from echelonflow.errors import InputError
from echelonflow.options import check_names, pairs
from echelonflow.spelling import shown, unknown

_CALL = re.compile(r"\s*([A-Za-z0-9_-]+)\s*(?:\((.*)\))?\s*")


def names(package: ModuleType) -> list[str]:
    """The names of all implementations in `package`, sorted."""
    found = (m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))
    return sorted(name.replace("_", "-") for name in found)


def load(package: ModuleType, name: str, what: str) -> ModuleType:
    """The module called `name` in `package`; InputError listing what there is otherwise."""
    known = names(package)
    if name not in known:
        raise InputError(f"unknown {what} {shown(name)}{unknown(name, known)}")
    return importlib.import_module(f"{package.__name__}.{name.replace('-', '_')}")


def build(package: ModuleType, name: str, options: Mapping[str, Any], what: str) -> Any:
    """What `build` of module `name` in `package` makes of `options` (InputError for one that it does not take)."""
    module = load(package, name, what)
    try:
        check_names(module.build, options)
    except InputError as error:
        raise InputError("\n".join(f"{what} {name}: {line}" for line in str(error).split("\n"))) from None
    return module.build(**options)


def parse_call(text: str, example: str = "coflow(grouping=group)") -> tuple[str, dict[str, str]]:
    """Split "name(key=value, ...)" into the name and its options, all text (InputError, which proposes `example`)."""
    match = _CALL.fullmatch(text)
    if match is None:
        raise InputError(f"{shown(text)} is not a name with options; write such as {example!r}")
    return match[1], parse_options(text, match[2] or "")


def parse_options(text: str, inside: str) -> dict[str, str]:
    """Options from what stands between the brackets of `text` (raises InputError, naming `text`)."""
    return pairs(inside.split(","), repr(text))
