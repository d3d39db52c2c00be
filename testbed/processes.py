"""Looks at processes from outside their namespaces: what a run has started, and whether it is gone."""

from __future__ import annotations

import contextlib

import psutil


def descendants(pid: int) -> dict[int, str]:
    """Living processes below `pid`, in whatever namespace, with their command lines (spaces between arguments)."""
    found = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # a zombie, or gone in the meantime
                found[child.pid] = " ".join(child.cmdline())
    return found


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
