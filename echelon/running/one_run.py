"""One emulated run, inside the private world: captures and agents, watched to its end, and what it left."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from controller import enforcers
from echelon.running import live_programs
from echelon.running.link_readings import LinkReadings, TellLinks
from echelon.running.planned_faults import FaultInjector
from echelon.running.standing import BEGIN_LIMIT_S, FIRST, START_LIMIT_S, Standing, WorldError
from echelon.running.struck_run import StruckRun
from echelonflow.child_process import module_argv
from echelonflow.errors import RunError
from echelonflow.files import refusal
from echelonflow.records.agent_log import last_iteration
from echelonflow.records.assignment import AssignedRun
from echelonflow.records.folder import RunFiles
from echelonflow.records.live_part import READY_LIMIT_S as LIVE_READY_LIMIT_S
from echelonflow.records.live_part import LivePart
from echelonflow.records.outcome import INTERRUPTED, Classes, ClockReading, RunOutcome, write_outcome
from echelonflow.records.plan import write_plan
from echelonflow.records.tokens_file import with_token
from echelonflow.wire.line import CoordinatorGoneError
from echelonflow.wire.messages import Begin, End
from testbed.capture import PacketCapture
from testbed.load import LoadSampler
from testbed.processes import end_within
from traffic.agent.plan import make_plan

READY_LIMIT_S = 30.0
"""For agents to have opened their connections."""
AGENTS_END_LIMIT_S = 5.0
"""For all of them together, after they have said that they are done."""
AGENTS_FAIL_LIMIT_S = 1.0
"""To say why, where the run has failed: whoever interrupted it waits."""
LOOK_S = 0.05
"""How often agents are looked at where faults are planned."""
WATCH_S = 0.5
"""How often the progress of a run is looked at."""
CAUSE_SEEN_S = 2.0
"""How long a process that was killed may take to be seen dead, after others have lost their connection to it."""
SETTLE_LIMIT_S = 10.0
"""For the coordinator to drop a run that has failed."""

IterationBegun = Callable[[int], None]
"""Is told when the first host enters an iteration."""


def carry_out(
    parts: Standing, assigned: AssignedRun, on_iteration: IterationBegun, on_links: TellLinks = lambda _: None
) -> float:
    """Carry out one run; its raw records are on disk afterwards, also when it fails (EchelonError).

    `on_links` is told what links have carried, where somebody watches. Returns the share of the processors that the host took away meanwhile. WorldError where no other run can follow.
    """
    outcome = RunOutcome(
        policy=assigned.policy,
        repeat=assigned.repeat,
        run_index=assigned.run_index,
        label=assigned.label,
        enforcer=assigned.enforcer,
        clock=[_clocks()],
    )
    files = parts.folder.run(outcome.label)
    try:
        with _refusals_named():
            _fresh(files)
            OneRun(parts, assigned, files, outcome, on_iteration, on_links).replay()
        outcome.completed = True
    except BaseException as error:
        outcome.failure = INTERRUPTED if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__
        raise
    finally:
        outcome.clock.append(_clocks())
        write_outcome(files.outcome, outcome)
    assert outcome.load is not None
    return outcome.load.cpu_stolen


@contextlib.contextmanager
def _refusals_named() -> Iterator[None]:
    """What the machine refuses (a full disk, no descriptors, no memory for a process) fails the run by its reason."""
    try:
        yield
    except OSError as error:
        raise RunError(refusal(error)) from error


def _fresh(files: RunFiles) -> None:
    """The run's folder, without what an earlier try of the same run left."""
    if files.root.exists():
        shutil.rmtree(files.root)
    files.agents.mkdir(parents=True)


class OneRun:
    """The parts that one run has of its own: captures, agents, and the sampling of load."""

    def __init__(
        self,
        parts: Standing,
        assigned: AssignedRun,
        files: RunFiles,
        outcome: RunOutcome,
        on_iteration: IterationBegun = lambda _: None,
        on_links: TellLinks = lambda _: None,
    ) -> None:
        self.parts = parts
        self.assigned = assigned
        self.files = files
        self.outcome = outcome
        self.on_iteration = on_iteration
        self.on_links = on_links
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.programs: dict[str, tuple[LivePart, Path]] = {}
        """Training programs by their hosts, and what each prints: their processes are among the agents."""
        self.capture: PacketCapture | None = None
        self.struck: StruckRun | None = None
        """What planned faults do to the run; None before its zero."""
        self.before: Classes = {}
        """What queues had sent before the run."""

    def replay(self) -> None:
        """From the plan to the end; raises RunError for what fails it. `outcome` has what was counted in any case."""
        parts, assigned = self.parts, self.assigned
        network = parts.assignment.network
        plan = make_plan(
            parts.jobs,
            network,
            assigned.run_index,
            parts.assignment.progress_interval_s,
            faults=parts.assignment.faults,
            repeat=assigned.repeat,
            queues=parts.net.queue_sizes,
        )
        write_plan(self.files.plan, plan)
        hosts = [h for h in network.hosts if any(h in job.placement for job in parts.jobs)]
        self.before = parts.net.counters_at_rest()
        capture = self.capture = PacketCapture(parts.net, hosts, parts.folder, self.outcome.label)
        sampler = LoadSampler(parts.ovs.vswitchd_pid)
        try:
            self._from_begin_to_end(hosts)
        except Exception as error:
            self._wind_up(capture, sampler)
            self._settle(error)
            raise
        except BaseException:  # interrupted: the world ends, and whoever did it waits
            self._wind_up(capture, sampler)
            raise
        faults = self._wind_up(capture, sampler)
        if faults:
            raise RunError(faults[0])

    def _wind_up(self, capture: PacketCapture, sampler: LoadSampler) -> list[str]:
        """End what is left of the run and count; returns what went wrong with that, and raises nothing."""
        self.outcome.load = sampler.stop()
        self._end_agents(AGENTS_FAIL_LIMIT_S)
        self.outcome.captures, faults = capture.stop()
        try:
            self.outcome.classes = _difference(self.parts.net.class_counters(), self.before)
        except RunError as error:
            faults.append(str(error))
        except OSError as error:
            faults.append(refusal(error))
        if enforcers.name_of(self.assigned.enforcer) == enforcers.WEIGHTED:
            # Whoever weighed classes may be gone, and the next run is to find them in order.
            try:
                self.parts.net.restore_order()
            except RunError as error:
                faults.append(str(error))
        return faults

    def _settle(self, cause: Exception) -> None:
        """Have the coordinator drop the run that failed; WorldError where it cannot, so that no other can follow."""
        if isinstance(cause, WorldError) or self.parts.controller_away:
            return
        try:
            self.parts.line.settle(SETTLE_LIMIT_S)
        except RunError as error:
            raise WorldError(f"{cause}; after that, {error}") from cause

    def _from_begin_to_end(self, hosts: list[str]) -> None:
        assigned, files = self.assigned, self.files
        if self.parts.controller_away:  # killed as planned in the run before, and not needed until now
            self.parts.start_controller(START_LIMIT_S)
        line = self.parts.line
        decisions = self.parts.assignment.decisions
        begin = Begin(
            self.outcome.label,
            assigned.policy,
            assigned.enforcer,
            len(hosts),
            str(files.decisions),
            decisions=decisions,
            queues=self.parts.net.queue_sizes,
        )
        line.send(begin)
        # A user's policy takes a moment to load, and agents that came before that would be refused.
        line.wait_for("begun", BEGIN_LIMIT_S, self.check)
        self._start_agents(hosts)
        ready_limit_s = LIVE_READY_LIMIT_S if self.parts.assignment.programs else READY_LIMIT_S
        ready = line.wait_for("ready", ready_limit_s, self.check)
        zero_s = self.outcome.zero_monotonic_s = float(ready.detail)
        if self.parts.assignment.programs:  # which have warmed up, with packets that do not count
            self.before = self.parts.net.class_counters()
        limit_s, watch = assigned.expected_s * 3 + 30.0, _Watch(self, files.agent(hosts[0]))
        if self.parts.assignment.faults:
            self._under_faults(zero_s, limit_s, watch)
        else:
            line.wait_for("done", limit_s, watch)
        has_programs = bool(self.parts.assignment.programs)
        failed = self._end_agents(live_programs.END_LIMIT_S if has_programs else AGENTS_END_LIMIT_S)
        if not self.parts.controller_away:
            self.parts.line.send(End())
            self.parts.line.wait_for("ended", 10.0, self.parts.check)
        if failed:
            raise RunError(self._died(failed))

    def _under_faults(self, zero_s: float, limit_s: float, watch: Callable[[], None]) -> None:
        """Carry planned faults out until all agents have ended: no coordinator may be there to say so."""
        struck = self.struck = StruckRun(self.parts, self.assigned, self.files, zero_s, self.agents)
        injector = FaultInjector(self.parts.assignment.faults, self.parts.assignment.network, struck, zero_s)
        injector.start()
        deadline_s = time.monotonic() + limit_s
        try:
            while any(agent.poll() is None for agent in self.agents.values()):
                watch()
                injector.check()
                self._hear()
                if time.monotonic() > deadline_s:
                    raise RunError(f"waited {limit_s:.0f} s in vain for the agents to end")
                time.sleep(LOOK_S)
        finally:
            self.outcome.faults = injector.end()
        injector.check()

    def _hear(self) -> None:
        """What the coordinator says of the run, if there is one."""
        parts = self.parts
        if parts.controller_away:
            return
        try:
            parts.line.hear(self.check, set() if self.struck is None else self.struck.crashed)
        except CoordinatorGoneError:
            if not parts.controller_away:  # it has been killed this moment
                raise

    def check(self) -> None:
        """Raise RunError, naming the log to read, if a process that must live has died."""
        self.parts.check()
        dead = self._dead_agents()
        until_s = time.monotonic() + CAUSE_SEEN_S
        # Agents that lost a connection end by themselves (exit 1), and may be seen to before what they lost is. One that
        # was killed (a negative code) is the cause.
        while dead and min(dead.values()) > 0 and time.monotonic() < until_s:
            time.sleep(0.02)
            self.parts.check()
            dead = self._dead_agents()
        if dead:
            raise RunError(self._died(dead))
        if self.capture is not None:
            self.capture.check()

    def _dead_agents(self) -> dict[str, int]:
        """Exit codes of the agents that have failed, by host."""
        planned = set() if self.struck is None else self.struck.crashed
        living = {host: agent for host, agent in self.agents.items() if host not in planned}
        return {host: code for host, agent in living.items() if (code := agent.poll()) not in (None, 0)}

    def _died(self, dead: dict[str, int]) -> str:
        """Whose end it was: that of the agent, or the program, which was killed if one was."""
        host = min(dead, key=lambda host: dead[host])
        if host in self.programs:
            return live_programs.ended(*self.programs[host], dead[host], self.parts.folder.root)
        return f"the agent on {host} died (exit {dead[host]}); see logs/agent-{host}.log"

    def _start_agents(self, hosts: list[str]) -> None:
        folder = self.parts.folder
        self.programs = live_programs.run_parts(self.parts, self.files)
        started = live_programs.start(self.parts, self.programs)
        self.agents |= started
        for host in hosts:
            if host in started:
                continue
            with (folder.logs / f"agent-{host}.log").open("ab") as log:
                self.agents[host] = self.parts.net.popen(
                    host,
                    [
                        *FIRST,
                        *module_argv(
                            "traffic.agent", "--plan", str(self.files.plan), "--host", host,
                            "--socket", str(folder.control_socket), "--records", str(self.files.agent(host)),
                        ),
                    ],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=with_token(self.parts.tokens[host]),
                )  # fmt: skip

    def _end_agents(self, limit_s: float) -> dict[str, int]:
        """Wait for their ends, and kill those that are left after `limit_s`; returns what `_dead_agents` says of the others."""
        killed = end_within(self.agents.values(), limit_s)
        dead = {host: code for host, code in self._dead_agents().items() if self.agents[host] not in killed}
        self.agents.clear()
        return dead


class _Watch:
    """Called while a run goes on: checks that all live, and says when the first host enters an iteration.

    Where somebody watches, it also says what links carry.
    """

    def __init__(self, run: OneRun, log: Path) -> None:
        self._run = run
        self._log = log
        self._iteration = -1
        read = run.parts.read_links
        self._links = None if read is None else LinkReadings(read, run.on_links)
        self._due_s = time.monotonic() + WATCH_S

    def __call__(self) -> None:
        self._run.check()
        if self._links is not None:
            self._links.look()
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + WATCH_S
        iteration = last_iteration(self._log)
        if iteration is not None and iteration > self._iteration:
            self._iteration = iteration
            self._run.on_iteration(iteration)


def _clocks() -> ClockReading:
    return ClockReading(time.monotonic(), time.time())


def _difference(after: Classes, before: Classes) -> Classes:
    """Counters of a run: those after it less those before it."""
    return {
        interface: {number: counters.since(before[interface][number]) for number, counters in classes.items()}
        for interface, classes in after.items()
    }
