"""What the files hold that an experiment names: results change when they do."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from echelonflow.files import at_home, is_file

_MOST_NAME = 1024
_PIECE_BYTES = 1 << 20
_DIGITS = 16


class Digests:
    """Digests of files by the texts that name them, each file read once.

    Which texts of an experiment name files is a matter of each paradigm, format and topology. So every text counts as a
    name behind which there is a file: beside the experiment, or in the working folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, list[str]] = {}

    def named_in(self, data: Any) -> dict[str, list[str]]:
        """By text in `data`, the digests of the files that it names; texts that name none are left out."""
        found = {}
        for text in _texts(data):
            if text not in self._known:
                self._known[text] = [_digest(path) for path in self._paths(text)]
            if self._known[text]:
                found[text] = self._known[text]
        return found

    def _paths(self, text: str) -> list[Path]:
        name = os.path.expandvars(text.partition("(")[0].strip())
        if not name or len(name) > _MOST_NAME or "\n" in name or "\0" in name:
            return []
        for folder in (self._folder, Path()):
            path = folder / at_home(Path(name))
            if is_file(path):
                return [path]
            if "*" in name:
                matching = sorted(each for each in path.parent.glob(path.name) if each.is_file())
                if matching:
                    return matching
        return []


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from _texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value)


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()[:_DIGITS]
