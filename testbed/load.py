"""How busy the machine and the switch were during a run: overall idle CPU hides a saturated switch thread."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from echelonflow.records.outcome import Load, LoadWindow

WINDOW_S = 0.5
SUSTAINED_S = 2.0
"""What is busy for so long is saturated: other work on the machine that is over in an instant is no harm."""
_IDLE = ("idle", "iowait")
_COUNTED_ELSEWHERE = ("guest", "guest_nice")
"""Part of "user" and "nice" already."""
_OF_PROCESSES = ("user", "nice", "system")
"""What processes take; interrupts are nobody's."""
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True)
class Sample:
    """CPU clocks at one moment, in seconds: all cores together, each core, and each thread of the switch daemon."""

    at_s: float
    busy_s: float
    stolen_s: float
    total_s: float
    threads_s: Mapping[int, float] = field(default_factory=dict)
    cores_s: tuple[tuple[float, float], ...] = ()
    """Of each core the time in which it was busy with what does not give way (is not "nice"), and all time."""
    processes_s: float = 0.0
    """What all processes of the machine took."""
    ours_s: Mapping[int, float] = field(default_factory=dict)
    """What each process took that can be seen from here: in a private world its own, and no others."""


def read_sample(pid: int | None = None) -> Sample:
    """Read the clocks now, with those of the threads of process `pid`; a process that is gone has none."""
    times: dict[str, float] = psutil.cpu_times()._asdict()
    busy_s, total_s = _busy_and_total_s(times)
    cores = tuple(_firmly_busy_and_total_s(core._asdict()) for core in psutil.cpu_times(percpu=True))
    threads = {}
    if pid is not None:
        try:
            threads = {thread.id: thread.user_time + thread.system_time for thread in psutil.Process(pid).threads()}
        except psutil.Error:
            threads = {}
    return Sample(
        time.monotonic(), busy_s, times.get("steal", 0.0), total_s, threads, cores,
        sum(times.get(name, 0.0) for name in _OF_PROCESSES), _seen_s(),
    )  # fmt: skip


def _seen_s() -> dict[int, float]:
    """CPU seconds of every process that can be seen from here; psutil would take ten times as long."""
    found = {}
    for place in _PROC.iterdir():
        if not place.name.isdecimal():
            continue
        try:
            # The name of a program, in brackets, may hold anything.
            fields = (place / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(place.name)] = (int(fields[11]) + int(fields[12])) * _TICK_S
    return found


def _busy_and_total_s(times: Mapping[str, float]) -> tuple[float, float]:
    total_s = sum(value for name, value in times.items() if name not in _COUNTED_ELSEWHERE)
    return total_s - sum(times.get(name, 0.0) for name in _IDLE), total_s


def _firmly_busy_and_total_s(times: Mapping[str, float]) -> tuple[float, float]:
    """Work that gives way to ours may fill a core: that is no harm."""
    busy_s, total_s = _busy_and_total_s(times)
    return busy_s - times.get("nice", 0.0), total_s


def busy_share(a: Sample, b: Sample) -> float:
    """Share of all cores that was busy between two samples; time stolen by other machines counts as busy."""
    return _share(b.busy_s - a.busy_s, b.total_s - a.total_s)


def stolen_share(a: Sample, b: Sample) -> float:
    """Share of all cores that the host took away between two samples (0 on a machine of its own)."""
    return _share(b.stolen_s - a.stolen_s, b.total_s - a.total_s)


def others_share(a: Sample, b: Sample) -> float:
    """Share of all cores that processes took between two samples which cannot be seen from here.

    One of ours that began and ended in between counts as another's.
    """
    ours_s = sum(max(spent_s - a.ours_s.get(pid, 0.0), 0.0) for pid, spent_s in b.ours_s.items())
    return _share(b.processes_s - a.processes_s - ours_s, b.total_s - a.total_s)


def core_share(a: Sample, b: Sample) -> float | None:
    """Share of time in which the busiest core was busy between two samples; None where cores are not told apart."""
    if not a.cores_s or len(a.cores_s) != len(b.cores_s):
        return None
    return max(
        _share(busy_s - busy_before_s, total_s - total_before_s)
        for (busy_before_s, total_before_s), (busy_s, total_s) in zip(a.cores_s, b.cores_s, strict=True)
    )


def thread_share(a: Sample, b: Sample) -> float:
    """Share of one core that the busiest thread took between two samples."""
    used_s = max((spent_s - a.threads_s.get(thread, 0.0) for thread, spent_s in b.threads_s.items()), default=0.0)
    return _share(used_s, b.at_s - a.at_s)


def _share(part: float, whole: float) -> float:
    return min(max(part, 0.0) / whole, 1.0) if whole > 0 else 0.0


def summary(samples: Sequence[Sample]) -> Load:
    """The "load" of run.json: means over the whole time, and the largest over `SUSTAINED_S` (or all, if that is less)."""
    first, last = samples[0], samples[-1]
    steps = list(itertools.pairwise(samples))
    windows = [
        (begin, end)
        for begin in samples
        if (end := next((later for later in samples if later.at_s >= begin.at_s + SUSTAINED_S - WINDOW_S / 2), None))
    ] or [(first, last)]
    return Load(
        cpu_busy=busy_share(first, last),
        cpu_busy_max=max(busy_share(*window) for window in windows),
        cpu_stolen=stolen_share(first, last),
        switch_thread_busy=thread_share(first, last),
        switch_thread_busy_max=max(thread_share(*window) for window in windows),
        core_busy=core_share(first, last),
        # Step by step: a program that trains begins and ends within the run, and over all of it would count as another's.
        cpu_others=_share(
            sum(others_share(a, b) * (b.total_s - a.total_s) for a, b in steps), last.total_s - first.total_s
        ),
        windows=tuple(
            LoadWindow(a.at_s, b.at_s, busy_share(a, b), stolen_share(a, b), others_share(a, b)) for a, b in steps
        ),
    )


def free_share(window_s: float = WINDOW_S) -> float:
    """The share of all cores that is idle now, over `window_s`."""
    before = read_sample()
    time.sleep(window_s)
    return 1.0 - busy_share(before, read_sample())


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

    def stop(self) -> Load:
        """End sampling; returns `summary` of what was seen."""
        self._ended.set()
        self._thread.join()
        last = read_sample(self._pid)
        # A short rest is no window of its own: a few clock ticks more or less would look like saturation.
        if len(self._samples) > 1 and last.at_s - self._samples[-1].at_s < self._window_s / 2:
            self._samples.pop()
        self._samples.append(last)
        return summary(self._samples)
