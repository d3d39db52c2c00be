"""One run's flow books: flows in flight, what is in force for each, and what has happened since the last decision.

Pure: clocks are arguments. Times are seconds since the run's zero, as in the simulator. What is decided on these flows
is in `controller.decision_cycle`; who takes part, and which policy is in force, in `controller.session`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from controller.ahead_books import AheadBooks
from controller.declarations import Declarations
from controller.enforcers import Treatment
from controller.fabric import Fabric
from controller.in_flight import FlowInFlight, Pending, released
from controller.instructions import InstallRules, Instruction, SendTo
from controller.job_books import JobBooks
from controller.rule_book import RuleBook
from controller.told_again import ToldAgain
from controller.weight_book import WeightBook
from echelonflow.errors import InputError
from echelonflow.model.flow_key import FlowKey
from echelonflow.scheduling.flow_windows import FlowWindows
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.classes import DATA_CLASSES, dscp_of_class
from echelonflow.wire.live import JobLive
from echelonflow.wire.messages import (
    Decide,
    Declare,
    Finish,
    FinishAgain,
    JobGraph,
    Progress,
    Queues,
    Release,
    ReleaseAgain,
    Setting,
)
from echelonflow.wire.rest import FlowStatus, GroupStatus

MOST_IN_FLIGHT = 200_000
"""Flows, of all clients."""
MOST_LOOKED_AT = 20_000
"""Flows in flight, for who watches."""
_DATA_MARKS = frozenset(map(dscp_of_class, DATA_CLASSES))


class FlowBooks:
    """Books between `Begin` and `End`; `rules` has what switches know of them. Every method raises InputError, unchanged, for events that do not fit.

    `connected` are the names of the switches that are connected now: it changes as they come and go. `clock` (seconds)
    measures how long decisions take, `number` gives each question a number of its own, `senders` the clients on a host.
    What comes next is decided ahead at once where flows are known `from_the_start`. `queues` says what queues are made for, if
    their weights may be changed.
    """

    def __init__(
        self,
        fabric: Fabric,
        connected: AbstractSet[str],
        clock: Callable[[], float],
        number: Callable[[], int],
        senders: Callable[[str], Sequence[int]],
        *,
        from_the_start: bool = True,
        queues: Queues | None = None,
    ) -> None:
        self._clock = clock
        self._declarations = Declarations()
        self.state = SchedulerState(fabric.network)
        self.flows: dict[FlowKey, FlowInFlight] = {}
        """Those in flight."""
        self.last_finished: dict[tuple[str, str], int] = {}
        """Of each flow the last iteration that finished: one number, however long the run stands."""
        self.rules = RuleBook(fabric, connected, self.state.declaration)
        self.ahead = AheadBooks(self.state, senders, number, clock, from_the_start=from_the_start)
        self.weights = WeightBook(fabric.network, queues, senders)
        self.windows = FlowWindows()
        """Where jobs are that told their graphs."""
        self.jobs = JobBooks()
        """How far and how late jobs are, for who watches."""
        self._told_by: dict[str, int] = {}
        """Who told a job's graph."""
        self._again = ToldAgain()
        self._pending = Pending()

    # Events

    def declare(self, group: Declare, client: int = 0) -> list[InstallRules]:
        """Make a group known; the same declaration again changes nothing. Its job is `client`'s, the first one's.

        Returns what switches have to know of the paths of its flows.
        """
        known = self.state.groups.get((group.job, group.group))
        if known is not None:
            if known.declaration != group:
                raise InputError(f"group {group.group!r} of job {group.job!r} is declared already, and differently")
            return []
        self.ahead.candidates.check(group)
        self._declarations.check(group)
        self.state.declare(group)
        self.ahead.candidates.declare(group)
        self._declarations.add(group, client)
        return self.rules.pin((group.job, flow.flow) for flow in group.flows)

    def tell_graph(self, graph: JobGraph, client: int = 0) -> None:
        """A job says what its steps wait for; the same again changes nothing."""
        if self.windows.tell(graph):
            self._told_by[graph.job] = client

    def release(self, message: Release, client: int, host: str, release_s: float, now_s: float) -> None:
        """A flow's data is ready on its source host since `release_s`; `client` will be told how to send it."""
        self._check_host(message, host, "src_host")
        key = (message.job, message.iteration, message.flow)
        self._release(key, client, release_s, now_s, by=message.by)
        # One that was decided ahead may be over by now, and its receiver's word may have been faster.
        end_s = self._again.take_end(key, self.state.declaration(message.job, message.flow).dst_host)
        if end_s is not None:
            self._end(key, end_s)

    def _release(self, key: FlowKey, client: int, release_s: float, now_s: float, by: int = 0) -> None:
        job, iteration, flow = key
        if iteration < 0:
            raise InputError(f"release of flow {flow!r}: iteration is {iteration}")
        if len(self.flows) >= MOST_IN_FLIGHT:
            raise InputError(
                f"release of flow {flow!r}: {MOST_IN_FLIGHT:,} flows are in flight, as many as there may be"
            )
        self.state.release(key, release_s)
        index = self.state.declaration(job, flow).index
        self.windows.release(job, iteration, index, release_s)
        self.jobs.release(job, iteration, release_s)
        told = self.ahead.release(key, client, index)
        self.flows[key] = released(client, now_s, told, by)
        self._note("release", key)

    def progress(self, message: Progress, host: str, now_s: float) -> None:
        """Bytes acknowledged so far; of no account for a flow whose receiver was faster to report its end.

        A connection carries its iterations in turn, so the last one that finished tells which reports are late. Nor is it
        of account for one that was decided ahead and whose release was lost: it will be told again.
        """
        self._check_host(message, host, "src_host")
        key = (message.job, message.iteration, message.flow)
        is_over = message.iteration <= self.last_finished.get((message.job, message.flow), -1)
        if key not in self.flows and (is_over or self.ahead.has_told(key)):
            return
        self.state.progress(key, message.sent_bytes)
        flow = self.flows[key]
        flow.known_bytes, flow.known_s = float(max(message.sent_bytes, 0)), now_s

    def finish(self, message: Finish, host: str, finish_s: float) -> None:
        """The receiver has the last byte since `finish_s`. The rule stays, for stragglers and for the next iteration."""
        self._check_host(message, host, "dst_host")
        key = (message.job, message.iteration, message.flow)
        if key not in self.flows and self.ahead.has_told(key):  # its release is on its way, from another host
            self._again.keep_end(key, host, finish_s)
        else:
            self._end(key, finish_s)

    def _end(self, key: FlowKey, finish_s: float) -> None:
        tardiness_s = self.state.finish(key, finish_s)
        del self.flows[key]
        self.ahead.end(key)
        job, iteration, flow = key
        if tardiness_s is not None:
            self.jobs.end_group(job, tardiness_s)
        self.windows.finish(job, iteration, self.state.declaration(job, flow).index, finish_s)
        self.last_finished[job, flow] = max(self.last_finished.get((job, flow), -1), iteration)
        self._note("finish", key)

    # What is told again, after a coordinator or messages were lost

    def release_again(
        self, message: ReleaseAgain, client: int, host: str, release_s: float, now_s: float
    ) -> list[Instruction]:
        """A release that may be known; the answer is the flow's setting, where there is one."""
        self._check_host(message, host, "src_host")
        if message.dscp is not None and message.dscp not in _DATA_MARKS:
            raise InputError(f"release of flow {message.flow!r}: dscp is {message.dscp}, the mark of no class of data")
        key = (message.job, message.iteration, message.flow)
        if message.iteration <= self.last_finished.get((message.job, message.flow), -1):
            return []
        if key in self.flows:
            return self._told_again(key, client)
        declared = self.state.declaration(message.job, message.flow)
        end_s = self._again.take_end(key, declared.dst_host)
        if end_s is None and message.dscp is None and message.sent_bytes >= declared.size_bytes:
            # Nothing is to be decided for it, and its receiver knows best when it ended.
            self._again.keep_sent(key, client, release_s)
            return []
        self._release(key, client, release_s, now_s)
        if end_s is not None:
            self._end(key, end_s)
            return []
        flow = self.flows[key]
        self.state.progress(key, message.sent_bytes)
        flow.known_bytes = float(max(message.sent_bytes, 0))
        if message.dscp is not None:
            flow.treatment, flow.told_ahead = Treatment(message.dscp), None
            self.rules.note((message.job, message.flow), message.dscp)
        return []

    def _told_again(self, key: FlowKey, client: int) -> list[Instruction]:
        flow = self.flows[key]
        flow.client = client
        if flow.treatment is None:
            return []
        job, iteration, name = key
        setting = Setting(job, name, iteration, flow.treatment.dscp, flow.treatment.rate_Bps, flow.number)
        return [SendTo(client, Decide((setting,)))]

    def finish_again(self, message: Finish | FinishAgain, host: str, finish_s: float) -> None:
        """An end that may be known, or of which neither the release nor the flow is known yet."""
        if self.state.is_declared(message.job, message.flow):
            self._check_host(message, host, "dst_host")
        key = (message.job, message.iteration, message.flow)
        sent = self._again.take_sent(key)
        if sent is not None:
            self._release(key, *sent, now_s=sent[1])
        if key in self.flows:
            self._end(key, finish_s)
        elif message.iteration > self.last_finished.get((message.job, message.flow), -1):
            self._again.keep_end(key, host, finish_s)

    def _check_host(
        self, message: Release | ReleaseAgain | Progress | Finish | FinishAgain, host: str, end: str
    ) -> None:
        expected = getattr(self.state.declaration(message.job, message.flow), end)
        if host != expected:
            raise InputError(
                f"{type(message).__name__.lower()} of flow {message.flow!r} of job {message.job!r} "
                f"comes from {host}; only {expected} can know"
            )

    def _note(self, what: str, key: FlowKey) -> None:
        job, iteration, flow = key
        self.note(f"{what} {job}/{flow}#{iteration}")

    def note(self, trigger: str) -> None:
        """Something has happened that asks for a decision."""
        if not self._pending.count:
            self._pending.since_s = self._clock()
        self._pending.add(trigger)

    @property
    def has_news(self) -> bool:
        """Whether anything has happened that asks for a decision."""
        return self._pending.count > 0

    def take_news(self) -> Pending:
        """What has happened since the last decision; from now on there is nothing."""
        taken, self._pending = self._pending, Pending()
        return taken

    def withdraw(self, client: int) -> list[Instruction]:
        """Forget the jobs that a client declared: it has gone. Takes back their rules."""
        undeclared = [job for job, by in self._told_by.items() if by == client and job not in self._declarations.jobs]
        self._forget_graphs(undeclared)
        return self.withdraw_jobs(self._declarations.leave(client))

    def is_withdrawn(self, job: str) -> bool:
        """Whether a job has gone with its client: what others still report of it is no mistake of theirs."""
        return self._declarations.is_withdrawn(job)

    def withdraw_jobs(self, jobs: AbstractSet[str]) -> list[Instruction]:
        """Forget jobs. Takes back their rules."""
        jobs = jobs & self._declarations.jobs
        if not jobs:
            return []
        instructions = self.rules.take_back(jobs)
        for job in jobs:
            self.state.withdraw(job)
        self._forget_graphs(jobs)
        self.jobs.forget(jobs)
        self.flows = {key: flow for key, flow in self.flows.items() if key[0] not in jobs}
        self.last_finished = {flow: last for flow, last in self.last_finished.items() if flow[0] not in jobs}
        self._declarations.forget(jobs)
        self._again.forget(jobs)
        self.ahead.withdraw(jobs)
        self.note(f"withdraw {', '.join(sorted(jobs))}")
        return list(instructions)

    def _forget_graphs(self, jobs: Iterable[str]) -> None:
        for job in jobs:
            self.windows.withdraw(job)
            self._told_by.pop(job, None)

    # Words

    @property
    def counts(self) -> tuple[int, int]:
        """How many groups are declared, and how many flows are in flight."""
        return len(self.state.groups), len(self.flows)

    def describe_jobs(self, now_s: float) -> tuple[JobLive, ...]:
        """The first jobs by name, with what they have in flight `now_s` after the run's zero.

        Of very many flows the first are looked at: decisions wait meanwhile.
        """
        keys, due_s = self.state.ideal_finishes_s()
        late_s = (now_s - due_s[:MOST_LOOKED_AT]).tolist()
        return self.jobs.describe(
            (key, self.state.group_of(key[0], key[2]), late) for key, late in zip(keys, late_s, strict=False)
        )

    def describe_groups(self) -> list[GroupStatus]:
        """Every declared group, with its flows in flight and what is in force for them."""
        in_flight: dict[tuple[str, str], list[FlowStatus]] = {key: [] for key in self.state.groups}
        for (job, iteration, flow), state in self.flows.items():
            in_flight[job, self.state.group_of(job, flow)].append(_flow_status(flow, iteration, state))
        return [
            GroupStatus(
                job=job,
                group=name,
                kind=info.declaration.kind,
                weight=info.declaration.weight,
                flows=len(info.declaration.flows),
                size_bytes=sum(flow.size_bytes for flow in info.declaration.flows),
                in_flight=tuple(in_flight[job, name]),
            )
            for (job, name), info in self.state.groups.items()
        ]


def _flow_status(flow: str, iteration: int, state: FlowInFlight) -> FlowStatus:
    treatment = state.treatment
    return FlowStatus(
        flow=flow,
        iteration=iteration,
        sent_bytes=int(state.known_bytes),
        dscp=None if treatment is None else treatment.dscp,
        rate_Bps=None if treatment is None else treatment.rate_Bps,
    )
