"""The standing parts of an emulation, which outlive single runs: Open vSwitch, network, controller, and the line to it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from controller.launch import controller_argv
from echelon.running.coordinator_line import CoordinatorLine
from echelonflow.errors import RunError
from echelonflow.model.dag import Job
from echelonflow.records.assignment import Assignment
from echelonflow.records.folder import RunFolder
from echelonflow.records.network_file import write_network
from echelonflow.scheduling.own_policy.process import LONGEST_LOAD_S
from testbed.mininet_network import EmulatedNetwork
from testbed.openvswitch import PrivateOpenVSwitch

BEGIN_LIMIT_S = LONGEST_LOAD_S + 10.0
"""For a run to begin, which loads its policy: a user's takes a process."""
START_LIMIT_S = 60.0
"""For the controller and the switches to be there, on a machine that is slow and has compiled nothing yet."""


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

    def check(self) -> None:
        """Raise WorldError, naming the log to read, if one of these parts has died."""
        check_controller(self.controller)
        if not self.ovs.alive():
            raise WorldError("Open vSwitch died; see logs/ovs-vswitchd.log")


def check_controller(process: subprocess.Popen[bytes]) -> None:
    """Raise WorldError, naming the logs to read, if the controller has died."""
    if process.poll() is not None:
        raise WorldError(f"the controller died (exit {process.returncode}); see logs/controller.log and controller.out")


@contextlib.contextmanager
def _controller(folder: RunFolder, framework: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = controller_argv(framework, folder.network, folder.control_socket, folder.logs / "controller.log")
    with (folder.logs / "controller.out").open("ab") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(3.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def standing(folder: RunFolder, assignment: Assignment) -> Iterator[Standing]:
    """Open vSwitch, controller and network, connected to each other."""
    network = assignment.network
    write_network(folder.network, network)
    with contextlib.ExitStack() as stack:
        controller = stack.enter_context(_controller(folder, assignment.framework))
        ovs = stack.enter_context(PrivateOpenVSwitch(folder.root, folder.logs, assignment.datapath, assignment.tso))
        net = stack.enter_context(EmulatedNetwork(network, ovs, congestion_control=assignment.congestion_control))
        line = CoordinatorLine(folder.control_socket, START_LIMIT_S, lambda: check_controller(controller))
        stack.callback(line.close)
        jobs = tuple(placed.job() for placed in assignment.jobs)
        parts = Standing(folder, assignment, jobs, ovs, net, controller, line)
        line.wait_for("switches", START_LIMIT_S, parts.check)
        yield parts
