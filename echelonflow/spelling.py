"""How messages speak of what a user wrote: the value as it stands in the file, and what an unknown name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LIKENESS = 0.6
_MOST_LISTED = 40
_MOST_SHOWN = 60


def meant(word: object, known: Iterable[str]) -> str | None:
    """The name in `known` that `word` most resembles, None where none does."""
    if not isinstance(word, str):
        return None
    by_form = {_form(name): name for name in known}
    found = difflib.get_close_matches(_form(word), by_form, n=1, cutoff=_LIKENESS)
    return by_form[found[0]] if found else None


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The question to append to a message, such as "; did you mean 'repeats'?"; empty where nothing is alike."""
    found = meant(word, known)
    return f"; did you mean {found!r}?" if found is not None else ""


def unknown(word: object, known: Iterable[str]) -> str:
    """What there is instead of `word`: what was probably meant, and all that could be."""
    names = list(known)
    listed = f"there is: {', '.join(names[:_MOST_LISTED]) or 'none'}"
    if len(names) > _MOST_LISTED:
        listed += f", and {len(names) - _MOST_LISTED:,} more"
    question = did_you_mean(word, names)
    return f"{question} {listed}" if question else f"; {listed}"


def _form(name: str) -> str:
    return name[:64].casefold().replace("_", "-").replace(" ", "-")


def shown(value: object) -> str:
    """`value` as a message repeats it: quoted if it is text, as YAML writes it, and cut where it is long."""
    if isinstance(value, str):
        return repr(_cut(value))
    return "nothing" if value is None else _cut(in_one_line(value))


def in_one_line(value: object) -> str:
    """A value as YAML writes it in one line; text without quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {in_one_line(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(in_one_line, value)) + "]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."
