"""How busy the machine and the switch were during a run: overall idle CPU hides a saturated switch thread."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

WINDOW_S = 0.5
_IDLE_FIELDS = (3, 4)  # idle, iowait
_COUNTED_FIELDS = 8  # up to steal; guest time is part of user time


@dataclass(frozen=True)
class Sample:
    """CPU clocks at one moment: all cores together, and each thread of the switch daemon."""

    at_s: float
    busy_ticks: int
    total_ticks: int
    threads: dict[str, int] = field(default_factory=dict)


def read_sample(pid: int, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic) -> Sample:
    """Read the clocks now; a daemon that is gone has no threads."""
    fields = [int(f) for f in (proc / "stat").read_text().split("\n", 1)[0].split()[1 : 1 + _COUNTED_FIELDS]]
    threads = {}
    try:
        for task in (proc / str(pid) / "task").iterdir():
            after_name = (task / "stat").read_text().rpartition(")")[2].split()
            threads[task.name] = int(after_name[11]) + int(after_name[12])
    except OSError:
        threads = {}
    return Sample(clock(), sum(fields) - sum(fields[i] for i in _IDLE_FIELDS), sum(fields), threads)


def shares(a: Sample, b: Sample, ticks_per_s: int) -> tuple[float, float]:
    """Busy share of all cores, and of the switch's busiest thread (of one core), between two samples."""
    total = b.total_ticks - a.total_ticks
    cpu = (b.busy_ticks - a.busy_ticks) / total if total > 0 else 0.0
    span_s = b.at_s - a.at_s
    used = max((ticks - a.threads.get(name, 0) for name, ticks in b.threads.items()), default=0)
    return cpu, min(used / ticks_per_s / span_s, 1.0) if span_s > 0 else 0.0


def summary(samples: list[Sample], ticks_per_s: int) -> dict[str, float]:
    """The "load" of run.json: means over the whole time and the largest of any window."""
    if len(samples) < 2:
        return {"cpu_busy": 0.0, "cpu_busy_max": 0.0, "switch_thread_busy": 0.0, "switch_thread_busy_max": 0.0}
    cpu, thread = shares(samples[0], samples[-1], ticks_per_s)
    windows = [shares(a, b, ticks_per_s) for a, b in itertools.pairwise(samples)]
    return {
        "cpu_busy": cpu,
        "cpu_busy_max": max(w[0] for w in windows),
        "switch_thread_busy": thread,
        "switch_thread_busy_max": max(w[1] for w in windows),
    }


def free_share(window_s: float = WINDOW_S) -> float:
    """The share of all cores that is idle now, over `window_s`."""
    before = read_sample(os.getpid())
    time.sleep(window_s)
    return 1.0 - shares(before, read_sample(os.getpid()), os.sysconf("SC_CLK_TCK"))[0]


class LoadSampler:
    """Samples in a thread of its own, every `WINDOW_S`, from its making until `stop`."""

    def __init__(self, switch_pid: int, window_s: float = WINDOW_S) -> None:
        self._pid = switch_pid
        self._window_s = window_s
        self._samples = [read_sample(switch_pid)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._window_s):
            self._samples.append(read_sample(self._pid))

    def stop(self) -> dict[str, float]:
        """End sampling; returns `summary` of what was seen."""
        self._ended.set()
        self._thread.join()
        last = read_sample(self._pid)
        # A short rest is no window of its own: a few clock ticks more or less would look like saturation.
        if len(self._samples) > 1 and last.at_s - self._samples[-1].at_s < self._window_s / 2:
            self._samples.pop()
        self._samples.append(last)
        return summary(self._samples, os.sysconf("SC_CLK_TCK"))
