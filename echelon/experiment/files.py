"""Files that an experiment file names."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.files import at_home, exists
from echelonflow.spelling import did_you_mean, shown

_MOST_BESIDE = 1000


def find_file(name: str, folder: Path) -> Path:
    """The file called `name` in an experiment file that lies in `folder` (InputError if there is none)."""
    written = os.path.expandvars(name)
    unset = re.search(r"\$\{?(\w+)", written)
    if unset:
        raise InputError(f"file: {name!r} names the environment variable {unset[1]}, which is not set")
    path = folder / at_home(Path(written))
    if not exists(path):
        near = (
            did_you_mean(path.name, (each.name for each in islice(path.parent.iterdir(), _MOST_BESIDE)))
            if exists(path.parent) and path.parent.is_dir()
            else ""
        )
        raise InputError(f"file: there is no file {shown(str(path))}; a name is relative to the experiment file{near}")
    return path
