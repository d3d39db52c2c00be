"""Looks at processes from outside their namespaces: what a run has started, and whether it is gone."""

from __future__ import annotations

import contextlib
from pathlib import Path


def descendants(pid: int, proc: Path = Path("/proc")) -> dict[int, str]:
    """Living processes below `pid`, in whatever namespace, with their command lines (spaces between arguments)."""
    children: dict[int, list[int]] = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int(_fields(entry)[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: dict[int, str] = {}
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            with contextlib.suppress(OSError):
                found[child] = (proc / str(child) / "cmdline").read_text().replace("\0", " ")
                todo.append(child)
    return found


def alive(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return _fields(proc / str(pid))[0] != "Z"
    except OSError:
        return False


def _fields(entry: Path) -> list[str]:
    """The fields of /proc/PID/stat after the process's name: state, parent, ..."""
    return (entry / "stat").read_text().rpartition(")")[2].split()
