"""Measurements in a process of their own, so that time and peak memory are theirs alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

from echelon.benchmarks import Figure, Say
from echelonflow.child_process import pool
from echelonflow.errors import RunError

_BYTES_OF_KB = 1024
Found = TypeVar("Found")


def timed_in_own_process(
    what: str,
    limit_s: float | None,
    repeat: int,
    say: Say,
    measure: Callable[..., tuple[float, str]],
    *arguments: object,
    goal_s: float | None = None,
    most_GB: float | None = None,
) -> Figure:
    """The median of `repeat` measurements of `what`, each in a fresh process, and the most memory that one of them took.

    `measure(*arguments)` gives seconds, and in words what came out; both must be picklable. Memory is that of the whole
    process, interpreter and libraries included. Without `limit_s` they are reported, nothing more. RunError if a process dies.
    """
    times_s, peaks_GB = measured_in_own_process(what, repeat, say, measure, *arguments)
    median_s, peak_GB = statistics.median(times_s), max(peaks_GB)
    measured = f"{median_s:.2f} s ({min(times_s):.2f} to {max(times_s):.2f}), {peak_GB:.2f} GB"
    if limit_s is None:
        return Figure(what, measured, "reported", None)
    goal = "" if goal_s is None else f" (goal {goal_s:g} s)"
    memory = "" if most_GB is None else f" and {most_GB:g} GB"
    ok = median_s < limit_s and (most_GB is None or peak_GB < most_GB)
    return Figure(what, measured, f"under {limit_s:g} s{goal}{memory}", ok)


def in_own_process(what: str, measure: Callable[..., Found], *arguments: object) -> tuple[Found, float]:
    """What `measure(*arguments)` found in a fresh process, and the most memory that this took, in GB (RunError if it dies)."""
    with pool(1) as alone:
        try:
            return alone.submit(_with_peak, measure, arguments).result()
        except BrokenProcessPool as error:
            raise RunError(f"{what}: the process that measured it died; is there memory enough?") from error


def measured_in_own_process(
    what: str, repeat: int, say: Say, measure: Callable[..., tuple[float, str]], *arguments: object
) -> tuple[list[float], list[float]]:
    """The seconds of `repeat` such measurements, and the GB of memory that each took at most; raises as above."""
    times_s, peaks_GB = [], []
    for n in range(repeat):
        with pool(1) as alone:
            try:
                (time_s, words), peak_GB = alone.submit(_with_peak, measure, arguments).result()
            except BrokenProcessPool as error:
                raise RunError(f"{what}: the process that measured it died; is there memory enough?") from error
        say(f"{what}, {n + 1} of {repeat}: {time_s:.2f} s, {peak_GB:.2f} GB; {words}")
        times_s.append(time_s)
        peaks_GB.append(peak_GB)
    return times_s, peaks_GB


def _with_peak(measure: Callable[..., Found], arguments: tuple[object, ...]) -> tuple[Found, float]:
    found = measure(*arguments)
    return found, memory_bytes("VmHWM") / 1e9


def memory_bytes(kind: str) -> int:
    """Memory of this process, of a kind in /proc/self/status such as VmHWM, the most that it has had.

    Not getrusage: that counts what its parent had when it began.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith(f"{kind}:"))
    return int(kilobytes) * _BYTES_OF_KB
