"""Files that an experiment file names."""

from __future__ import annotations

import os
import re
from pathlib import Path

from echelonflow.errors import InputError


def find_file(name: str, folder: Path) -> Path:
    """The file called `name` in an experiment file that lies in `folder` (InputError if there is none)."""
    written = os.path.expandvars(name)
    unset = re.search(r"\$\{?(\w+)", written)
    if unset:
        raise InputError(f"file: {name!r} names the environment variable {unset[1]}, which is not set")
    path = folder / Path(written).expanduser()
    if not path.exists():
        raise InputError(f"file: there is no file {str(path)!r}; a name is relative to the experiment file")
    return path
