"""What is done to an emulated run from outside while it goes on: each of these is a fault that a verdict has to catch.

Nothing of this is known to the testbed. A saboteur has root on the machine, enters the private world, and uses what is
installed there: tc, ovs-ofctl, signals, the search path of programs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from echelon.benchmarks.kills import KINDS, of_kind
from echelonflow.errors import RunError
from echelonflow.model.addressing import interface_name
from echelonflow.model.network import Link, Network
from echelonflow.records.folder import RunFolder
from echelonflow.records.progress import Calibrating, IterationBegun, Progress, Running
from echelonflow.wire.classes import CONTROL_CLASS, DEFAULT_CLASS
from echelonflow.wire.declare import DATA_PORT
from testbed import queues
from testbed.openvswitch import RUN_DIR
from testbed.processes import descendants

NS_LIMIT_S = 20.0
SLOW_SHARE = 0.9
"""What a slow link carries of its rate."""
SLOW_BURST_S = 0.01
AGAIN_S = 0.1
"""How often a link is made slow again while calibration sets its rate anew."""
STOPPED_S = 1.0
"""How long captures stand still."""
RULE_PRIORITY = 65_000
"""Above all that the controller installs."""
COOKIE = "0xbad"
"""By which our rules are told from the controller's."""
MOST_RUNS = 64
"""Of an experiment: each has its own port at which receivers listen."""
LEAST_BUFFER_KIB = 16
_SHIM = """#!/bin/sh
for word do
    shift
    [ "$before" = -B ] && word={buffer_kib}
    set -- "$@" "$word"
    before=$word
done
exec {real} "$@"
"""
"""In place of tcpdump: the same with a buffer that holds hardly anything."""
SPIN = (sys.executable, "-I", "-S", "-c", "while True: pass")
_STEAL = """
import time
while True:
    until_s = time.monotonic() + {stolen_s}
    while time.monotonic() < until_s:
        pass
    time.sleep({left_s})
"""


class World:
    """The private world of the experiment that this process carries out into the folder `root`."""

    def __init__(self, root: Path, network: Network) -> None:
        self.folder = RunFolder(root)
        self.network = network

    def processes(self, kind: str) -> list[int]:
        """Process ids of a kind as `kills.KINDS` has it, as seen from here."""
        return list(of_kind(descendants(os.getpid()), KINDS[kind]))

    def switches(self, script: str) -> None:
        """Run a shell script where the switches' interfaces are (RunError where it fails)."""
        environment = {"OVS_RUNDIR": str(self.folder.root.resolve() / RUN_DIR)}
        self._run(["--mount"], self._emulator(), script, environment)

    def host(self, host: str, script: str) -> None:
        """Run a shell script in the network of a host (RunError where it fails)."""
        self._run([], self._shell(host), script, {})

    def spawn(self, script: str) -> subprocess.Popen[bytes]:
        """Start a shell script where the switches' interfaces are; whoever calls ends it."""
        return subprocess.Popen(
            ["nsenter", f"--target={self._emulator()}", "--net", "sh", "-c", script], stderr=subprocess.DEVNULL
        )

    def _run(self, namespaces: Sequence[str], pid: int, script: str, environment: dict[str, str]) -> None:
        done = subprocess.run(
            ["nsenter", f"--target={pid}", "--net", *namespaces, "sh", "-ec", script],
            capture_output=True, text=True, check=False, timeout=NS_LIMIT_S, env={**os.environ, **environment},
        )  # fmt: skip
        if done.returncode != 0:
            raise RunError(f"the fault could not be injected: {done.stderr.strip()[-500:]}")

    def _emulator(self) -> int:
        found = self.processes("emulator")
        if not found:
            raise RunError("the fault could not be injected: there is no emulation")
        return found[0]

    def _shell(self, host: str) -> int:
        for pid, line in descendants(os.getpid()).items():
            if line.endswith(f"mininet:{host}"):
                return pid
        raise RunError(f"the fault could not be injected: there is no host {host}")


class Saboteur(Protocol):
    """Does its work as an experiment gets on, in the process that carries it out."""

    def hear(self, progress: Progress, world: World) -> None:
        """Is told of all progress."""

    def close(self) -> None:
        """The experiment is over: undo what the end of its world does not."""


class Nobody:
    """Leaves a run in peace."""

    def hear(self, progress: Progress, world: World) -> None:
        del progress, world

    def close(self) -> None:
        pass


class BusyLoops:
    """Loops that take processors away during every run, `loops` of them (0: two for each processor), at a niceness."""

    def __init__(self, loops: int, niceness: int, argv: Sequence[str] = SPIN) -> None:
        self._loops = loops or 2 * (os.cpu_count() or 1)
        self._niceness = niceness
        self._argv = argv
        self._processes: list[subprocess.Popen[bytes]] = []

    def hear(self, progress: Progress, world: World) -> None:
        del world
        if isinstance(progress, IterationBegun):
            if not self._processes:
                self._processes = [self._start() for _ in range(self._loops)]
        else:
            self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._argv)
        os.setpriority(os.PRIO_PROCESS, process.pid, self._niceness)
        return process

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes = []


class Thieves(BusyLoops):
    """Take every processor away for `stolen_s` and leave it for `left_s`, in turns, as a host of virtual machines does.

    Nothing here goes before them.
    """

    def __init__(self, stolen_s: float, left_s: float) -> None:
        super().__init__(os.cpu_count() or 1, 0, (*SPIN[:-1], _STEAL.format(stolen_s=stolen_s, left_s=left_s)))

    def _start(self) -> subprocess.Popen[bytes]:
        process = super()._start()
        os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(1))
        return process


class SlowLink:
    """A link from a switch carries less than it declares: from before links are calibrated, or from each run's begin."""

    def __init__(self, link: tuple[str, str], *, before_calibration: bool) -> None:
        self._ends = link
        self._before = before_calibration
        self._keeper: subprocess.Popen[bytes] | None = None

    def hear(self, progress: Progress, world: World) -> None:
        command = _slower(world.network, self._ends)
        if self._before and isinstance(progress, Calibrating):
            # Calibration sets the rate of all links once, when it has chosen their burst.
            self._keeper = world.spawn(f"while sleep {AGAIN_S}; do {command} || exit; done")
        elif not self._before and isinstance(progress, Running):
            world.switches(command)

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()


class MarksStripped:
    """A rule in every switch clears the mark of all data: from the first run's begin, or from its second iteration on."""

    def __init__(self, *, mid_run: bool) -> None:
        self._mid_run = mid_run

    def hear(self, progress: Progress, world: World) -> None:
        if isinstance(progress, Running):
            world.switches(_no_rules(world) if self._mid_run else _rules(world, "tcp_dst"))
        elif self._mid_run and isinstance(progress, IterationBegun) and progress.iteration == 1:
            world.switches(_rules(world, "tcp_dst"))

    def close(self) -> None:
        pass


class AcknowledgementsUnmarked:
    """Acknowledgements are as if receivers had not marked them: in the last class, in their hosts and in switches."""

    def __init__(self) -> None:
        self._done = False

    def hear(self, progress: Progress, world: World) -> None:
        if self._done or not isinstance(progress, Running):
            return
        self._done = True
        world.switches(_rules(world, "tcp_src"))
        for host in world.network.hosts:
            world.host(host, _control_to_last_class(f"{host}-eth0"))

    def close(self) -> None:
        pass


class CapturesDropped:
    """Captures have hardly a buffer, and stand still for a second of every run."""

    def __init__(self) -> None:
        self._before = os.environ["PATH"]
        self._folder = Path(tempfile.mkdtemp(prefix="echelon-sabotage-"))
        program = self._folder / "tcpdump"
        program.write_text(_SHIM.format(real=shutil.which("tcpdump"), buffer_kib=LEAST_BUFFER_KIB))
        program.chmod(0o755)
        os.environ["PATH"] = f"{self._folder}{os.pathsep}{self._before}"

    def hear(self, progress: Progress, world: World) -> None:
        if not isinstance(progress, IterationBegun) or progress.iteration != 0:
            return
        captures = world.processes("capture")
        for number, wait_s in ((signal.SIGSTOP, STOPPED_S), (signal.SIGCONT, 0.0)):
            for pid in captures:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(wait_s)

    def close(self) -> None:
        os.environ["PATH"] = self._before
        shutil.rmtree(self._folder)


def _link(network: Network, ends: tuple[str, str]) -> Link:
    return next(link for link in network.links if (link.src, link.dst) == ends)


def _slower(network: Network, ends: tuple[str, str]) -> str:
    """The command that lets a link carry less: its own class alone, which those of the flows borrow from."""
    link = _link(network, ends)
    rate, burst = round(link.rate_bps * SLOW_SHARE), round(link.rate_bps * SLOW_SHARE / 8 * SLOW_BURST_S)
    return (
        f"tc class change dev {interface_name(network, link)} parent 1: classid 1:1 htb "
        f"rate {rate}bit ceil {rate}bit burst {burst} cburst {burst}"
    )


def _rules(world: World, field: str) -> str:
    """Commands that have every switch clear the mark of what has a port of receivers as `field`."""
    lines = [
        f"cookie={COOKIE},table=0,priority={RULE_PRIORITY},tcp,{field}={port},actions=set_field:0->ip_dscp,goto_table:1"
        for port in range(DATA_PORT, DATA_PORT + MOST_RUNS)
    ]
    flows = "\n".join(["<<'.'", *lines, "."])
    return "\n".join(f"ovs-ofctl -O OpenFlow13 add-flows {switch} - {flows}" for switch in world.network.switches)


def _no_rules(world: World) -> str:
    """Commands that take these rules back."""
    return "\n".join(
        f"ovs-ofctl -O OpenFlow13 del-flows {switch} cookie={COOKIE}/-1" for switch in world.network.switches
    )


def _control_to_last_class(interface: str) -> str:
    """Commands by which the queues of a host take what is marked as control for the last class."""
    first = f"filter add dev {interface} parent 1: "
    lines = [line for line in queues.tree_lines(interface, 1e6, 1500, 1500) if line.startswith(first)]
    last = lines[DEFAULT_CLASS].partition("flowid ")[2]
    lines[CONTROL_CLASS] = f"{lines[CONTROL_CLASS].partition('flowid ')[0]}flowid {last}"
    return "\n".join([f"tc filter del dev {interface} parent 1: prio 1", *(f"tc {line}" for line in lines)])
