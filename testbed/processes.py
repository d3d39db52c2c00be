"""Looks at processes from outside their namespaces: what a run has started, and whether it is gone."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterable
from typing import Any

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


def end(process: subprocess.Popen[Any], limit_s: float) -> None:
    """Ask a process to end, and kill it where it has not after `limit_s`."""
    process.terminate()
    end_within([process], limit_s)


def end_within(processes: Iterable[subprocess.Popen[Any]], limit_s: float) -> list[subprocess.Popen[Any]]:
    """Wait until all have ended, for `limit_s` in all; kill those that are left, and return them."""
    deadline_s = time.monotonic() + limit_s
    killed = []
    for process in processes:
        try:
            process.wait(max(deadline_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed.append(process)
    return killed
