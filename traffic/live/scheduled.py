"""The replay agent with a program in the place of a replay: declared flows carry what its operations exchange.

All that is said to the coordinator, and how its decisions are put in force, is the replay agent's. What differs: a flow sends pieces of
tensors as they become ready, and what arrives goes into tensors. It runs in a thread of its own; the program hands it operations.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from echelonflow.errors import EchelonError, RunError
from echelonflow.model.dag import Compute, Job
from echelonflow.model.faults import Slowdowns
from echelonflow.records.agent_log import AgentLog, Line
from echelonflow.records.live_part import READY_LIMIT_S
from echelonflow.records.observed import exchange_of, flow_of, rank_to
from echelonflow.records.phases import InPhase
from echelonflow.records.plan import Plan
from echelonflow.wire.messages import Setting
from traffic.agent.agent import Agent
from traffic.agent.connections import FlowLostError, FlowName
from traffic.agent.log_lines import computed_line, held_line
from traffic.agent.receiver import IncomingFlow
from traffic.agent.replay import Computed, HeldBack
from traffic.agent.sender import OutgoingFlow, Payload, SentFlow
from traffic.live.early import MismatchError, Taker, unexpected
from traffic.live.engine import Engine
from traffic.live.exchange import Exchange, Key
from traffic.live.flows import Arriving, Pieces
from traffic.live.lesson import Place
from traffic.live.mailbox import Mailbox
from traffic.live.priority import go_first
from traffic.live.program_steps import ProgramSteps
from traffic.live.running import OnDone, Running

BEGIN_LIMIT_S = READY_LIMIT_S + 30.0
"""For a run to begin whose other programs may still be warming up. The runner waits less, and says whom it waited for."""
END_LIMIT_S = 60.0
"""For the last flows of a program that has ended."""
TOLD_WITHIN_S = 3.0
"""By the link to a rank that closes a flow too early."""


@dataclass(frozen=True)
class Assigned:
    """Which exchange of the program's jobs this is, by `key` on links and by `place` among declared flows.

    What this rank sends of it goes by declared flows (`by_flows`), or by links where the program does otherwise than in the lesson. What it
    receives may come either way, as the sender has it: so ranks need not agree, nor know of each other.
    """

    key: Key
    place: Place
    by_flows: bool


class _Carried:
    """An exchange under way."""

    def __init__(self, assigned: Assigned) -> None:
        self.assigned = assigned
        self.running: Running
        self.leaving: Counter[int] = Counter()
        """By rank: pieces that it has not taken yet."""

    def lacks(self, rank: int) -> bool:
        """Whether something of a rank's is still to come."""
        inlet = self.running.inlets.get(rank)
        return inlet is not None and not inlet.is_full


class LiveAgent(Agent):
    """The agent of `host`, in the process of rank `rank` of a program. Its methods are called by the program, but for those of `Agent`.

    The program's phases are `jobs`, by name and in order. `engine` has the links to other ranks. They say who has gone: that a flow's connection has ended says nothing of why.
    """

    incoming_kind = Arriving

    def __init__(
        self,
        plan: Plan,
        jobs: Sequence[str],
        rank: int,
        host: str,
        socket_path: Path,
        records: AgentLog,
        engine: Engine,
    ) -> None:
        by_name = {job.name: job for job in plan.jobs}
        self.jobs = [by_name[name] for name in jobs]
        self._rank, self._engine = rank, engine
        self._steps = ProgramSteps(self.jobs, rank, host)
        self._pieces: dict[FlowName, Pieces] = {}
        self._unacknowledged: dict[tuple[FlowName, int], list[Callable[[], None]]] = {}
        """Of each flow and iteration that was released: who hears that all of it has been acknowledged."""
        self._mailbox = Mailbox()
        self._under_way: dict[Key, _Carried] = {}
        self._steps.under_way = self._under_way
        self._parted: dict[int, str] = {}
        """Ranks that have ended, and what is said to whoever expects something of them."""
        self._lost: dict[FlowName, tuple[float, RunError]] = {}
        """Flows whose receivers have closed them: until when somebody is to say why, and what is said otherwise."""
        self._failure: EchelonError | None = None
        self._begun = threading.Event()
        self._over = threading.Event()
        super().__init__(plan, host, socket_path, records)
        self._watch(self._mailbox.fileno(), self._mailbox.empty)
        self._thread = threading.Thread(target=self._carry_on, name="echelon agent", daemon=True)

    @property
    def declared(self) -> list[frozenset[str]]:
        """The exchanges that have flows, of any rank's: of each phase."""
        return [
            frozenset(exchange_of(flow.flow) for group in self._groups if group.job == job.name for flow in group.flows)
            for job in self.jobs
        ]

    def start(self) -> float:
        """Declare, connect, and wait until all agents have; returns the run's zero, which may lie ahead (RunError)."""
        self._thread.start()
        if not self._begun.wait(BEGIN_LIMIT_S):
            raise RunError(f"the run did not begin within {BEGIN_LIMIT_S:.0f} s; see the logs of the other hosts")
        self._raise_failure()
        return self._zero

    def held_until_s(self, when: InPhase, ready_s: float) -> float:
        """When an iteration may begin that could at `ready_s`; later, where the policy holds it back.

        With which a later phase begins, is on record even so: what the program did since the phase before is nobody's to know otherwise.
        """
        job = self.jobs[when.phase].name
        held = self._steps.held[job]
        before = held.held
        begin_s = max(self._zero + held.begin_s(when.iteration, ready_s - self._zero), ready_s)
        if held.held > before or (when.phase and not when.iteration):
            line = held_line(HeldBack(job, when.iteration, ready_s, begin_s), self._zero)
            self._mailbox.put(lambda: self._record(line))
        return begin_s

    def submit(self, assigned: Assigned, called_s: float, exchange: Exchange, on_done: OnDone) -> None:
        """Carry out an exchange that has declared flows; `on_done` is called in the agent's thread.

        It is over when all has come, and what was sent is acknowledged, as a flow of a replay is; or has left, where it goes by links.
        """
        self._mailbox.put(lambda: self._begin_exchange(assigned, called_s, exchange, on_done))

    def depart(self) -> None:
        """The program does otherwise than in the lesson."""

        def departed() -> None:
            self._steps.departed = True

        self._mailbox.put(departed)

    def part_from(self, rank: int, why: str) -> None:
        """A rank has ended, and nothing more comes by its link; `why` is for whoever expects something of it. From any thread."""

        def parted() -> None:
            self._parted[rank] = why
            self._end_in_vain()

        self._mailbox.put(parted)

    def computed(self, job: str, iteration: int, step: Compute, start_s: float, due_s: float, finish_s: float) -> None:
        """A computation has ended that was to end at `due_s`."""
        line = computed_line(Computed(job, iteration, step, start_s, due_s, finish_s), self._zero)
        self._mailbox.put(lambda: self._record(line))

    def finish(self) -> None:
        """The program has no more iterations: wait until all has arrived, and the records are on disk (RunError)."""

        def ended() -> None:
            self._steps.program_ended = True

        self._mailbox.put(ended)
        if not self._over.wait(END_LIMIT_S):
            raise RunError(
                f"job {self.jobs[0].name!r}, rank {self._rank}: {self._steps.missing} transfers had not arrived {END_LIMIT_S:.0f} s after the end"
            )
        self._raise_failure()

    def fail(self, why: str) -> None:
        """Another part of this process cannot go on."""

        def raise_it() -> None:
            if not self._over.is_set():
                raise RunError(why)

        self._mailbox.put(raise_it)

    def give_up(self, why: str) -> None:
        """The program ends too early: returns when all ranks have been told, or nearly."""
        self.fail(why)
        self._over.wait(TOLD_WITHIN_S)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # In the agent's thread

    def _record(self, line: Line) -> None:
        """Write a line, unless the agent has ended: the program hears of that when it next waits for an operation."""
        if not self._over.is_set():
            self._records.write(line)

    def _carry_on(self) -> None:
        go_first()
        try:
            self.run()
        except EchelonError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 nobody would ever hear of it
            self._failure = RunError(f"the agent failed: {type(error).__name__}: {error}")
        finally:
            if self._failure is not None:  # before the program hears of it, and ends: others are to know why
                self._engine.fail(str(self._failure))
            self._over.set()
            self._begun.set()
            for carried in list(self._under_way.values()):
                carried.running.end(self._failure or RunError("the run is over"))
            with contextlib.suppress(EchelonError):
                self._mailbox.close()
            self.close()

    def _keep_quiet(self) -> None:
        """The program decides when memory is collected."""

    def _begin(self, zero_s: float) -> None:
        super()._begin(zero_s)
        self._begun.set()

    def _make_steps(self, jobs: Sequence[Job], slowdowns: Slowdowns | None) -> ProgramSteps:
        return self._steps

    def _payload_of(self, flow: FlowName) -> Payload:
        pieces = self._pieces[flow] = Pieces()
        return pieces

    def _receive(self, flow: IncomingFlow) -> None:
        assert isinstance(flow, Arriving)  # all of ours are
        super()._receive(flow)
        flow.on_closed = self._end_in_vain

    def _begin_exchange(self, assigned: Assigned, called_s: float, exchange: Exchange, on_done: OnDone) -> None:
        if self._over.is_set():
            on_done(self._failure or RunError("the run is over"))
            return

        key, (phase, iteration, name) = assigned.key, assigned.place
        job = self.jobs[phase].name
        released_s: float | None = called_s
        carried = _Carried(assigned)

        def send(rank: int, view: memoryview, left: Callable[[], None]) -> None:
            carried.leaving[rank] += 1

            def has_left() -> None:
                carried.leaving[rank] -= 1
                left()

            if not assigned.by_flows:
                self._send_by_link(carried, rank, view, has_left)
                return
            ready_s = time.monotonic() if released_s is None else released_s
            flow = flow_of(name, self._rank, rank)
            self._send((job, flow), iteration, ready_s, view, has_left)
            if released_s is None:
                self._carry_out(self._steps.begun_by_peer(job, iteration, flow, self._clock()))

        def over(error: Exception | None) -> None:
            del self._under_way[key]
            self._engine.early.over(key)
            for rank in carried.running.inlets:
                if carried.lacks(rank) and (flow := self._flow_from(assigned.place, rank)) is not None:
                    flow.forget(iteration)
            on_done(error)

        running = carried.running = Running(exchange, send, over)
        self._under_way[key] = carried
        running.begin()  # first: what has come already may be passed on at once, behind what begins
        released_s = None
        for rank, inlet in running.inlets.items():
            flow = self._flow_from(assigned.place, rank)
            if flow is not None:
                flow.expect(iteration, inlet)
        try:
            come = self._engine.early.begin(key, running.inlets, Taker(running.inlets, partial(self._by_link, key)))
        except MismatchError as error:
            raise RunError(str(error)) from None
        for rank, (total_bytes, data) in come.items():
            self._come(key, rank, total_bytes, data)
        if self._parted or self._lost:
            self._end_in_vain()
        running.end_if_done()
        if running.is_over:  # before it was known here by its key
            self._engine.early.over(key)

    def _flow_from(self, place: Place, rank: int) -> Arriving | None:
        """The declared flow that brings a rank's part of an exchange, if there is one."""
        flow = self._incoming.get((self.jobs[place.phase].name, flow_of(place.name, rank, self._rank)))
        assert flow is None or isinstance(flow, Arriving)
        return flow

    def _send(self, flow: FlowName, iteration: int, ready_s: float, view: memoryview, left: Callable[[], None]) -> None:
        self._pieces[flow].add(iteration, view)
        unacknowledged = self._unacknowledged.setdefault((flow, iteration), [])
        unacknowledged.append(left)
        if flow in self._lost:
            return
        if len(unacknowledged) > 1:
            self._write(self._outgoing[flow])
        else:
            self._carry_out(self._steps.ready(flow[0], iteration, flow[1], ready_s, self._clock()))

    def _on_acknowledged(self, flow: OutgoingFlow, sent: SentFlow, now_s: float) -> None:
        super()._on_acknowledged(flow, sent, now_s)
        for left in self._unacknowledged.pop(((flow.job, flow.declaration.flow), sent.iteration), ()):
            left()

    # What goes by links

    def _send_by_link(self, carried: _Carried, rank: int, view: memoryview, left: Callable[[], None]) -> None:
        self._engine.send(
            carried.assigned.key,
            rank,
            view,
            carried.running.exchange.sent_bytes[rank],
            lambda: self._mailbox.put(left),
            lambda error: self._mailbox.put(lambda: carried.running.end(error)),
        )

    def _by_link(self, key: Key, rank: int, total_bytes: int, data: bytes) -> None:
        """Something has come by a link, in its thread."""
        self._mailbox.put(lambda: self._come(key, rank, total_bytes, data))

    def _come(self, key: Key, rank: int, total_bytes: int, data: bytes | bytearray) -> None:
        carried = self._under_way.get(key)
        if carried is None or not carried.lacks(rank):
            return
        inlet = carried.running.inlets[rank]
        if inlet.total_bytes != total_bytes:
            raise RunError(unexpected(rank, total_bytes, inlet.total_bytes))
        inlet.put(data)
        flow = self._flow_from(carried.assigned.place, rank)
        if inlet.is_full and flow is not None:
            iteration = carried.assigned.place.iteration
            flow.forget(iteration)
            self._carry_out(self._steps.arrived(flow.job, iteration, flow.declaration.flow, self._clock()))

    # Who has gone

    def _tolerating_ends(self, action: Callable[[], None]) -> None:
        try:
            super()._tolerating_ends(action)
        except FlowLostError as lost:
            self._lose(lost)

    def _lose(self, lost: FlowLostError) -> None:
        """The receiver of a flow has closed it. The link to that rank says why, soon: it has gone, or it has ended."""
        name = (lost.job, lost.flow)
        flow = self._outgoing[name]
        self._active.pop(name, None)
        self._handlers.pop(flow.fileno(), None)
        self._heeded.pop(flow.fileno(), None)
        flow.abort()
        self._lost[name] = self._clock() + TOLD_WITHIN_S, lost
        self._end_in_vain()

    def _apply(self, setting: Setting) -> None:
        if (setting.job, setting.flow) not in self._lost:
            super()._apply(setting)

    def _tick(self, now_s: float) -> None:
        super()._tick(now_s)
        for (_, flow), (until_s, lost) in self._lost.items():
            if now_s > until_s and rank_to(flow) not in self._parted:
                raise RunError(str(lost))

    def _next_tick_s(self) -> float:
        awaited_s = (until_s for (_, flow), (until_s, _) in self._lost.items() if rank_to(flow) not in self._parted)
        return min([super()._next_tick_s(), *awaited_s])

    def _end_in_vain(self) -> None:
        """End what expects something of a rank that has ended, or of which it has not taken all."""
        for rank, why in self._parted.items():
            for carried in list(self._under_way.values()):
                place = carried.assigned.place
                flow = self._flow_from(place, rank)
                waits = carried.lacks(rank) and (flow is None or flow.is_closed)
                goes = (self.jobs[place.phase].name, flow_of(place.name, self._rank, rank))
                if waits or (carried.leaving[rank] and (not carried.assigned.by_flows or goes in self._lost)):
                    carried.running.end(RunError(why))
