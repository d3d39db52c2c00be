"""What planned faults do to an emulated run: to its links, its agents and its controller."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from echelon.running.standing import BEGIN_LIMIT_S, Standing
from echelonflow.model.faults import Crash, ended_jobs
from echelonflow.model.network import Link
from echelonflow.records.assignment import AssignedRun
from echelonflow.records.folder import RunFiles
from echelonflow.wire.messages import Begin, HostDown
from testbed import faults


@dataclass
class StruckRun:
    """One run, whose zero is at `zero_s` of the monotonic clock, as its faults see it (`planned_faults.Target`)."""

    parts: Standing
    assigned: AssignedRun
    files: RunFiles
    zero_s: float
    agents: dict[str, subprocess.Popen[bytes]]
    crashed: set[str] = field(default_factory=set)
    """Hosts whose agents are dead as planned."""
    _restarts: int = 0

    def set_share(self, links: Sequence[Link], share: float) -> None:
        faults.set_share(self.parts.net, links, share)

    def set_up(self, links: Sequence[Link], *, up: bool) -> None:
        faults.set_up(self.parts.net, links, up=up)

    def crash(self, host: str) -> None:
        """The coordinator is told before, since it would take the agent for lost."""
        parts = self.parts
        self.crashed.add(host)
        if not parts.controller_away:
            self._tell_of_death(host)
        network = parts.net.network
        faults.set_up(parts.net, [link for link in network.links if host in (link.src, link.dst)], up=False)
        self.agents[host].kill()
        self.agents[host].wait()

    def _tell_of_death(self, host: str) -> None:
        crash = Crash(at_s=0.0, host=host)
        self.parts.line.send(HostDown(host, tuple(ended_jobs([crash], self.parts.jobs))))

    def stop_controller(self) -> None:
        self.parts.kill_controller()

    def restart_controller(self) -> None:
        """The new one keeps the switches' rules, and is told of the run; its logs lie beside those of the one before."""
        self._restarts += 1
        files = self.files.restart(self._restarts)
        files.root.mkdir(parents=True, exist_ok=True)
        left = sum(agent.poll() is None for agent in self.agents.values())
        assigned, name, decisions = self.assigned, self.files.root.name, self.parts.assignment.decisions
        begin = Begin(
            name,
            assigned.policy,
            assigned.enforcer,
            left,
            str(files.decisions),
            self.zero_s,
            decisions=decisions,
            queues=self.parts.net.queue_sizes,
        )
        self.parts.start_controller(BEGIN_LIMIT_S, begin)
        for host in sorted(self.crashed):  # while there was nobody to be told
            self._tell_of_death(host)
