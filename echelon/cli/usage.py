"""What was wrong with a command line, in one line and our own words; the parser's are another library's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from echelonflow.spelling import shown

_WORDS = (
    (re.compile(r"Input should be a valid integer.*"), "is not a whole number"),
    (re.compile(r"Input should be a valid number.*"), "is not a number"),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"must be at least \1"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"must be at most \1"),
    (re.compile(r"Value error, (.*?)\.?"), r"\1"),
)


def usage_fault(error: Any, arguments: Sequence[str] = ()) -> str:
    """One line for a usage error of the parser, `arguments` being what was written behind the command's name."""
    context = getattr(error, "ctx", None)
    command = "echelon" if context is None or context.parent is None else f"echelon {context.info_name}"
    words = str(error.format_message()).strip().rstrip(".")
    option = re.match(r"Invalid value for '(?:-\w, )?([^']*)': (.*)", words, re.DOTALL)
    if option:
        said = _own(option[2])
        value = "" if said.startswith("'") else _value(option[1], arguments)
        words = f"{option[1]}: {value}{said}"
    else:
        possible = re.search(r" \(Possible options?: ([^,)]+)[^)]*\)$", words)
        if possible:
            words = f"{words[: possible.start()]}; did you mean {possible[1]}?"
    words = words.replace("'. Did you mean", "'; did you mean").removesuffix("?")
    return f"{command}: {words}; `{command} -h` says what there is"


def _own(words: str) -> str:
    for theirs, ours in _WORDS:
        if theirs.fullmatch(words):
            return theirs.sub(ours, words)
    return words


def _value(option: str, arguments: Sequence[str]) -> str:
    """What was given for an option, as the beginning of a sentence, where it is not said already."""
    for before, value in zip(arguments, [*arguments[1:], ""], strict=False):
        name, equals, rest = before.partition("=")
        if name == option:
            return f"{shown(rest if equals else value)} "
    return ""
