"""A run folder holds folders and files; one that came from somebody else may hold anything.

A link leads whoever reads or writes there to other files: a table written through one replaces what it leads to. A pipe
or a device never ends. So none of them is taken, wherever a folder is read that was not made just now.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from echelonflow.errors import InputError

_TAKEN: tuple[Callable[[int], bool], ...] = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISSOCK)
"""Sockets are what a controller leaves that was killed; opening one as a file fails at once."""
_NAMES: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


def check_plain(root: Path) -> None:
    """InputError, naming it, where anything in `root` is neither a file nor a folder. `root` itself may be a link."""
    for folder, folders, files in os.walk(root):
        for name in sorted([*files, *folders]):  # a link to a folder is among the folders
            _check(Path(folder, name))


def _check(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError:  # gone meanwhile, or not for us: whoever needs it will say so
        return
    if any(taken(mode) for taken in _TAKEN):
        return
    what = next((words for is_one, words in _NAMES if is_one(mode)), "special file")
    raise InputError(
        f"{path}: is a {what}; a run folder holds files and folders only: remove it, or copy what it names"
    )
