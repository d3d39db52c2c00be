"""Files that an experiment file names."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.spelling import did_you_mean

_MOST_BESIDE = 1000


def find_file(name: str, folder: Path) -> Path:
    """The file called `name` in an experiment file that lies in `folder` (InputError if there is none)."""
    written = os.path.expandvars(name)
    unset = re.search(r"\$\{?(\w+)", written)
    if unset:
        raise InputError(f"file: {name!r} names the environment variable {unset[1]}, which is not set")
    path = folder / Path(written).expanduser()
    if not path.exists():
        near = (
            did_you_mean(path.name, (each.name for each in islice(path.parent.iterdir(), _MOST_BESIDE)))
            if path.parent.is_dir()
            else ""
        )
        raise InputError(f"file: there is no file {str(path)!r}; a name is relative to the experiment file{near}")
    return path
