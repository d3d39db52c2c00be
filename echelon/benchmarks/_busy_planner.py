"""What a decision takes in the foreground while the planner is busy beside: a coordinator with 1,000 flows in flight, and no network."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from controller.asking import ask
from controller.coordinator import START_DELAY_S, Coordinator
from controller.fabric import KnownFabric
from controller.instructions import AskPlanner, AskPolicy, Instruction, LogDecision
from controller.planner_process import PlannerError, PlannerProcess
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.network import Network
from echelonflow.records.events import ClientSaid, PlannerPrepared, RoundOver, SwitchReady
from echelonflow.scheduling import kernels
from echelonflow.scheduling.own_policy.child import wait_here
from echelonflow.scheduling.planning import PlanMade
from echelonflow.wire.declare import declarations
from echelonflow.wire.graph import graph_of
from echelonflow.wire.messages import Begin, Finish, Hello, Message, Ready, Release

JOBS, RANKS = 4, 18
"""Each sends from every rank to every other: 1,224 flows in all."""
DECISIONS = 200
LEAST_FLOWS = 1_000
BUDGET_S = 60.0
_BYTES = 25_000_000


class Took(NamedTuple):
    """How long one decision took, from the message that asked for it to its instructions: of the processor, and on the wall."""

    cpu_ms: float
    wall_ms: float


def decisions() -> tuple[list[Took], PlanMade]:
    """What `DECISIONS` decisions took with at least `LEAST_FLOWS` flows in flight while the planner was at work.

    Also a plan that was made before, with a short budget.
    """
    kernels.warm_up()
    network = topologies.build(
        "leaf-spine", {"leaves": 6, "spines": 3, "hosts_per_leaf": 12, "rate_bps": 1e9, "fabric_rate_bps": 4e9}
    )
    jobs = [_job(f"job{i}", network.hosts[i * RANKS : (i + 1) * RANKS]) for i in range(JOBS)]
    driven = _Driven(network, jobs)
    asked = driven.release_all()
    planner = PlannerProcess(wait_here)
    with contextlib.closing(planner):
        made = planner.ask(asked.asked, asked.jobs, asked.network)
        endless = driven.question(asked, tries=10_000, budget_s=BUDGET_S)
        busy = threading.Thread(target=_plan, args=(planner, endless), daemon=True)
        busy.start()
        time.sleep(0.5)  # it has heard the question by then
        found = list(driven.decisions())
        planner.kill()
        busy.join()
    return found, made


def _plan(planner: PlannerProcess, asked: AskPlanner) -> None:
    with contextlib.suppress(PlannerError):
        planner.ask(asked.asked, asked.jobs, asked.network)


def _job(name: str, hosts: Sequence[str]) -> Job:
    """Computes, then sends from all ranks to all others, again and again."""
    ranks = range(len(hosts))
    computes = [Compute(f"c{rank}", rank, 0.05) for rank in ranks]
    flows = [Transfer(f"{a}-{b}", a, b, _BYTES, "all", (f"c{a}",)) for a in ranks for b in ranks if a != b]
    names = tuple(flow.name for flow in flows)
    again = tuple((flow.name, f"c{flow.dst_rank}") for flow in flows)
    group = Group("all", "all-to-all", names, (0.0,) * len(names))
    return Job(name, JobDag(len(hosts), (*computes, *flows), (group,), again), tuple(hosts), 1000)


class _Driven:
    """A coordinator under `lookahead`, told what agents would say; its zero is 0."""

    def __init__(self, network: Network, jobs: Sequence[Job]) -> None:
        self._coordinator = Coordinator(KnownFabric(network))
        self._agents = {host: number for number, host in enumerate(network.hosts, start=10)}
        self._groups = declarations(jobs, network=network)
        for switch in network.switches:
            self._coordinator.handle(SwitchReady(switch), -1.0)
        begin = Begin("r", "lookahead(budget=1)", "priority", len(self._agents), "")
        self._say(1, Hello("runner", ""), begin)
        self._coordinator.handle(PlannerPrepared(), -START_DELAY_S)
        for host, client in self._agents.items():
            self._say(client, Hello("agent", host))
        for group in self._groups:
            self._say(self._agents[group.flows[0].src_host], group)
        for job in jobs:
            self._say(self._agents[job.placement[0]], graph_of(job))
        for client in self._agents.values():
            self._say(client, Ready())
        self._now_s = 0.05
        self._flows = [(group.job, flow) for group in self._groups for flow in group.flows]

    def _say(self, client: int, *messages: Message, now_s: float = -START_DELAY_S) -> None:
        for message in messages:
            self._coordinator.handle(ClientSaid(client, message), now_s)

    def release_all(self) -> AskPlanner:
        """All flows of the first iteration are released; returns what the planner is asked."""
        for job, flow in self._flows:
            self._say(self._agents[flow.src_host], Release(job, flow.flow, 0, self._now_s), now_s=self._now_s)
        asked = [each for each in self._decide() if isinstance(each, AskPlanner)]
        while not asked:
            asked = [each for each in self._end_one() if isinstance(each, AskPlanner)]
        return asked[0]

    def question(self, asked: AskPlanner, *, tries: int, budget_s: float) -> AskPlanner:
        """The same question with more to try."""
        return AskPlanner(
            msgspec.structs.replace(asked.asked, tries=tries, budget_s=budget_s), asked.jobs, asked.network
        )

    def decisions(self) -> Iterator[Took]:
        """Flow after flow ends: how long each decision takes."""
        for _ in range(DECISIONS):
            assert len(self._flows) > LEAST_FLOWS
            cpu_s, wall_s = time.thread_time(), time.perf_counter()
            decided = self._end_one()
            took = Took((time.thread_time() - cpu_s) * 1e3, (time.perf_counter() - wall_s) * 1e3)
            assert any(isinstance(each, LogDecision) for each in decided)
            yield took

    def _end_one(self) -> list[Instruction]:
        job, flow = self._flows.pop()
        self._now_s += 0.06
        self._say(self._agents[flow.dst_host], Finish(job, flow.flow, 0, self._now_s), now_s=self._now_s)
        return self._decide()

    def _decide(self) -> list[Instruction]:
        out = self._coordinator.handle(RoundOver(), self._now_s)
        for each in [each for each in out if isinstance(each, AskPolicy)]:
            out = [*out, *self._coordinator.handle(ask(each.question), self._now_s)]
        return out
