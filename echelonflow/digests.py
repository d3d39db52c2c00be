"""Digests that tell whether what computed something has changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

_DIGITS = 12


def code_digest(parts: Iterable[ModuleType], endings: Iterable[str] = (".py",)) -> str:
    """Changes with every edit of these packages and modules: of all their files whose names end so."""
    found = hashlib.sha256()
    for part in parts:
        assert part.__file__ is not None
        place = Path(part.__file__)
        whole = place.name == "__init__.py"
        files = (path for ending in endings for path in place.parent.rglob(f"*{ending}")) if whole else (place,)
        for path in sorted(files):
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:_DIGITS]
