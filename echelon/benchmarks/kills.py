"""Kills (-9) of every kind of process at random moments: nothing is left, finished runs are kept, and it goes on."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import psutil

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._experiments import Kept, ended, finished_runs, going_on, said_wrong
from echelonflow.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INVALID, EXIT_VALID, RunError
from testbed import preflight
from testbed.processes import alive, descendants

COMMAND = "echelon run"
OF_POLICY = "process of a user's policy"
_CARRIER, _FIRST = "unshare --net", "init.py serve"
_WORLD = (_CARRIER, _FIRST)
_ON_THE_WAY = (*_WORLD, "mnexec ", "nice ")
KINDS = {
    COMMAND: "",
    "what carries the world": _CARRIER,
    "the world's first process": _FIRST,
    "emulator": "echelon.running.emulator",
    "controller": "controller.main",
    "agent": "traffic.agent",
    "capture": "tcpdump -i",
    "switch daemon": "ovs-vswitchd ",
    "switch database": "ovsdb-server ",
    "a host's shell": "mininet:h",
    OF_POLICY: "own_policy.worker",
}
"""Kind of process, and what its command line holds (empty: the command itself)."""
KILLS_A_FOLDER = 6
"""Each of them hits the command that goes on after the one before; then one that nobody disturbs has to complete it."""
GONE_LIMIT_S = 5.0
WORLD_SHARE = 0.75
"""So much of the time an experiment takes there is a world with processes to kill; then it is analysed."""
RUNS = 2
"""Of the experiment: one to be hit, and one to be kept."""
POLICY = """
import numpy as np

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import max_min


def allocate(snapshot):
    rates = max_min(snapshot, np.arange(snapshot.flows), np.ones(snapshot.flows), snapshot.capacity_Bps.copy())
    return Allocation(rates, np.zeros(snapshot.flows, np.int64))
"""
EXPERIMENT = """
name: kills
network: {topology: single-switch, hosts: 2, rate: 50 Mbit/s}
jobs: [{name: p, paradigm: pipeline, stages: 2, micro_batches: 2, forward: 50 ms, activation: 100 ms of link}]
policies: [POLICY]
repeats: 2
emulation: {limits: {max_link_error: 1, max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1,
                     max_unexplained_exposed: 1}}
"""


def run(repeat: int, say: Say, only: Sequence[str] = ()) -> list[Figure]:
    """`repeat` kills of each kind, or of those whose name fits `only`, in an order drawn by chance; 19 of each are 209."""
    preflight.require()
    rng = random.Random(repeat)
    chosen = [kind for kind in KINDS if not only or any(fnmatch(kind, pattern) for pattern in only)]
    kinds = [kind for kind in chosen for _ in range(repeat)]
    rng.shuffle(kinds)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="echelon-kills-") as folder:
        policy, file = Path(folder) / "mine.py", Path(folder) / "kills.yaml"
        policy.write_text(POLICY)
        file.write_text(EXPERIMENT.replace("POLICY", str(policy)))
        length_s = _undisturbed(file, Path(folder) / "first", tally)
        say(f"an undisturbed experiment takes {length_s:.1f} s")
        numbers = itertools.count()
        while kinds:
            _one_folder(file, Path(folder) / f"out-{next(numbers)}", kinds, length_s, rng, tally, say)
    return tally.figures()


@dataclass
class Tally:
    """What came out so far, by kind of process."""

    kills: dict[str, int] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    completed: list[bool] = field(default_factory=list)

    def note(self, kind: str, faults: list[str]) -> None:
        self.kills[kind] = self.kills.get(kind, 0) + 1
        self.faults.setdefault(kind, []).extend(faults[:1])

    def figures(self) -> list[Figure]:
        found = []
        for kind, kills in self.kills.items():
            good = kills - len(self.faults[kind])
            found.append(
                Figure(f"{kind} killed: nothing left, finished runs kept", f"{good} of {kills}", "all", good == kills)
            )
        kills = sum(self.kills.values())
        good = kills - sum(map(len, self.faults.values()))
        done, of = sum(self.completed), len(self.completed)
        return [
            *found,
            Figure("all kills", f"{good} of {kills}", "all", good == kills),
            Figure("the next run completes the experiment", f"{done} of {of}", "all", done == of),
        ]


def _undisturbed(file: Path, out: Path, tally: Tally) -> float:
    """How long the experiment takes when nobody is killed, in seconds."""
    started_s = time.monotonic()
    code, said = ended(going_on(file, out, attempts=RUNS))
    if code == EXIT_BAD_INPUT:
        raise RunError(f"`echelon run` refused to start: {said.strip()}")
    tally.completed.append(code in (EXIT_VALID, EXIT_INVALID) and said_wrong(said) is None)
    return time.monotonic() - started_s


def _one_folder(
    file: Path, out: Path, kinds: list[str], length_s: float, rng: random.Random, tally: Tally, say: Say
) -> None:
    """Up to `KILLS_A_FOLDER` kills, taken from `kinds`, in commands that go on one after the other; then one in peace."""
    for _ in range(KILLS_A_FOLDER):
        if not kinds or not _kill_one(file, out, kinds, length_s, rng, tally, say):
            break
    before = Kept.of(out)
    code, said = ended(going_on(file, out, attempts=RUNS))
    wrong = said_wrong(said) or before.difference(out)
    complete = len(finished_runs(out)) == RUNS and code in (EXIT_VALID, EXIT_INVALID)
    tally.completed.append(complete and wrong is None)
    if not tally.completed[-1]:
        say(f"{out.name}: not complete afterwards (exit {code}): {wrong or said.strip()[-500:]}")


def _kill_one(
    file: Path, out: Path, kinds: list[str], length_s: float, rng: random.Random, tally: Tally, say: Say
) -> bool:
    """Kill a process of the next kind; whether there is something left to do in this folder afterwards."""
    kind, before, kept = kinds[-1], Machine.now(), Kept.of(out)
    process = going_on(file, out, attempts=RUNS)
    try:
        at_s = rng.uniform(0.0, length_s if kind == COMMAND else WORLD_SHARE * length_s)
        killed, family = _kill(process, KINDS[kind], at_s)
        code, said = ended(process)
    finally:
        process.kill()
    if not killed:  # it had ended by then: this kind is tried again, in a fresh folder
        return False
    kinds.pop()
    faults = [*before.left_behind(family, out), *filter(None, [said_wrong(said), kept.difference(out)])]
    expected = {-signal.SIGKILL} if kind == COMMAND else {EXIT_VALID, EXIT_FAILED, EXIT_INVALID}
    if kind == OF_POLICY:
        expected.add(EXIT_BAD_INPUT)  # before anything is emulated, a policy that dies is refused like one that fails
    if code not in expected:
        faults.append(f"exit code {code}: {said.strip()[-500:]}")
    tally.note(kind, faults)
    number = sum(tally.kills.values())
    say(f"{number}: {kind}, killed after {at_s:.1f} s: {faults[0] if faults else f'well (exit code {code})'}")
    return code not in (EXIT_VALID, EXIT_INVALID)


def _kill(process: subprocess.Popen[str], words: str, at_s: float) -> tuple[bool, set[int]]:
    """Kill the first process of a kind that is there after `at_s` seconds; whether there was one, and all that were seen."""
    started_s, family = time.monotonic(), {process.pid}
    while process.poll() is None:
        found = descendants(process.pid)
        family |= set(found)
        if time.monotonic() - started_s >= at_s:
            victim = process.pid if not words else next(of_kind(found, words), None)
            if victim is not None and alive(victim):
                os.kill(victim, signal.SIGKILL)
                return True, family
        time.sleep(0.01)
    return False, family


def of_kind(found: dict[int, str], words: str) -> Iterator[int]:
    """Those whose command line holds `words`; where one became the other by way of several programs, the last of them."""
    if words.startswith(_WORLD):
        return (
            pid for pid, line in found.items() if words in line and line.startswith("unshare ") == (words == _CARRIER)
        )
    return (pid for pid, line in found.items() if words in line and not any(way in line for way in _ON_THE_WAY))


@dataclass(frozen=True)
class Machine:
    """What emulations must not leave on a machine."""

    interfaces: frozenset[str]
    mounts: frozenset[str]

    @classmethod
    def now(cls) -> Machine:
        interfaces = frozenset(path.name for path in Path("/sys/class/net").iterdir())
        return cls(interfaces, frozenset(Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()))

    def left_behind(self, family: set[int], out: Path) -> list[str]:
        """What there is now and was not before: processes of `family` or with `out` in their command, interfaces, mounts."""
        faults = []
        deadline_s = time.monotonic() + GONE_LIMIT_S
        while left := [pid for pid in {*family, *_naming(out)} if alive(pid)]:
            if time.monotonic() > deadline_s:
                faults.append(f"{len(left)} processes are left, such as {' '.join(psutil.Process(left[0]).cmdline())}")
                break
            time.sleep(0.05)
        now = Machine.now()
        for what, more in (("interfaces", now.interfaces - self.interfaces), ("mounts", now.mounts - self.mounts)):
            if more:
                faults.append(f"{what} are left: {', '.join(sorted(more))}")
        if str(out) in Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace"):
            faults.append("a socket is left")
        return faults


def _naming(out: Path) -> Iterator[int]:
    for process in psutil.process_iter(["cmdline"]):
        if any(str(out) in word for word in process.info["cmdline"] or ()):
            yield process.pid
