"""A sweep interrupted at random moments, and gone on with: no cell is lost, and none is made twice.

The command is killed, or ended by Ctrl-C, or one of its workers is killed. Then the same command goes on. A cell that was
finished has to stay as it is, to the byte and the inode. The last command makes what is missing, and nothing else.
In the end, a worker of a dask cluster is killed in mid-sweep.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._dask_cluster import dask_cluster
from echelon.benchmarks._experiments import said_wrong
from echelon.benchmarks._small_disks import ROOMY, disk, filling, private_mounts
from echelon.benchmarks._sweep_command import Finished, cells_of, ended, sweeping, write_experiment
from echelonflow.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_VALID, RunError

MOMENTS_A_REPEAT = 2
"""Five repeats are ten moments of interruption."""
SEEDS = 12
ITERATIONS = 4
KILLED, CTRL_C, WORKER = "command killed", "Ctrl-C", "worker killed"
KINDS = (KILLED, CTRL_C, WORKER)
GONE_LIMIT_S = 5.0
_WORKERS = ("--workers", "2")


@dataclass
class Tally:
    """What was seen: faults by kind of interruption, and of the commands that completed a sweep."""

    moments: dict[str, list[str | None]] = field(default_factory=dict)
    completed: list[str | None] = field(default_factory=list)

    def figures(self) -> list[Figure]:
        found = [
            _figure(f"{kind}: finished cells stay, no process is left", faults) for kind, faults in self.moments.items()
        ]
        every = [fault for faults in self.moments.values() for fault in faults]
        found.append(_figure("all interruptions", every))
        found.append(_figure("the same command completes the sweep, no cell lost, none made twice", self.completed))
        return found


def _figure(what: str, faults: Sequence[str | None]) -> Figure:
    good = sum(fault is None for fault in faults)
    return Figure(what, f"{good} of {len(faults)}", "all", good == len(faults))


def run(repeat: int, say: Say) -> list[Figure]:
    """Twice `repeat` interruptions, of each kind in turn; then a worker of a dask cluster, `repeat` times."""
    rng, tally = random.Random(repeat), Tally()
    kinds = list(itertools.islice(itertools.cycle(KINDS), MOMENTS_A_REPEAT * repeat))
    with tempfile.TemporaryDirectory(prefix="echelon-sweep-kills-") as name:
        folder = Path(name)
        file = write_experiment(folder / "cells.yaml", ITERATIONS)
        length_s = _undisturbed(file, folder / "first")
        say(f"an undisturbed sweep of {cells_of(SEEDS)} cells takes {length_s:.1f} s")
        for number in itertools.count():
            if not kinds:
                break
            one_folder(file, folder / f"out-{number}", kinds, length_s, rng, tally, say)
        found = [*tally.figures(), *_full_disks(file, folder, length_s, repeat, rng, say)]
        try:
            faults = [dask_worker_killed(file, folder / f"dask-{number}", rng) for number in range(repeat)]
        except RunError as error:
            say(f"no dask cluster: {error}")
            return found
    for fault in filter(None, faults):
        say(f"dask: {fault}")
    return [*found, _figure("a dask worker killed: no cell lost, none kept twice", faults)]


def one_folder(
    file: Path, out: Path, kinds: list[str], length_s: float, rng: random.Random, tally: Tally, say: Say
) -> None:
    """Interrupt commands that go on one after the other, by the last of `kinds`, until the sweep is complete."""
    done = False
    while kinds and not done:
        kind, before = kinds.pop(), Finished.of(out)
        left = 1 - len(before.stamps) / cells_of(SEEDS)
        at_s = rng.uniform(0.3, max(0.9 * left * length_s, 0.6))
        fault, done = _interrupted(file, out, kind, at_s, before)
        tally.moments.setdefault(kind, []).append(fault)
        now = len(Finished.of(out).stamps)
        say(f"{kind} after {at_s:.1f} s, {now} of {cells_of(SEEDS)} cells finished: {fault or 'well'}")
    tally.completed.append(_completed(file, out))
    if tally.completed[-1]:
        say(f"{out.name}: {tally.completed[-1]}")


def _full_disks(file: Path, folder: Path, length_s: float, repeat: int, rng: random.Random, say: Say) -> list[Figure]:
    """`repeat` disks that fill up in mid-sweep; none where that takes rights that we have not."""
    try:
        private_mounts()
    except RunError as error:
        say(f"no full disks: {error}")
        return []
    faults = [full_disk(file, folder / f"disk-{number}", rng.uniform(0.3, length_s)) for number in range(repeat)]
    for fault in filter(None, faults):
        say(f"full disk: {fault}")
    return [_figure("a disk that fills up: one message, finished cells stay, the sweep goes on", faults)]


def full_disk(file: Path, place: Path, after_s: float) -> str | None:
    """Sweep on a disk that has no room from `after_s` on, then go on with room; what was wrong.

    It has to be a mount of our own that we may make (`private_mounts`).
    """
    with disk(place, ROOMY):
        process, out = sweeping(file, place / "out", SEEDS, *_WORKERS), place / "out"
        with filling(place / "filler", after_s):
            code, _, wrong = ended(process)
        said = [line for line in wrong.splitlines() if line.startswith("echelon: ")]
        if code not in (EXIT_VALID, EXIT_FAILED, EXIT_BAD_INPUT) or len(said) != (code != EXIT_VALID):
            return f"exit code {code}, {len(said)} messages: {wrong.strip()[-500:]}"
        (place / "filler").unlink(missing_ok=True)
        return said_wrong(wrong) or _completed(file, out)


def _undisturbed(file: Path, out: Path) -> float:
    started_s = time.monotonic()
    code, _, wrong = ended(sweeping(file, out, SEEDS, *_WORKERS))
    if code != EXIT_VALID:
        raise RunError(f"the sweep ended with {code}: {wrong.strip()[-500:]}")
    return time.monotonic() - started_s


def _interrupted(file: Path, out: Path, kind: str, at_s: float, before: Finished) -> tuple[str | None, bool]:
    """Interrupt one command after `at_s`; what was wrong, and whether the sweep was complete by then."""
    process = sweeping(file, out, SEEDS, *_WORKERS)
    try:
        time.sleep(at_s)
        family = _family(process)
        if kind == WORKER:
            workers = _workers(process)
            if workers:
                os.kill(workers[len(workers) // 2].pid, signal.SIGKILL)
        elif process.poll() is None:
            process.send_signal(signal.SIGKILL if kind == KILLED else signal.SIGINT)
        code, _, wrong = ended(process)
    finally:
        process.kill()
    expected = {KILLED: {-signal.SIGKILL}, CTRL_C: {EXIT_INTERRUPTED, -signal.SIGINT}, WORKER: set()}[kind]
    if code not in {EXIT_VALID, *expected}:
        return f"exit code {code}: {wrong.strip()[-500:]}", False
    left = psutil.wait_procs(family, timeout=GONE_LIMIT_S)[1]
    fault = said_wrong(wrong) or before.difference(out) or (f"{len(left)} processes are left" if left else None)
    return fault, code == EXIT_VALID


def _family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return list(psutil.Process(process.pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Processes of the command that compute cells: forks of it."""
    try:
        own = psutil.Process(process.pid).cmdline()
        return [child for child in _family(process) if child.cmdline() == own]
    except psutil.NoSuchProcess:
        return []


def _completed(file: Path, out: Path) -> str | None:
    """Go on in peace; what was wrong with that, or with what was there in the end."""
    before = Finished.of(out)
    code, said, wrong = ended(sweeping(file, out, SEEDS, *_WORKERS))
    missing = cells_of(SEEDS) - len(before.stamps)
    counted = re.search(r"(\d+) made now, (\d+) kept", said)
    if code != EXIT_VALID or counted is None:
        return f"exit code {code}: {wrong.strip()[-500:]}"
    if (int(counted[1]), int(counted[2])) != (missing, len(before.stamps)):
        return f"{counted[0]}, where {missing} were missing"
    if len(Finished.of(out).stamps) != cells_of(SEEDS):
        return f"{len(Finished.of(out).stamps)} of {cells_of(SEEDS)} cells are finished"
    return said_wrong(wrong) or before.difference(out)


def dask_worker_killed(file: Path, folder: Path, rng: random.Random) -> str | None:
    """Kill one of two dask workers in mid-sweep; what was wrong with what came of it."""
    folder.mkdir()
    out = folder / "out"
    with dask_cluster(folder, 2) as cluster:
        process = sweeping(file, out, SEEDS, "--cluster", cluster.address)
        try:
            enough = rng.randrange(1, cells_of(SEEDS) // 2)
            while process.poll() is None and len(Finished.of(out).stamps) < enough:
                time.sleep(0.2)
            before = Finished.of(out)
            cluster.workers[0].kill()
            code, said, wrong = ended(process)
        finally:
            process.kill()
    if code != EXIT_VALID or f"{cells_of(SEEDS)} made now" not in said:
        return f"exit code {code}: {wrong.strip()[-500:]}"
    return said_wrong(wrong) or before.difference(out)
