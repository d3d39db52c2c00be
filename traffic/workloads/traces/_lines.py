"""Text files of numbers, one line in memory at a time, whatever is in them.

A trace comes from somebody else: it may be cut off, binary, or endless. Every fault says file, line and what was
expected there.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from echelonflow.errors import InputError

MAX_LINE_BYTES = 1 << 25
"""A Coflow of a million flows fits; a file without line ends is refused before it fills the memory."""
MOST_SHOWN = 40
"""Characters of a bad value that a message repeats."""
_FIELD = re.compile(r"\S+")
_WHOLE = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")


class Line:
    """The fields of one line, taken from the left. Every method raises InputError where the line is not as it should be."""

    def __init__(self, path: Path, number: int, text: str) -> None:
        self.path = path
        self.number = number
        self._fields = _FIELD.finditer(text)

    def fault(self, words: str) -> InputError:
        """The error that says `words` of this line."""
        return InputError(f"{self.path}: line {self.number}: {words}")

    def text(self, what: str) -> str:
        """The next field as it is."""
        field = next(self._fields, None)
        if field is None:
            raise self.fault(f"ends where {what} was expected")
        return field[0]

    def whole(self, what: str, least: int = 0, most: int | None = None) -> int:
        """The next field as a whole number from `least` to `most`."""
        return self.as_whole(self.text(what), what, least, most)

    def number_of(self, what: str) -> float:
        """The next field as a finite number, of either sign."""
        return self.as_number(self.text(what), what)

    def as_whole(self, text: str, what: str, least: int = 0, most: int | None = None) -> int:
        """`text`, part of this line, as a whole number from `least` to `most`."""
        limits = f"at least {least}" if most is None else f"{least} to {most}"
        if not _WHOLE.fullmatch(text) or (value := int(text)) < least or (most is not None and value > most):
            raise self.fault(f"{_shown(text)} stands where {what} was expected: a whole number, {limits}")
        return value

    def as_number(self, text: str, what: str) -> float:
        """`text`, part of this line, as a finite number."""
        value = float(text) if len(text) <= MOST_SHOWN and _NUMBER.fullmatch(text) else None
        if value is None or abs(value) == float("inf"):
            raise self.fault(f"{_shown(text)} stands where {what} was expected: a number such as 12.5")
        return value

    def end(self, after: str) -> None:
        """Check that nothing is left."""
        field = next(self._fields, None)
        if field is not None:
            raise self.fault(f"{_shown(field[0])} stands where the line was expected to end, after {after}")


class Lines:
    """The lines of an open file that are not blank. Iterating raises InputError for lines that are not text."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.read = 0
        """Lines read so far, blank ones included."""
        self._file = file

    def __iter__(self) -> Iterator[Line]:
        while raw := self._file.readline(MAX_LINE_BYTES + 1):
            self.read += 1
            if len(raw) > MAX_LINE_BYTES:
                raise self.fault(f"is longer than {MAX_LINE_BYTES >> 20} MiB; this is no trace")
            try:
                text = raw.decode("ascii")
            except UnicodeDecodeError as error:
                byte = raw[error.start]
                raise self.fault(f"is not text: byte 0x{byte:02x} at column {error.start + 1}") from None
            if text.strip():
                yield Line(self.path, self.read, text)

    def first(self, what: str) -> Line:
        """The next line; InputError, saying that `what` was expected, if there is none."""
        line = next(iter(self), None)
        if line is None:
            raise InputError(f"{self.path}: line {self.read + 1}: the file ends where {what} was expected")
        return line

    def fault(self, words: str) -> InputError:
        """The error that says `words` of the line read last."""
        return InputError(f"{self.path}: line {self.read}: {words}")


@contextmanager
def open_lines(path: Path) -> Iterator[Lines]:
    """The lines of the file at `path`; InputError where it cannot be read or is no regular file."""
    try:
        # A pipe or a device would be waited for, or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path}: is not a regular file; name the file of a trace")
        with path.open("rb") as file:
            yield Lines(path, file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "...")
