"""What a module found by name says of itself, as text for a page: its docstring and its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any, get_origin

from echelonflow.model.units import format_duration, format_rate, format_size
from echelonflow.options import Option, options_of
from traffic.workloads.collectives import Algorithm

_UNITS = {"_s": "time", "_bytes": "size", "_bps": "rate"}
_WORDS = {int: "number", float: "fraction", bool: "true or false", str: "text"}


def described(module: ModuleType) -> str:
    """The docstring of a module."""
    return inspect.getdoc(module) or ""


def listed_options(builder: Callable[..., Any], given: Collection[str] = ()) -> dict[str, str]:
    """Every option of a builder by its key in a file: "`key` (what it is; its default)"."""
    return {option.key: f"`{option.key}` ({_in_brackets(option)})" for option in options_of(builder, given=given)}


def _in_brackets(option: Option) -> str:
    default = "" if option.required else f"; {default_in_words(option)}"
    return kind_in_words(option) + default


def kind_in_words(option: Option) -> str:
    """What an option is, in a word or two."""
    or_list = " or list" if any(get_origin(kind) is list for kind in option.kinds) else ""
    if option.unit:
        return _UNITS[option.unit] + or_list
    if option.kinds == (Algorithm,):
        return "of collectives"
    if option.words:
        return " or ".join(map(str, option.words))
    return _WORDS[next(kind for kind in option.kinds if kind in _WORDS)] + or_list


def default_in_words(option: Option) -> str:
    """What an option is if it is left out, in its unit."""
    value = option.default
    if value is None:
        return "optional"
    if option.unit == "_s":
        return f"default {format_duration(value) if value else '0 s'}"
    if option.unit == "_bps":
        return f"default {format_rate(value)}"
    if option.unit == "_bytes":
        mebibytes, rest = divmod(value, 1024**2)
        return f"default {format_size(value) if rest else f'{mebibytes} MiB' if mebibytes else 0}"
    if isinstance(value, bool):
        return f"default {str(value).lower()}"
    return f"default {value:.3g}" if isinstance(value, float) else f"default {value}"
