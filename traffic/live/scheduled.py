"""The replay agent with a program in the place of a replay: declared flows carry what its operations exchange.

All that is said to the coordinator, and how its decisions are put in force, is the replay agent's. What differs: a flow sends pieces of
tensors as they become ready, and what arrives goes into tensors. It runs in a thread of its own; the program hands it operations.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from echelonflow.errors import EchelonError, RunError
from echelonflow.job_scheduling.gate import Gate
from echelonflow.model.dag import Compute, Job
from echelonflow.model.faults import Slowdowns
from echelonflow.model.progress import StepKey
from echelonflow.model.slots import HeldIterations, Slots
from echelonflow.records.agent_log import AgentLog, Line
from echelonflow.records.live_part import READY_LIMIT_S
from echelonflow.records.observed import flow_of
from echelonflow.records.plan import Plan
from traffic.agent.agent import Agent
from traffic.agent.connections import FlowName
from traffic.agent.log_lines import computed_line, held_line
from traffic.agent.receiver import IncomingFlow
from traffic.agent.replay import Action, Computed, HeldBack, Released, arrivals
from traffic.agent.sender import OutgoingFlow, Payload, SentFlow
from traffic.live.exchange import Exchange
from traffic.live.mailbox import Mailbox
from traffic.live.priority import go_first
from traffic.live.running import OnDone, Running
from traffic.live.streams import Inlet

BEGIN_LIMIT_S = READY_LIMIT_S + 30.0
"""For a run to begin whose other programs may still be warming up. The runner waits less, and says whom it waited for."""
_EARLY = memoryview(bytearray(1 << 16))
"""Where what nobody has asked for yet is read to, before it is kept."""
END_LIMIT_S = 60.0
"""For the last flows of a program that has ended."""


class _Pieces:
    """The payload of a flow: what its operations have ready, iteration by iteration."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[memoryview]] = {}
        self._ready_bytes: dict[int, int] = {}

    def add(self, iteration: int, view: memoryview) -> None:
        """More of what an iteration sends."""
        self._waiting.setdefault(iteration, deque()).append(view)
        self._ready_bytes[iteration] = self._ready_bytes.get(iteration, 0) + len(view)

    def ready_bytes(self, iteration: int) -> float:
        return self._ready_bytes.get(iteration, 0)

    def piece(self, iteration: int, most_bytes: int) -> memoryview:
        waiting = self._waiting.get(iteration)
        return waiting[0][:most_bytes] if waiting else memoryview(b"")

    def sent(self, iteration: int, count: int) -> None:
        waiting = self._waiting[iteration]
        view = waiting.popleft()
        if count < len(view):
            waiting.appendleft(view[count:])
        elif not waiting:
            del self._waiting[iteration]
        self._ready_bytes[iteration] -= count
        if not self._ready_bytes[iteration]:
            del self._ready_bytes[iteration]


class _Arriving(IncomingFlow):
    """A flow whose bytes go into tensors. It is read as they come; what nobody has asked for yet waits here."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._expected: deque[Inlet] = deque()
        self._early = bytearray()

    def expect(self, inlet: Inlet) -> None:
        """What comes next goes there; iterations are expected in order."""
        self._expected.append(inlet)
        while self._early and not inlet.is_full:
            room = inlet.room
            count = min(len(room), len(self._early))
            room[:count] = self._early[:count]
            del self._early[:count]
            inlet.took(count)
        if inlet.is_full:
            self._expected.remove(inlet)
        elif self._expected[0] is inlet:
            # Others may wait for what this piece makes us send: it is not to wait for as much as nobody asked for did.
            self._wake_at(min(self._counter.wanted_bytes, len(inlet.room)))

    def read(self) -> bool:
        while True:
            inlet = self._expected[0] if self._expected else None
            room = _EARLY if inlet is None else inlet.room
            count = self._receive(room)
            if count is None:
                self._wake_at(min(self._counter.wanted_bytes, len(room)))
                return True
            if not count:
                return False
            for received in self._counter.add(count, self._clock()):
                self._on_finished(self, received)
            if inlet is None:
                self._early += room[:count]
                continue
            inlet.took(count)
            if inlet.is_full:
                self._expected.popleft()


class _ProgramSteps:
    """What the agent asks of a replay, of a program: nothing is due. Only what its job scheduler held back follows from ends.

    A flow of a collective goes on only as those of other ranks do, unlike one of a replay. So a task that a peer has begun is started here as
    soon as it is ready, whatever the window says. Otherwise two ranks could wait for each other for ever, each with its credit spent.
    """

    def __init__(self, job: Job, rank: int, host: str) -> None:
        self.missing = arrivals(job, host) * job.iterations
        self.program_ended = False
        self.held = HeldIterations()
        self._job, self._discipline = job.name, job.discipline
        self._gate = Gate(job, [rank])
        self._ready_s: dict[StepKey, float] = {}
        """Since when flows are ready that the job scheduler holds back."""

    def ready(self, iteration: int, flow: str, ready_s: float, now_s: float) -> list[Action]:
        """The program has had something for a flow to send since `ready_s`.

        A job scheduler orders what it knows of, so that for it flows are ready from now on.
        """
        if self._discipline is None:
            return [Released(self._job, iteration, flow, ready_s)]
        released = self._gate.ready(iteration, flow)
        if (iteration, flow) not in released:
            self._ready_s[iteration, flow] = now_s
        return self._released(released, now_s)

    def begun_by_peer(self, iteration: int, flow: str, now_s: float) -> list[Action]:
        """What a flow of this rank passes on has come."""
        return self._released(self._gate.begun_by_peer(iteration, flow), now_s)

    def _released(self, keys: Sequence[StepKey], now_s: float) -> list[Action]:
        found: list[Action] = []
        for iteration, flow in keys:
            since_s = self._ready_s.pop((iteration, flow), None)
            found.append(Released(self._job, iteration, flow, now_s, since_s))
        return found

    @property
    def done(self) -> bool:
        return self.program_ended and not self.missing

    @property
    def next_due_s(self) -> float:
        return float("inf")

    def begin(self, zero_s: float) -> None:
        """The program's own thread waits for that moment."""

    def advance(self, now_s: float) -> list[Action]:
        return []

    def hold_back(self, slots: Mapping[str, Slots]) -> None:
        self.held.slots = slots.get(self._job)

    def end_job(self, job: str) -> None:
        self.missing = 0

    def arrived(self, job: str, iteration: int, flow: str, now_s: float) -> list[Action]:
        self.missing -= 1
        return self._released(self._gate.ended(iteration, flow), now_s)

    def acknowledged(self, job: str, iteration: int, flow: str, now_s: float) -> list[Action]:
        return self._released(self._gate.ended(iteration, flow), now_s)


class LiveAgent(Agent):
    """The agent of `host`, in the process of rank `rank` of job `job`. Its methods are called by the program, but for those of `Agent`."""

    incoming_kind = _Arriving

    def __init__(self, plan: Plan, job: str, rank: int, host: str, socket_path: Path, records: AgentLog) -> None:
        self.job = next(each for each in plan.jobs if each.name == job)
        self._rank = rank
        self._steps = _ProgramSteps(self.job, rank, host)
        self._pieces: dict[FlowName, _Pieces] = {}
        self._unacknowledged: dict[tuple[FlowName, int], list[Callable[[], None]]] = {}
        """Of each flow and iteration that was released: who hears that all of it has been acknowledged."""
        self._mailbox = Mailbox()
        self._under_way: set[Running] = set()
        self._failure: EchelonError | None = None
        self._begun = threading.Event()
        self._over = threading.Event()
        super().__init__(plan, host, socket_path, records)
        self._watch(self._mailbox.fileno(), self._mailbox.empty)
        self._thread = threading.Thread(target=self._carry_on, name="echelon agent", daemon=True)

    @property
    def sizes_bytes(self) -> dict[str, int]:
        """Of the flows that are declared of the job, by name."""
        return {
            flow.flow: flow.size_bytes for group in self._groups if group.job == self.job.name for flow in group.flows
        }

    def start(self) -> float:
        """Declare, connect, and wait until all agents have; returns the run's zero, which may lie ahead (RunError)."""
        self._thread.start()
        if not self._begun.wait(BEGIN_LIMIT_S):
            raise RunError(f"the run did not begin within {BEGIN_LIMIT_S:.0f} s; see the logs of the other hosts")
        self._raise_failure()
        return self._zero

    def held_until_s(self, iteration: int, ready_s: float) -> float:
        """When an iteration may begin that could at `ready_s`; later, where the policy holds it back."""
        before = self._steps.held.held
        begin_s = max(self._zero + self._steps.held.begin_s(iteration, ready_s - self._zero), ready_s)
        if self._steps.held.held > before:
            line = held_line(HeldBack(self.job.name, iteration, ready_s, begin_s), self._zero)
            self._mailbox.put(lambda: self._record(line))
        return begin_s

    def submit(self, iteration: int, name: str, called_s: float, exchange: Exchange, on_done: OnDone) -> None:
        """Carry out exchange `name` of an iteration, whose flows are all declared; `on_done` is called in the agent's thread.

        It is over when all has come, and what was sent is acknowledged, as a flow of a replay is.
        """
        self._mailbox.put(lambda: self._begin_exchange(iteration, name, called_s, exchange, on_done))

    def computed(self, iteration: int, step: Compute, start_s: float, due_s: float, finish_s: float) -> None:
        """A computation has ended that was to end at `due_s`."""
        line = computed_line(Computed(self.job.name, iteration, step, start_s, due_s, finish_s), self._zero)
        self._mailbox.put(lambda: self._record(line))

    def finish(self) -> None:
        """The program has no more iterations: wait until all has arrived, and the records are on disk (RunError)."""

        def ended() -> None:
            self._steps.program_ended = True

        self._mailbox.put(ended)
        if not self._over.wait(END_LIMIT_S):
            raise RunError(
                f"job {self.job.name!r}, rank {self._rank}: {self._steps.missing} transfers had not arrived {END_LIMIT_S:.0f} s after the end"
            )
        self._raise_failure()

    def fail(self, why: str) -> None:
        """Another part of this process cannot go on."""

        def raise_it() -> None:
            if not self._over.is_set():
                raise RunError(why)

        self._mailbox.put(raise_it)

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
            self._over.set()
            self._begun.set()
            for running in list(self._under_way):
                running.end(self._failure or RunError("the run is over"))
            with contextlib.suppress(EchelonError):
                self._mailbox.close()
            self.close()

    def _keep_quiet(self) -> None:
        """The program decides when memory is collected."""

    def _begin(self, zero_s: float) -> None:
        super()._begin(zero_s)
        self._begun.set()

    def _make_steps(self, jobs: Sequence[Job], slowdowns: Slowdowns | None) -> _ProgramSteps:
        return self._steps

    def _payload_of(self, flow: FlowName) -> Payload:
        pieces = self._pieces[flow] = _Pieces()
        return pieces

    def _begin_exchange(self, iteration: int, name: str, called_s: float, exchange: Exchange, on_done: OnDone) -> None:
        if self._over.is_set():
            on_done(self._failure or RunError("the run is over"))
            return

        released_s: float | None = called_s

        def send(rank: int, view: memoryview, left: Callable[[], None]) -> None:
            ready_s = time.monotonic() if released_s is None else released_s
            flow = flow_of(name, self._rank, rank)
            self._send((self.job.name, flow), iteration, ready_s, view, left)
            if released_s is None:
                self._carry_out(self._steps.begun_by_peer(iteration, flow, self._clock()))

        def over(error: Exception | None) -> None:
            self._under_way.discard(running)
            on_done(error)

        running = Running(exchange, send, over)
        self._under_way.add(running)
        running.begin()  # first: what has come already may be passed on at once, behind what begins
        released_s = None
        for rank, inlet in running.inlets.items():
            flow = self._incoming[self.job.name, flow_of(name, rank, self._rank)]
            assert isinstance(flow, _Arriving)  # all of ours are
            flow.expect(inlet)
        running.end_if_done()

    def _send(self, flow: FlowName, iteration: int, ready_s: float, view: memoryview, left: Callable[[], None]) -> None:
        self._pieces[flow].add(iteration, view)
        unacknowledged = self._unacknowledged.setdefault((flow, iteration), [])
        unacknowledged.append(left)
        if len(unacknowledged) > 1:
            self._write(self._outgoing[flow])
        else:
            self._carry_out(self._steps.ready(iteration, flow[1], ready_s, self._clock()))

    def _on_acknowledged(self, flow: OutgoingFlow, sent: SentFlow, now_s: float) -> None:
        super()._on_acknowledged(flow, sent, now_s)
        for left in self._unacknowledged.pop(((flow.job, flow.declaration.flow), sent.iteration), ()):
            left()
