"""What does not fit a schema, in words of a file's reader: pydantic's own speak of its types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from echelonflow.spelling import shown

_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is no key there",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be finite",
    "literal_error": "must be {expected}",
    "too_short": "holds fewer than {min_length}",
    "too_long": "holds more than {max_length}",
    "string_too_short": "is shorter than {min_length} characters",
    "string_too_long": "is longer than {max_length} characters",
    "string_pattern_mismatch": "has characters that it cannot have",
    "value_error": "{error}",
    "json_invalid": "is not JSON: is the file complete?",
}
_KINDS = (
    ("string", "text"),
    ("int", "a whole number"),
    ("float", "a number"),
    ("bool", "true or false"),
    ("list", "a list"),
    ("tuple", "a list"),
    ("dict", "an object of keys"),
    ("model", "an object of keys"),
    ("none", "null"),
)
_BARE = frozenset({"missing", "extra_forbidden", "value_error", "json_invalid", "too_short", "too_long"})
"""Kinds of faults that are said without the value."""
_MOST_SAID = 5


def _faults_of(error: ValidationError) -> list[str]:
    """Every fault as "place: what is wrong", the place being one such as steps.2.after."""
    return [f"{_place_of(each['loc'])}: {_words(each)}" for each in error.errors(include_url=False)]


def in_a_line(error: ValidationError) -> str:
    """The first of all faults, and how many more there are."""
    faults = _faults_of(error)
    more = f" (and {len(faults) - _MOST_SAID} more)" if len(faults) > _MOST_SAID else ""
    return "; ".join(faults[:_MOST_SAID]) + more


def _place_of(parts: Sequence[int | str]) -> str:
    """A place in a file's keys and lists; names come from the file, whatever is in them."""
    return ".".join(str(part)[:40] if str(part).isprintable() else repr(part)[:40] for part in parts) or "file"


def _words(fault: Any) -> str:
    kind, context = fault["type"], fault.get("ctx", {})
    value = "" if kind in _BARE else f"{shown(fault['input'])} "
    if kind in _WORDS:
        return value + _WORDS[kind].format(**context)
    wanted = next((words for prefix, words in _KINDS if kind.startswith(prefix)), None)
    return f"{value}is not {wanted}" if wanted else f"{value}does not fit"
