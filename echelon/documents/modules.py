"""What a module found by name says of itself, as text for a page: its docstring and its options."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable
from types import ModuleType
from typing import get_origin

from echelonflow.model.units import format_duration, format_rate, format_size
from echelonflow.options import Option
from traffic.workloads.collectives import Algorithm

WIDTH = 140
_MICROSECOND_S = 1e-6
_ROW = re.compile(r"  (\S+) {2,}(\S.*)")
_UNITS = {"_s": "time", "_bytes": "size", "_bps": "rate"}
_WORDS = {int: "number", float: "number", bool: "true or false", str: "text"}


def described(module: ModuleType) -> str:
    """The docstring of a module."""
    return inspect.getdoc(module) or ""


def filled(text: str) -> str:
    """A paragraph in lines of at most `WIDTH` letters."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def as_markdown(text: str) -> str:
    """A docstring as Markdown: rows of a word, two spaces and what it means become lists."""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        row = _ROW.match(line)
        if row:
            lines += ([] if inside else [""]) + [f"- `{row[1]}`: {row[2]}"]
        elif inside and line.startswith("  "):
            lines.append(f"  {line.strip()}")
        else:
            lines += ([""] if inside and line else []) + [line]
        inside = row is not None or (inside and line.startswith("  "))
    return "\n".join(lines)


def listed_options(options: Iterable[Option]) -> dict[str, str]:
    """Every option by its key: "`key` (what it is; its default)"."""
    return {option.key: f"`{option.key}` ({_in_brackets(option)})" for option in options}


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
        return f"default {_duration(value)}"
    if option.unit == "_bps":
        return f"default {format_rate(value)}"
    if option.unit == "_bytes":
        mebibytes, rest = divmod(value, 1024**2)
        return f"default {format_size(value) if rest else f'{mebibytes} MiB' if mebibytes else 0}"
    if isinstance(value, bool):
        return f"default {str(value).lower()}"
    return f"default {value:.3g}" if isinstance(value, float) else f"default {value}"


def _duration(value_s: float) -> str:
    if 0 < value_s < _MICROSECOND_S:
        return f"{value_s * 1e9:g} ns"
    return format_duration(value_s) if value_s else "0 s"
