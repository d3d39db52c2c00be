"""What the live view costs a run: CPU time of all that it adds, with one browser polling, on emulated runs.

Runs of one experiment with the view and without take turns. Of each, the CPU time of three processes is counted between the
first iteration and the last. They are the command, which serves the page, the emulator, which reads the links, and the controller,
which is asked. The browser is on somebody's screen, and its own time is not counted.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import new_folder
from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelon.live.view import LiveView
from echelon.running import runner
from echelonflow.child_process import module_argv
from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, RunError
from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFolder
from echelonflow.records.progress import IterationBegun, Progress

MOST_SHARE = 0.02
"""Of a processor."""
EXPERIMENT = """
name: live-view
network: {topology: leaf-spine, leaves: 4, hosts_per_leaf: 4, spines: 2, rate: 10 Mbit/s}
jobs:
- {name: pipeline, paradigm: gpipe, stages: 4, micro_batches: 4, forward: 50 ms, backward: 100 ms, activation: 60 ms of link,
   iterations: 12, placement: [h1, h5, h9, h13]}
- {name: parallel, paradigm: data-parallel, ranks: 4, algorithm: ring, layers: 4, forward: 50 ms, backward: 100 ms,
   parameter: 60 ms of link, iterations: 12, placement: [h2, h6, h10, h14]}
policies: [echelonflow]
emulation: {limits: {max_link_error: 1, max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1,
                     max_unexplained_exposed: 1}}
"""
_SERVER, _EMULATOR, _CONTROLLER = "server", "reading links", "controller"
_SIGNS = {_EMULATOR: "echelon.running.emulator", _CONTROLLER: "controller.main"}


_CPUCLOCK_SCHED = 2
"""Of a process: what it and its threads have computed, to the nanosecond (include/linux/posix-timers.h of Linux)."""


@dataclass
class Spent:
    """CPU time of the three processes, each time that an iteration begins: (moment, seconds by process).

    Ticks of /proc are too coarse: the view computes for a millisecond at a time. Which processes there are is found out
    once, as looking for them would cost more than what is measured.
    """

    readings: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    processes: dict[str, list[int]] = field(default_factory=dict)

    def hear(self, progress: Progress) -> None:
        """Read the clocks where an iteration begins."""
        if isinstance(progress, IterationBegun):
            self.processes = self.processes or processes()
            self.readings.append((time.monotonic(), cpu_s(self.processes)))

    def shares(self) -> dict[str, float]:
        """Processors' worth of time that each took between the first reading and the last (RunError without two)."""
        if len(self.readings) < 2:
            raise RunError("fewer than two iterations were seen; nothing can be said of what they cost")
        (begin_s, before), (end_s, after) = self.readings[0], self.readings[-1]
        return {kind: (after[kind] - before[kind]) / (end_s - begin_s) for kind in after}


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` runs with the live view, and as many without."""
    shares: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    decisions_ms: dict[bool, list[float]] = {False: [], True: []}
    for number in range(repeat):
        for watched in (False, True) if number % 2 else (True, False):
            say(f"run {number + 1} of {repeat} {'with' if watched else 'without'} the view")
            root = new_folder()
            shares[watched].append(spent(root, watched=watched))
            decisions_ms[watched] += of_decisions_ms(root)
    return figures(shares, decisions_ms)


def figures(shares: dict[bool, list[dict[str, float]]], decisions_ms: dict[bool, list[float]]) -> list[Figure]:
    """What came out, by whether the runs were watched."""
    added = [
        {kind: with_it[kind] - without[kind] for kind in with_it}
        for with_it, without in zip(shares[True], shares[False], strict=True)
    ]
    whole = [sum(one.values()) for one in added]
    all_of_it = statistics.median(whole)
    by_kind = ", ".join(f"{kind} {statistics.median(one[kind] for one in added):.2%}" for kind in added[0])
    took = " and ".join(
        f"{statistics.median(decisions_ms[watched]):.2f} ms {'with' if watched else 'without'}"
        for watched in (True, False)
    )
    return [
        Figure(
            "CPU time that the live view adds, one browser polling",
            f"median {all_of_it:.2%} of a CPU ({min(whole):.2%} to {max(whole):.2%}, n = {len(whole)}; {by_kind})",
            f"< {MOST_SHARE:.0%}",
            all_of_it < MOST_SHARE,
        ),
        Figure("decisions, median", took, "reported", None),
    ]


def spent(root: Path, *, watched: bool) -> dict[str, float]:
    """What a run into `root` took of processors, by process; with the view and a browser where it is `watched`."""
    experiment, clocks = _experiment(root), Spent()
    with contextlib.ExitStack() as stack:
        report = clocks.hear
        if watched:
            view = stack.enter_context(LiveView(tell_s=0.0))
            stack.enter_context(_browser(view.url))
            watching = stack.enter_context(view.watching(experiment, root, clocks.hear))
            code, _ = runner.run(experiment, root, "emulation", watching, pictures="none", watched=True)
        else:
            code, _ = runner.run(experiment, root, "emulation", report, pictures="none")
    if code in (EXIT_FAILED, EXIT_INTERRUPTED):
        raise RunError(f"the run failed; see {root}")
    return clocks.shares()


def processes() -> dict[str, list[int]]:
    """By kind: the one that measures and serves, those of the emulator, and those of the controller."""
    found: dict[str, list[int]] = {_SERVER: [os.getpid()], _EMULATOR: [], _CONTROLLER: []}
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            command = " ".join(child.cmdline())
            for kind, sign in _SIGNS.items():
                if sign in command:
                    found[kind].append(child.pid)
    return found


def cpu_s(of: dict[str, list[int]]) -> dict[str, float]:
    """What each kind of process has computed so far, in seconds of a processor (RunError where one has died)."""
    try:
        return {kind: sum(time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED) for pid in pids) for kind, pids in of.items()}
    except OSError as error:
        raise RunError(f"a process that is measured has died: {error.strerror}") from error


def of_decisions_ms(root: Path) -> list[float]:
    """How long the decisions of the runs in a folder took, but those ahead of releases."""
    found = (read_decisions(files.decisions) for files in RunFolder(root).runs())
    return [record.total_ms for records in found for record in records if not record.ahead]


@contextlib.contextmanager
def _browser(url: str) -> Iterator[None]:
    process = subprocess.Popen(module_argv("echelon.benchmarks._live_view_browser", url))
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _experiment(root: Path) -> Experiment:
    path = root.with_suffix(".yaml")
    path.write_text(EXPERIMENT, encoding="utf-8")
    try:
        return schema.load(path)
    finally:
        path.unlink()
