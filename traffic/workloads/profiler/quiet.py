"""How much of the machine's CPU others took while a step was measured, and the choice of steps that they left alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

Measured = TypeVar("Measured")

DISTURBED_SHARE = 0.05
"""A step during which others took a larger share of the CPUs than this is measured again."""

TRIES_PER_STEP = 3
"""So many steps are run at most for one that is kept."""

_STAT = Path("/proc/stat")
_IDLE_COLUMNS = (3, 4)  # idle and iowait, of user nice system idle iowait irq softirq steal
_COLUMNS = 8


def others_share(run: Callable[[], Measured]) -> tuple[Measured, float | None]:
    """What `run` gives, and the share of all CPUs that other processes took meanwhile (None where it is not known).

    Includes what a hypervisor took (steal). From /proc/stat, which counts in ticks of 10 ms.
    """
    before_s, own_before_s = _busy_s(), time.process_time()
    started_s = time.perf_counter()
    found = run()
    elapsed_s = time.perf_counter() - started_s
    own_s = time.process_time() - own_before_s
    after_s = _busy_s()
    if before_s is None or after_s is None or elapsed_s <= 0:
        return found, None
    others_s = max(0.0, after_s - before_s - own_s)
    return found, min(1.0, others_s / (elapsed_s * (os.cpu_count() or 1)))


def keep_quiet(
    count: int, run: Callable[[], tuple[Measured, float | None]], limit: float = DISTURBED_SHARE
) -> tuple[list[Measured], list[float | None], int]:
    """Run until `count` steps were left alone by others, or there were too many tries; the least disturbed ones.

    `run` gives a measurement and others' share of the CPUs. Gives the measurements kept, their shares, and the
    number of tries. Steps are chosen by what others did, never by how long they took.
    """
    tried: list[tuple[Measured, float | None]] = []
    quiet = 0
    while quiet < count and len(tried) < count * TRIES_PER_STEP:
        tried.append(run())
        share = tried[-1][1]
        quiet += share is None or share <= limit
    kept = sorted(tried, key=lambda step: step[1] or 0.0)[:count]
    return [found for found, _ in kept], [share for _, share in kept], len(tried)


def worst(shares: Sequence[float | None]) -> float | None:
    """The largest share that is known."""
    return max((share for share in shares if share is not None), default=None)


def _busy_s() -> float | None:
    """Seconds that all CPUs together have been busy since the machine started; None where the system does not say."""
    try:
        first = _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
    except (OSError, UnicodeDecodeError):
        return None
    ticks = [int(value) for value in first[1 : 1 + _COLUMNS]]
    busy = sum(value for column, value in enumerate(ticks) if column not in _IDLE_COLUMNS)
    return busy / os.sysconf("SC_CLK_TCK")
