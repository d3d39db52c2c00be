"""What happens inside the private world: `python -m echelon.running.emulator DIR`.

Builds the network, starts the controller, calibrates, then replays every run that `assignment.json`
asks for and leaves its raw records in DIR. Progress goes to standard output, one JSON object a line. It is
process 1 of its world: when it ends, however it ends, the kernel ends everything that it started.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from controller.launch import controller_argv
from echelon.running.coordinator_line import CoordinatorLine
from echelonflow.child_process import module_argv
from echelonflow.errors import EXIT_FAILED, EXIT_VALID, EchelonError, RunError
from echelonflow.model.dag import Job
from echelonflow.records.agent_log import last_iteration
from echelonflow.records.assignment import AssignedRun, Assignment, read_assignment
from echelonflow.records.calibration import write_calibration
from echelonflow.records.folder import RunFiles, RunFolder, label
from echelonflow.records.network_file import write_network
from echelonflow.records.outcome import Classes, ClockReading, Load, RunOutcome, write_outcome
from echelonflow.records.plan import write_plan
from echelonflow.records.progress import (
    Building,
    Calibrating,
    Done,
    Failed,
    Interrupted,
    IterationBegun,
    Progress,
    Running,
    Warned,
    progress_line,
)
from echelonflow.wire.messages import Begin, End
from testbed import world
from testbed.calibrator import Calibrator
from testbed.capture import PacketCapture
from testbed.load import LoadSampler
from testbed.mininet_network import EmulatedNetwork
from testbed.openvswitch import PrivateOpenVSwitch
from testbed.processes import end_within
from traffic.agent.plan import make_plan

START_LIMIT_S = 60.0
"""For the controller and the switches to be there, on a machine that is slow and has compiled nothing yet."""
AGENTS_END_LIMIT_S = 5.0
"""For all of them together, after they have said that they are done."""
AGENTS_FAIL_LIMIT_S = 1.0
"""To say why, where the run has failed: whoever interrupted it waits."""
WATCH_S = 0.5
"""How often the progress of a run is looked at."""
CAUSE_SEEN_S = 2.0
"""How long a process that was killed may take to be seen dead, after others have lost their connection to it."""
FIRST = ("nice", "-n", "-10")
"""Agents go before other work on the machine: their sleeps stand for computation, and must end in time."""


def say(report: Progress) -> None:
    """One line of progress for whoever started us."""
    sys.stdout.buffer.write(progress_line(report))
    sys.stdout.buffer.flush()


@dataclass
class Emulation:
    """The standing parts of an emulation: they outlive single runs."""

    folder: RunFolder
    assignment: Assignment
    jobs: tuple[Job, ...]
    ovs: PrivateOpenVSwitch
    net: EmulatedNetwork
    controller: subprocess.Popen[bytes]
    line: CoordinatorLine
    agents: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def check(self) -> None:
        """Raise RunError, naming the log to read, if a process that must live has died."""
        self._check_shared()
        dead = self._dead_agents()
        until_s = time.monotonic() + CAUSE_SEEN_S
        # Agents that lost a connection end by themselves (exit 1), and may be seen to before what they lost is. One that
        # was killed (a negative code) is the cause.
        while dead and min(dead.values()) > 0 and time.monotonic() < until_s:
            time.sleep(0.02)
            self._check_shared()
            dead = self._dead_agents()
        if dead:
            host = min(dead, key=lambda host: dead[host])
            raise RunError(f"the agent on {host} died (exit {dead[host]}); see logs/agent-{host}.log")

    def _check_shared(self) -> None:
        check_controller(self.controller)
        if not self.ovs.alive():
            raise RunError("Open vSwitch died; see logs/ovs-vswitchd.log")

    def _dead_agents(self) -> dict[str, int]:
        """Exit codes of the agents that have failed, by host."""
        return {host: code for host, agent in self.agents.items() if (code := agent.poll()) not in (None, 0)}

    def run(self, assigned: AssignedRun) -> float:
        """Carry out one run; its raw records are on disk afterwards, also when it fails (RunError).

        Returns the share of the processors that the host took away meanwhile.
        """
        outcome = RunOutcome(
            policy=assigned.policy,
            repeat=assigned.repeat,
            run_index=assigned.run_index,
            label=label(assigned.policy, assigned.repeat),
            enforcer=assigned.enforcer,
            clock=[_clocks()],
        )
        files = self.folder.run(outcome.label)
        files.agents.mkdir(parents=True)
        try:
            load = self._replay(assigned, files, outcome)
            outcome.completed = True
        except BaseException as error:
            outcome.failure = str(error) or type(error).__name__
            raise
        finally:
            outcome.clock.append(_clocks())
            write_outcome(files.outcome, outcome)
        return load.cpu_stolen

    def _replay(self, assigned: AssignedRun, files: RunFiles, outcome: RunOutcome) -> Load:
        network = self.assignment.network
        plan = make_plan(
            self.jobs,
            network,
            assigned.run_index,
            self.assignment.progress_interval_s,
            faults=self.assignment.faults,
        )
        write_plan(files.plan, plan)
        hosts = [h for h in network.hosts if any(h in job.placement for job in self.jobs)]
        before = self.net.class_counters()
        capture = PacketCapture(self.net, hosts, self.folder, outcome.label)
        sampler = LoadSampler(self.ovs.vswitchd_pid)
        try:
            self.line.send(Begin(outcome.label, assigned.policy, assigned.enforcer, len(hosts), str(files.decisions)))
            # A user's policy takes a moment to load, and agents that came before that would be refused.
            self.line.wait_for("begun", START_LIMIT_S, self.check)
            self._start_agents(hosts, files)
            ready = self.line.wait_for("ready", 30.0, self.check)
            outcome.zero_monotonic_s = float(ready.detail)
            self.line.wait_for("done", assigned.expected_s * 3 + 30.0, _Watch(self, files.agent(hosts[0])))
            self._end_agents(AGENTS_END_LIMIT_S)
            self.line.send(End())
            self.line.wait_for("ended", 10.0, self.check)
        finally:
            outcome.load = load = sampler.stop()
            self._end_agents(AGENTS_FAIL_LIMIT_S)
            outcome.captures = capture.stop()
            outcome.classes = _difference(self.net.class_counters(), before)
        return load

    def _start_agents(self, hosts: list[str], files: RunFiles) -> None:
        for host in hosts:
            with (self.folder.logs / f"agent-{host}.log").open("ab") as log:
                self.agents[host] = self.net.popen(
                    host,
                    [
                        *FIRST,
                        *module_argv(
                            "traffic.agent", "--plan", str(files.plan), "--host", host,
                            "--socket", str(self.folder.control_socket), "--records", str(files.agent(host)),
                        ),
                    ],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                )  # fmt: skip

    def _end_agents(self, limit_s: float) -> None:
        """Those that have not ended after `limit_s` are killed."""
        end_within(self.agents.values(), limit_s)
        self.agents.clear()


class _Watch:
    """Called while a run goes on: checks that all live, and says when the first host enters an iteration."""

    def __init__(self, emulation: Emulation, log: Path) -> None:
        self._emulation = emulation
        self._log = log
        self._iteration = -1
        self._due_s = time.monotonic() + WATCH_S

    def __call__(self) -> None:
        self._emulation.check()
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + WATCH_S
        iteration = last_iteration(self._log)
        if iteration is not None and iteration > self._iteration:
            self._iteration = iteration
            say(IterationBegun(iteration))


def _clocks() -> ClockReading:
    return ClockReading(time.monotonic(), time.time())


def _difference(after: Classes, before: Classes) -> Classes:
    """Counters of a run: those after it less those before it."""
    return {
        interface: {number: counters.since(before[interface][number]) for number, counters in classes.items()}
        for interface, classes in after.items()
    }


def check_controller(process: subprocess.Popen[bytes]) -> None:
    """Raise RunError, naming the logs to read, if the controller has died."""
    if process.poll() is not None:
        raise RunError(f"the controller died (exit {process.returncode}); see logs/controller.log and controller.out")


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
def standing(folder: RunFolder, assignment: Assignment) -> Iterator[Emulation]:
    """Open vSwitch, controller and network, connected to each other."""
    network = assignment.network
    say(Building(len(network.hosts), len(network.switches)))
    write_network(folder.network, network)
    with contextlib.ExitStack() as stack:
        controller = stack.enter_context(_controller(folder, assignment.framework))
        ovs = stack.enter_context(PrivateOpenVSwitch(folder.root, folder.logs, assignment.datapath, assignment.tso))
        net = stack.enter_context(EmulatedNetwork(network, ovs, congestion_control=assignment.congestion_control))
        line = CoordinatorLine(folder.control_socket, START_LIMIT_S, lambda: check_controller(controller))
        stack.callback(line.close)
        jobs = tuple(placed.job() for placed in assignment.jobs)
        emulation = Emulation(folder, assignment, jobs, ovs, net, controller, line)
        line.wait_for("switches", START_LIMIT_S, emulation.check)
        yield emulation


def _calibrator(emulation: Emulation) -> Calibrator:
    """What keeps the links true; every attempt goes to calibration.json, and what is wrong to whoever started us."""
    assignment, path = emulation.assignment, emulation.folder.calibration
    return Calibrator(
        emulation.net,
        assignment.max_link_error,
        runs_s=sum(run.expected_s for run in assignment.runs),
        tell=lambda words: say(Warned(words)),
        save=lambda calibration: write_calibration(path, calibration),
    )


def _carry_out(emulation: Emulation) -> None:
    """All runs, on links that are measured before the first of them and whenever there is reason to."""
    assignment = emulation.assignment
    calibrator = _calibrator(emulation)
    if assignment.calibrate:
        say(Calibrating(emulation.ovs.datapath, emulation.ovs.tso))
        calibrator.begin()
    for number, run in enumerate(assignment.runs):
        calibrator.before_run(run.run_index)
        say(Running(number, len(assignment.runs), run.policy, run.repeat, run.expected_s))
        calibrator.after_run(run.run_index, emulation.run(run))


def main(argv: list[str]) -> int:
    """Carry out DIR/assignment.json; returns an exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_FAILED))
    folder = RunFolder(Path(argv[0]).resolve())
    world.enter()
    try:
        assignment = read_assignment(folder.assignment)
        with standing(folder, assignment) as emulation:
            _carry_out(emulation)
    except EchelonError as error:
        say(Failed(str(error)))
        return EXIT_FAILED
    except KeyboardInterrupt:
        say(Interrupted())
        return EXIT_FAILED
    say(Done())
    return EXIT_VALID


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
