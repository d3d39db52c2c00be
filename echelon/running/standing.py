"""The standing parts of an emulation, which outlive single runs: Open vSwitch, network, controller, and the line to it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from controller import planner_process
from controller.launch import controller_argv
from echelon.running.coordinator_line import CoordinatorLine
from echelonflow.errors import RunError
from echelonflow.model.dag import Job
from echelonflow.model.faults import Crash, LinkDown
from echelonflow.records.assignment import Assignment
from echelonflow.records.folder import RunFolder
from echelonflow.records.network_file import write_network
from echelonflow.records.tokens_file import RUNNER, make_tokens, write_tokens
from echelonflow.scheduling.own_policy.process import LONGEST_LOAD_S
from echelonflow.wire.messages import Begin
from testbed import processes
from testbed.class_meter import Carried, ClassMeter
from testbed.mininet_network import EmulatedNetwork
from testbed.openvswitch import PrivateOpenVSwitch

BEGIN_LIMIT_S = max(LONGEST_LOAD_S, planner_process.START.wall_s) + 10.0
"""For a run to begin, which loads its policy: a user's takes a process, and so does looking ahead."""
START_LIMIT_S = 60.0
"""For the controller and the switches to be there, on a machine that is slow and has compiled nothing yet."""
END_LIMIT_S = 3.0
"""For the controller to end when it is asked to."""


FIRST = ("nice", "-n", "-10")
"""Who goes before other work on the machine. Agents: their sleeps stand for computation, and must end in time. The
controller: whole hosts wait for what it decides, and it sleeps most of the time.
"""


class WorldError(RunError):
    """A part that all runs share has died: what is left to do needs a fresh world."""


@dataclass
class Standing:
    """An emulated network with its controller, ready for one run after the other."""

    folder: RunFolder
    assignment: Assignment
    jobs: tuple[Job, ...]
    ovs: PrivateOpenVSwitch
    net: EmulatedNetwork
    controller: subprocess.Popen[bytes]
    line: CoordinatorLine
    tokens: Mapping[str, str]
    """By which the agent of each host proves to the controller that it is it."""
    read_links: Callable[[], Carried] | None = None
    """Where somebody watches: what links have carried so far."""
    controller_away: bool = False
    """Whether the controller was killed as planned, and there is no other that knows of the run."""

    def check(self) -> None:
        """Raise WorldError, naming the log to read, if one of these parts has died though nobody planned that."""
        if not self.controller_away:
            check_controller(self.controller)
        if not self.ovs.alive():
            raise WorldError("Open vSwitch died; see logs/ovs-vswitchd.log")
        try:
            self.net.check()
        except RunError as error:
            raise WorldError(str(error)) from None

    def kill_controller(self) -> None:
        """End the controller at once, as planned: it has no time to say or write anything."""
        self.controller_away = True
        self.controller.kill()
        self.controller.wait()

    def end_controller(self) -> None:
        """End the line to the controller, and the controller in order."""
        self.line.close()
        processes.end(self.controller, END_LIMIT_S)

    def start_controller(self, limit_s: float, resume: Begin | None = None) -> None:
        """Start a controller in place of one that was killed; with `resume` in mid-run, which it then knows of.

        Switches keep their rules meanwhile. Raises WorldError where it does not come up within `limit_s`.
        """
        process = self.controller = _start_controller(self.folder, self.assignment, keep_rules=resume is not None)
        self.line.close()
        self.line = CoordinatorLine(
            self.folder.control_socket, limit_s, lambda: check_controller(process), self.tokens[RUNNER]
        )
        # Switches first: agents that were told to go on before would be decided for, and their packets not.
        self.line.wait_for("switches", limit_s, lambda: check_controller(process))
        if resume is not None:
            self.line.send(resume)
            self.line.wait_for("begun", limit_s, lambda: check_controller(process))
        self.controller_away = False


def check_controller(process: subprocess.Popen[bytes]) -> None:
    """Raise WorldError, naming the logs to read, if the controller has died."""
    if process.poll() is not None:
        raise WorldError(f"the controller died (exit {process.returncode}); see logs/controller.log and controller.out")


def _start_controller(
    folder: RunFolder, assignment: Assignment, *, keep_rules: bool = False
) -> subprocess.Popen[bytes]:
    log_file = folder.logs / "controller.log"
    argv = controller_argv(
        assignment.framework,
        folder.network,
        folder.control_socket,
        log_file,
        tokens=folder.tokens,
        keep_rules=keep_rules,
        confirm_rules=assignment.confirm_rules,
    )
    with (folder.logs / "controller.out").open("ab") as log:
        return subprocess.Popen([*FIRST, *argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def standing(folder: RunFolder, assignment: Assignment) -> Iterator[Standing]:
    """Open vSwitch, controller and network, connected to each other."""
    network = assignment.network
    write_network(folder.network, network)
    with contextlib.ExitStack() as stack:
        tokens = make_tokens(network.hosts)
        stack.callback(folder.tokens.unlink, missing_ok=True)
        write_tokens(folder.tokens, tokens)
        controller = _start_controller(folder, assignment)
        stack.callback(processes.end, controller, END_LIMIT_S)
        ovs = stack.enter_context(PrivateOpenVSwitch(folder.root, folder.logs, assignment.datapath, assignment.tso))
        breaks = any(isinstance(fault, LinkDown | Crash) for fault in assignment.faults)
        net = stack.enter_context(
            EmulatedNetwork(network, ovs, congestion_control=assignment.congestion_control, lossless=not breaks)
        )
        line = CoordinatorLine(
            folder.control_socket, START_LIMIT_S, lambda: check_controller(controller), tokens[RUNNER]
        )
        jobs = tuple(placed.job() for placed in assignment.jobs)
        meter = stack.enter_context(ClassMeter(net)) if assignment.watched else None
        read_links = None if meter is None else meter.read
        parts = Standing(folder, assignment, jobs, ovs, net, controller, line, tokens, read_links)
        # Whichever there are then: a planned fault may have put others in their place.
        stack.callback(parts.end_controller)
        line.wait_for("switches", START_LIMIT_S, parts.check)
        yield parts
