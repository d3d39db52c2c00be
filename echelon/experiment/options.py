"""Binds what a user wrote to the keyword options of a topology or paradigm.

A builder's parameter `rate_bps` is written `rate: 100 Mbit/s` in an experiment, `forward_s` is written
`forward: 1 s`, and `activation_bytes` is written `activation: 25 MB` (or `2 s of link`: what a host's link
carries in that time). So a new topology or paradigm needs no edit here.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

from echelonflow.errors import InputError
from echelonflow.model.units import parse_duration_s, parse_rate_bps, parse_size_bytes

_OF_LINK = " of link"


def bind(
    builder: Callable[..., Any],
    written: Mapping[str, Any],
    link_Bps: float | None = None,
    given: Collection[str] = (),
) -> dict[str, Any]:
    """Keyword arguments for `builder` from the mapping a user wrote.

    `link_Bps` is what "of link" refers to (payload bytes/s), None where it may not be used; parameters in
    `given` are not the user's to write. Raises one
    InputError that lists every fault, each on a line as "key: what is wrong".
    """
    parameters = {n: p for n, p in inspect.signature(builder).parameters.items() if n not in given}
    hints = typing.get_type_hints(builder)
    by_key = {_key_of(name): name for name in parameters}
    faults, bound = [], {}
    for key, value in written.items():
        if key not in by_key:
            faults.append(f"{key}: unknown key; there is: {', '.join(by_key)}")
            continue
        name = by_key[key]
        try:
            bound[name] = _convert(name, hints[name], value, link_Bps)
        except InputError as error:
            faults.append(f"{key}: {error}")
    for key, name in by_key.items():
        if parameters[name].default is inspect.Parameter.empty and key not in written:
            faults.append(f"{key}: missing ({_describe(name, hints[name])})")
    if faults:
        raise InputError("\n".join(faults))
    return bound


def describe_option(parameter: str, hint: Any) -> tuple[str, str]:
    """The key under which a user writes a builder's `parameter`, and in words what may stand there."""
    options = [h for h in typing.get_args(hint) if h is not type(None)] if _is_union(hint) else [hint]
    return _key_of(parameter), " or ".join(_describe(parameter, option) for option in options)


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union)


def _key_of(parameter: str) -> str:
    for suffix in ("_bps", "_bytes", "_s"):
        if parameter.endswith(suffix):
            return parameter[: -len(suffix)]
    return parameter


def _describe(name: str, hint: Any) -> str:
    if name.endswith("_bps"):
        return "a rate such as 100 Mbit/s"
    if name.endswith("_bytes"):
        return "a size such as 25 MB"
    if name.endswith("_s"):
        return "a duration such as 20 ms"
    words = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
    return f"one of {', '.join(map(str, words))}" if words else getattr(hint, "__name__", str(hint))


def _convert(name: str, hint: Any, value: Any, link_Bps: float | None) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if _is_union(hint):
        if value is None and type(None) in arguments:
            return None
        wants_list = isinstance(value, list)
        for option in arguments:
            if option is not type(None) and (typing.get_origin(option) is not None) == wants_list:
                return _convert(name, option, value, link_Bps)
        raise InputError(f"{value!r} does not fit; write {' or '.join(_describe(name, a) for a in arguments)}")
    if origin is typing.Literal:
        if value not in arguments:
            raise InputError(f"{value!r} is not one of {', '.join(map(str, arguments))}")
        return value
    if origin is not None:
        if not isinstance(value, list) or not value:
            raise InputError(f"{value!r} is not a list; write [..., ...]")
        return [_convert(name, arguments[0], item, link_Bps) for item in value]
    return _scalar(name, hint, value, link_Bps)


def _scalar(name: str, hint: Any, value: Any, link_Bps: float | None) -> Any:
    if name.endswith("_bps"):
        return _positive(parse_rate_bps(value), value)
    if name.endswith("_bytes"):
        if isinstance(value, str) and value.endswith(_OF_LINK) and link_Bps is not None:
            return _positive(round(parse_duration_s(value[: -len(_OF_LINK)]) * link_Bps), value)
        return _positive(parse_size_bytes(value), value)
    if name.endswith("_s"):
        return parse_duration_s(value)
    if hint is int:
        if type(value) is not int or value < 1:
            raise InputError(f"{value!r} is not a whole number of at least 1")
        return value
    if hint is float:
        if type(value) not in (int, float) or not math.isfinite(value):
            raise InputError(f"{value!r} is not a number")
        return float(value)
    if hint in (str, bool) and type(value) is not hint:
        raise InputError(f"{value!r} is not {'text' if hint is str else 'true or false'}")
    return value


def _positive(number: Any, value: Any) -> Any:
    if not number > 0:
        raise InputError(f"{value!r} must be greater than 0")
    return number
