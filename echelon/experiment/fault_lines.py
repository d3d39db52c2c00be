"""Collects the faults of an experiment file, each "path: what is wrong", and lists them with the lines that they stand on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from echelonflow.errors import InputError
from echelonflow.printable import printable

Made = TypeVar("Made")
LineOf = Callable[[str], int | None]
"""The line of the part at a path such as jobs.0.stages, None where nothing is known of lines."""
MOST_LISTED = 50
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def collect(faults: list[str], where: str, action: Callable[[], Made]) -> Made | None:
    """What `action` returns, or None after adding its InputError to `faults`, one entry per line of it.

    A line that begins with a key speaks of that part of `where`.
    """
    try:
        return action()
    except InputError as error:
        for line in str(error).split("\n"):
            key, colon, rest = line.partition(": ")
            faults.append(f"{where}.{key}: {rest}" if colon and _KEY.fullmatch(key) else f"{where}: {line}")
        return None


def no_line(_where: str) -> int | None:
    """Of an experiment that was not read from a file."""
    return None


def refusal(path: Path, faults: Sequence[str], line_of: LineOf = no_line) -> InputError:
    """All of `faults` in one error: a line by itself, or a list with a heading."""
    placed = sorted(dict.fromkeys(faults), key=lambda fault: line_of(_where(fault)) or 0)
    lines = [_with_line(path, fault, line_of) for fault in placed[:MOST_LISTED]]
    if len(lines) == 1:
        return InputError(lines[0])
    more = [f"  and {len(placed) - len(lines)} more"] if len(placed) > len(lines) else []
    return InputError("\n".join([f"{path}: {len(placed)} faults", *(f"  {line}" for line in lines), *more]))


def _with_line(path: Path, fault: str, line_of: LineOf) -> str:
    line = line_of(_where(fault))
    # A user's text may hold what would begin another line, or paint the terminal.
    fault = printable(fault)
    return f"{path}: {fault}" if line is None else f"{path}:{line}: {fault}"


def _where(fault: str) -> str:
    return fault.partition(": ")[0]
