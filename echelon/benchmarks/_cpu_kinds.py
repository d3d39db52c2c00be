"""Which programs the processors worked for: CPU time by kind of process, sampled from outside while something is measured."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

SAMPLE_S = 0.25
OTHERS = "others"
_KINDS = {
    "switch": (b"ovs-vswitchd",),
    "agents": (b"traffic.agent", b"iperf3"),
    "captures": (b"tcpdump",),
    "controller": (b"controller.main",),
}
"""Kinds of processes, by what their command line holds."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12  # fields of /proc/PID/stat behind the name


@dataclass(frozen=True)
class CpuSample:
    """CPU time so far in seconds: of each process, of all interrupts deferred by the kernel, and stolen by the host."""

    at_s: float
    processes_s: dict[int, tuple[str, float]]
    """Process to kind and CPU time."""
    softirq_s: float
    busy_s: float
    stolen_s: float


def kind_of(command: bytes) -> str:
    """What kind of process has this command line."""
    return next((kind for kind, signs in _KINDS.items() if any(sign in command for sign in signs)), OTHERS)


def cpu_shares(samples: Sequence[CpuSample], begin_s: float, end_s: float) -> dict[str, float]:
    """Processors' worth of CPU time that each kind took between two moments: 1.0 is one processor all the time.

    "softirq" is also part of what processes took, as they are charged with what interrupts them; "all" is what was
    busy at all, and "stolen" what the host took. Empty if the samples do not cover the time.
    """
    within = [sample for sample in samples if begin_s <= sample.at_s <= end_s]
    if len(within) < 2:
        return {}
    first, last = within[0], within[-1]
    span_s = last.at_s - first.at_s
    taken_s: dict[str, float] = defaultdict(float)
    for process, (kind, spent_s) in last.processes_s.items():
        taken_s[kind] += spent_s - first.processes_s.get(process, (kind, 0.0))[1]
    taken_s["softirq"] = last.softirq_s - first.softirq_s
    taken_s["all"] = last.busy_s - first.busy_s
    taken_s["stolen"] = last.stolen_s - first.stolen_s
    return {kind: seconds / span_s for kind, seconds in taken_s.items()}


class CpuSampler:
    """Samples every `SAMPLE_S` in a thread of its own while it is entered; `samples` has them in order."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self.samples: list[CpuSample] = []
        self._proc = proc
        self._kinds: dict[int, str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu", daemon=True)

    def __enter__(self) -> CpuSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self.samples.append(self.sample())
            if self._ended.wait(SAMPLE_S):
                return

    def sample(self) -> CpuSample:
        """The clocks now."""
        times = psutil.cpu_times()
        busy_s = times.user + times.nice + times.system + times.irq + times.softirq
        processes = {}
        for entry in os.scandir(self._proc):
            if entry.name.isdigit() and (spent_s := self._spent_s(Path(entry.path))) is not None:
                process = int(entry.name)
                processes[process] = (self._kind(process, Path(entry.path)), spent_s)
        return CpuSample(time.monotonic(), processes, times.softirq, busy_s, times.steal)

    def _kind(self, process: int, folder: Path) -> str:
        """Kind of a process, looked up until it is one of ours: it is first a copy of whoever started it."""
        known = self._kinds.get(process, OTHERS)
        if known == OTHERS:
            try:
                known = self._kinds[process] = kind_of((folder / "cmdline").read_bytes())
            except OSError:  # it has just ended
                return OTHERS
        return known

    def _spent_s(self, folder: Path) -> float | None:
        try:
            fields = (folder / "stat").read_bytes().rpartition(b") ")[2].split()
        except OSError:  # it has just ended
            return None
        return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_S
