"""Binds what a user wrote to the keyword options of a function: a policy's, topology's, paradigm's, importer's.

The function's signature is all there is to it, so a new one needs no edit here. In files, a parameter `rate_bps` is
written `rate: 100 Mbit/s`, `forward_s` is `forward: 1 s`, and `activation_bytes` is `activation: 25 MB` (or `2 s of link`:
what a host's link carries in that time). In calls such as `coflow(grouping=group)` and on the command line, all is text.
"""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from echelonflow.bounds import MOST_BYTES, MOST_COUNT, BeyondBoundsError
from echelonflow.errors import InputError
from echelonflow.model.units import parse_duration_s, parse_rate_bps, parse_size_bytes
from echelonflow.spelling import did_you_mean, shown, unknown

REQUIRED = inspect.Parameter.empty
"""Default of an option that has none."""
_OF_LINK = " of link"
_UNITS = {
    "_bps": "a rate such as 100 Mbit/s",
    "_bytes": "a size such as 25 MB",
    "_s": "a duration such as 20 ms",
}
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_MOST_KEY = 40
_WHOLE = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Option:
    """A parameter that a user may give: under which key, of which types, and what it is if left out."""

    parameter: str
    key: str
    unit: str
    """How the parameter's name ends if that says its unit ("_s"), and the user writes units; else empty."""
    kinds: tuple[Any, ...]
    default: Any

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def words(self) -> tuple[Any, ...]:
        """The words (or numbers) of which one has to be chosen; empty where it is no choice."""
        return tuple(
            word for each in self.kinds if typing.get_origin(each) is typing.Literal for word in typing.get_args(each)
        )

    def in_words(self) -> str:
        """What may be written."""
        singles = [self._in_words(each) for each in self.kinds if each is not type(None) and not _is_list(each)]
        lists = [f"a list of {self._in_words(typing.get_args(each)[0])}" for each in self.kinds if _is_list(each)]
        if singles and lists:
            lists = ["a list of such"]
        return " or ".join([*singles, *lists])

    def _in_words(self, each: Any) -> str:
        if typing.get_origin(each) is typing.Literal:
            return f"one of {_listed(typing.get_args(each))}"
        return _UNITS.get(self.unit) or _WORDS.get(each) or str(getattr(each, "__name__", each))


def options_of(function: Callable[..., Any], *, given: Collection[str] = (), units: bool = True) -> list[Option]:
    """The options of `function` in the order of its signature; parameters in `given` are not the user's to write.

    With `units`, names that end in a unit are written without it. `**others` are nobody's option. Raises InputError for
    an option whose type cannot be found.
    """
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in given or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        unit = next((suffix for suffix in _UNITS if units and parameter.name.endswith(suffix)), "")
        hint = _hint(function, parameter)
        kinds = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
        key = parameter.name.removesuffix(unit)
        found.append(Option(parameter.name, key, unit, kinds, parameter.default))
    return found


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type of one parameter (text where it has none); those of others need not be known here."""
    if parameter.annotation is parameter.empty:
        return str
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return typing.get_type_hints(holder, getattr(function, "__globals__", {}))[parameter.name]
    except NameError as error:
        raise InputError(f"{parameter.name}: the type of this option is not known: {error}") from None


def bind(
    function: Callable[..., Any],
    written: Mapping[str, Any],
    *,
    given: Collection[str] = (),
    units: bool = True,
    link_Bps: float | None = None,
    beside: Collection[str] = (),
) -> dict[str, Any]:
    """Keyword arguments for `function` from the mapping that a user wrote, as YAML or JSON reads it.

    `link_Bps` is what "of link" refers to (payload bytes/s), None where it may not be used. Without `units`, names are
    written whole and numbers may be any: the function judges them. Keys in `beside` are no options and may stand beside
    them: a message may propose one. Raises one InputError that lists every fault, each
    on a line as "key: what is wrong".
    """
    options = {option.key: option for option in options_of(function, given=given, units=units)}
    faults, bound = _faults_of_names(options.values(), options, written, beside), {}
    for key, value in written.items():
        if key in options:
            try:
                bound[options[key].parameter] = _Converter(options[key], link_Bps, any_number=not units).of(value)
            except InputError as error:
                faults.append(f"{key}: {error}")
    if faults:
        raise InputError("\n".join(faults))
    return bound


def bind_text(
    function: Callable[..., Any], texts: Mapping[str, str], *, given: Collection[str] = (), units: bool = True
) -> dict[str, Any]:
    """As `bind`, where all values are text: numbers and truth values are what the function's types make of it."""
    options = {option.key: option for option in options_of(function, given=given, units=units)}
    written = {key: _read(text, options[key].kinds) if key in options else text for key, text in texts.items()}
    return bind(function, written, given=given, units=units)


def check_names(function: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """InputError unless `values`, which code made, can be the keyword arguments of `function`; one line per fault."""
    options = {option.parameter: option for option in options_of(function)}
    faults = _faults_of_names(options.values(), options, values)
    if faults:
        raise InputError("\n".join(faults))


def pairs(parts: Iterable[str], where: str) -> dict[str, str]:
    """Texts "key=value" as a mapping (InputError, beginning with `where`, for one that is none or given twice)."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in parts)):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise InputError(f"{where}: option {part!r} must be written key=value")
        if key in found:
            raise InputError(f"{where}: option {key!r} is given twice")
        found[key] = value
    return found


def _faults_of_names(
    options: Collection[Option], there: Collection[str], written: Collection[str], beside: Collection[str] = ()
) -> list[str]:
    keys = dict(zip(there, options, strict=True))
    faults = [f"{_as_key(key)}: unknown key{unknown(key, [*keys, *beside])}" for key in written if key not in keys]
    missing = [key for key, option in keys.items() if option.required and key not in written]
    return faults + [f"{key}: missing ({keys[key].in_words()})" for key in missing]


@dataclass(frozen=True, slots=True)
class _Converter:
    """Turns what was written for one option into a value of its type (InputError says what would be right)."""

    option: Option
    link_Bps: float | None
    any_number: bool

    def of(self, value: Any) -> Any:
        if value is None and type(None) in self.option.kinds:
            return None
        kinds = [each for each in self.option.kinds if each is not type(None)]
        fits = [each for each in kinds if _is_list(each) == isinstance(value, list)]
        if not fits and len(kinds) > 1:
            raise InputError(f"{shown(value)} does not fit; write {self.option.in_words()}")
        return self._as((fits or kinds)[0], value)

    def _as(self, kind: Any, value: Any) -> Any:
        arguments = typing.get_args(kind)
        if typing.get_origin(kind) is typing.Literal:
            if value not in arguments or type(value) not in map(type, arguments):
                question = did_you_mean(value, [word for word in arguments if isinstance(word, str)])
                raise InputError(f"{shown(value)} is not one of {_listed(arguments)}{question}")
            return value
        if _is_list(kind):
            if not isinstance(value, list) or not value:
                raise InputError(f"{shown(value)} is not a list; write [..., ...]")
            return [self._as(arguments[0], item) for item in value]
        return self._quantity(value) if self.option.unit else self._plain(kind, value)

    def _quantity(self, value: Any) -> Any:
        if self.option.unit == "_s":
            return parse_duration_s(value)
        if self.option.unit == "_bps":
            number: float = parse_rate_bps(value)
        elif isinstance(value, str) and value.endswith(_OF_LINK) and self.link_Bps is not None:
            size_bytes = parse_duration_s(value[: -len(_OF_LINK)]) * self.link_Bps
            if not size_bytes < MOST_BYTES:
                raise InputError(f"{shown(value)} is more bytes than can be counted")
            number = round(size_bytes)
        else:
            number = parse_size_bytes(value)
        if not number > 0:
            raise InputError(f"{shown(value)} must be greater than 0")
        return number

    def _plain(self, kind: Any, value: Any) -> Any:
        if kind is int:
            least = "" if self.any_number else " of at least 1"
            if type(value) is not int or (least and value < 1):
                raise InputError(f"{shown(value)} is not a whole number{least}{_unquoted(value)}")
            if value > MOST_COUNT and not self.any_number:
                raise BeyondBoundsError(f"{value:,} is too many; the bound is {MOST_COUNT:,}")
            return value
        if kind is float:
            if type(value) not in (int, float) or not (self.any_number or math.isfinite(value)):
                raise InputError(f"{shown(value)} is not a number{_unquoted(value)}")
            return float(value)
        if kind in (str, bool) and type(value) is not kind:
            raise InputError(f"{shown(value)} is not {_WORDS[kind]}")
        return value


def _as_key(key: str) -> str:
    return key if len(key) <= _MOST_KEY else key[:_MOST_KEY] + "..."


def _is_list(kind: Any) -> bool:
    return isinstance(typing.get_origin(kind), type) and issubclass(typing.get_origin(kind), Sequence)


def _read(text: str, kinds: Sequence[Any]) -> Any:
    """`text` as the first of `kinds` that it can be; text that fits none stays, for `bind` to refuse."""
    for kind in kinds:
        if typing.get_origin(kind) is typing.Literal:
            for word in typing.get_args(kind):
                if str(word) == text:
                    return word
        if kind is int and _WHOLE.fullmatch(text):
            return int(text)
        if kind is bool and text in ("true", "false"):
            return text == "true"
        if _is_list(kind) and text.startswith("[") and text.endswith("]"):
            return [_read(each.strip(), typing.get_args(kind)) for each in text[1:-1].split(",")]
        if kind is float:
            try:
                return float(text)
            except ValueError:
                continue
    return text


def _unquoted(value: Any) -> str:
    """A remedy for numbers that were written as text."""
    return "; write it without quotes" if isinstance(value, str) and _WHOLE.fullmatch(value.strip()) else ""


def _listed(words: Collection[Any]) -> str:
    return ", ".join(map(str, words))
