"""An agent's line to the coordinator that outlives it: where faults are planned, the coordinator or messages may be lost.

Without such faults in the plan this is an `EchelonFlowClient` and nothing more. With them it remembers what it has
told: releases and ends of the latest iterations. Where the coordinator has gone, it knocks until there is one again,
which says `Start` to a run that goes on, and is told all of it once more. Where messages are lost, they are told again
every `RETELL_S`, and once when that is over.
"""

from __future__ import annotations

import math
import random
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from echelonflow.errors import RunError
from echelonflow.model.faults import Fault, LostMessages, outages
from echelonflow.model.flow_key import FlowKey
from echelonflow.wire.line import CoordinatorGoneError
from echelonflow.wire.messages import Declare, HoldBack, JobGraph, Setting, Weigh
from traffic.agent.api import EchelonFlowClient

FIRST_TRY_S = 0.02
LONGEST_TRY_S = 0.2
"""Between one try to reach a coordinator that has gone and the next."""
RETELL_S = 0.2
KEPT_ITERATIONS = 3
"""How far back is told again: groups of older iterations are over."""
_PRUNE_EVERY = 256


@dataclass(frozen=True)
class Callbacks:
    """What the agent is asked and told.

    `sent` gives the acknowledged bytes and the mark of a released flow, None for one of a job that is no more.
    """

    on_setting: Callable[[Setting], None]
    on_start: Callable[[float], None]
    on_gone: Callable[[int], None]
    """The connection with this descriptor is no more."""
    on_back: Callable[[], None]
    """There is a connection again."""
    sent: Callable[[FlowKey], tuple[int, int | None] | None]
    on_hold_back: Callable[[HoldBack], None]
    on_weigh: Callable[[Weigh], None]


class LastingClient:
    """The line of the agent on `host`; `connect` makes a connection, or raises RunError or OSError."""

    def __init__(
        self,
        connect: Callable[[], socket.socket],
        host: str,
        faults: Sequence[Fault],
        callbacks: Callbacks,
        clock: Callable[[], float],
    ) -> None:
        self._connect = connect
        self._host = host
        self._callbacks = callbacks
        self._clock = clock
        self._lasting = bool(outages(faults))
        self._lossy = [fault for fault in faults if isinstance(fault, LostMessages) and fault.host == host]
        self._draw = random.Random(host)
        self._zero_s: float | None = None
        self._declared: list[Declare] = []
        self._graphs: list[JobGraph] = []
        self._releases: dict[FlowKey, float] = {}
        self._finishes: dict[FlowKey, float] = {}
        self._newest: dict[str, int] = {}
        self._next_try_s = math.inf
        self._pause_s = FIRST_TRY_S
        self._retell_s = math.inf
        self.lost = 0
        """Messages that were lost as planned, in both directions."""
        self._known = True
        """Whether the coordinator that there is has been told of the run."""
        self._client: EchelonFlowClient | None = self._greet(connect())

    # What the agent says

    def declare(self, group: Declare, *, is_ours: bool = True) -> None:
        """Declare a group; one that is another host's to declare is told only to a coordinator that follows.

        That one hears of our flows in it, perhaps before it hears from the other host.
        """
        self._declared.append(group)
        if is_ours and self._client is not None:
            self._client.declare(group)

    def tell_graph(self, graph: JobGraph) -> None:
        """Tell what a job waits for, also to a coordinator that follows."""
        self._graphs.append(graph)
        if self._client is not None:
            self._client.tell_graph(graph)

    def ready(self) -> None:
        if self._client is not None:
            self._client.ready()

    def release(self, job: str, flow: str, iteration: int, time_s: float, by: int = 0) -> None:
        self._remember(self._releases, (job, iteration, flow), time_s)
        if self._heard():
            self._there.release(job, flow, iteration, time_s, by)

    def progress(self, job: str, flow: str, iteration: int, sent_bytes: int) -> None:
        if self._heard():
            self._there.progress(job, flow, iteration, sent_bytes)

    def finish(self, job: str, flow: str, iteration: int, time_s: float) -> None:
        self._remember(self._finishes, (job, iteration, flow), time_s)
        if self._heard():
            self._there.finish(job, flow, iteration, time_s)

    def done(self) -> None:
        if self.attended:  # one that has yet to hear of the run would take it for a mistake
            self._there.done()

    # The connection

    @property
    def attended(self) -> bool:
        """Whether there is a coordinator that knows of the run."""
        return self._client is not None and self._known

    def fileno(self) -> int:
        """The descriptor of the connection, -1 where there is none."""
        return -1 if self._client is None else self._client.fileno()

    @property
    def wants_write(self) -> bool:
        return self._client is not None and self._client.wants_write

    @property
    def next_due_s(self) -> float:
        """When `tick` has something to do; infinite if never."""
        return min(self._next_try_s, self._retell_s)

    def flush(self) -> None:
        if self._client is not None:
            self._guarded(self._client.flush)

    def on_readable(self) -> None:
        if self._client is not None:
            self._guarded(self._client.on_readable)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def tick(self, now_s: float) -> None:
        """Knock where there is nobody, and tell again what may be lost, if that is due."""
        if now_s >= self._next_try_s:
            self._knock(now_s)
        if now_s >= self._retell_s:
            self._retell_s = self._next_retelling_s(now_s)
            if self.attended:
                self._tell_again()

    @property
    def _there(self) -> EchelonFlowClient:
        assert self._client is not None
        return self._client

    def _greet(self, connection: socket.socket) -> EchelonFlowClient:
        name = f"agent-{self._host}"
        return EchelonFlowClient(
            connection,
            name,
            self._host,
            on_setting=self._set,
            on_start=self._start,
            on_hold_back=self._hold_back,
            on_weigh=self._weigh,
        )

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something with the connection, which may be gone where that is planned."""
        try:
            action()
        except CoordinatorGoneError:
            if not self._lasting or self._zero_s is None:
                raise
            descriptor = self.fileno()
            self._there.close()
            self._client, self._known = None, False
            self._pause_s, self._next_try_s = FIRST_TRY_S, self._clock() + FIRST_TRY_S
            self._callbacks.on_gone(descriptor)

    def _knock(self, now_s: float) -> None:
        try:
            connection = self._connect()
        except (OSError, RunError):
            self._pause_s = min(2 * self._pause_s, LONGEST_TRY_S)
            self._next_try_s = now_s + self._pause_s
            return
        self._client, self._next_try_s = self._greet(connection), math.inf
        self._callbacks.on_back()
        self.flush()

    def _start(self, zero_s: float) -> None:
        self._known = True
        if self._zero_s is None:
            self._zero_s = zero_s
            self._retell_s = self._next_retelling_s(-math.inf)
            self._callbacks.on_start(zero_s)
        elif not self._lasting:
            raise RunError("the coordinator sent a second Start")
        elif zero_s != self._zero_s:
            raise RunError(f"the coordinator says that the run began at {zero_s}, not at {self._zero_s}")
        else:
            for group in self._declared:
                self._there.declare(group)
            for graph in self._graphs:
                self._there.tell_graph(graph)
            self._tell_again()

    # What is told again

    def _remember(self, memory: dict[FlowKey, float], key: FlowKey, time_s: float) -> None:
        if not (self._lasting or self._lossy):
            return
        memory[key] = time_s
        self._newest[key[0]] = max(key[1], self._newest.get(key[0], 0))
        if len(memory) % _PRUNE_EVERY == 0:
            self._prune(memory)

    def _prune(self, memory: dict[FlowKey, float]) -> None:
        for key in [key for key in memory if key[1] < self._newest[key[0]] - KEPT_ITERATIONS]:
            state = self._callbacks.sent(key) if memory is self._releases else None
            if state is None or state[1] is None:
                del memory[key]

    def _tell_again(self) -> None:
        for (job, iteration, flow), time_s in self._releases.items():
            state = self._callbacks.sent((job, iteration, flow))
            if state is not None and self._heard():
                self._there.release_again(job, flow, iteration, time_s, *state)
        for (job, iteration, flow), time_s in self._finishes.items():
            if self._heard():
                self._there.finish_again(job, flow, iteration, time_s)

    # What is lost

    def _heard(self) -> bool:
        """Whether a message reaches the coordinator; those that do not are told again later."""
        return self.attended and not self._is_lost()

    def _set(self, setting: Setting) -> None:
        if not self._is_lost():
            self._callbacks.on_setting(setting)

    def _hold_back(self, message: HoldBack) -> None:
        if not self._is_lost():
            self._callbacks.on_hold_back(message)

    def _weigh(self, message: Weigh) -> None:
        if not self._is_lost():
            self._callbacks.on_weigh(message)

    def _is_lost(self) -> bool:
        if not self._lossy or self._zero_s is None:
            return False
        since_zero_s = self._clock() - self._zero_s
        share = max((fault.share for fault in self._lossy if fault.holds(since_zero_s)), default=0.0)
        lost = share > 0 and self._draw.random() < share
        self.lost += lost
        return lost

    def _next_retelling_s(self, now_s: float) -> float:
        """The next moment at which messages are told again: while they are lost, and when that has ended."""
        assert self._zero_s is not None
        due = [
            max(now_s + RETELL_S, self._zero_s + fault.at_s) if now_s + RETELL_S < end_s else end_s
            for fault in self._lossy
            for end_s in [self._zero_s + fault.until_s]
            if now_s < end_s
        ]
        return min(due, default=math.inf)
