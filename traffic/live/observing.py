"""What a training program does, as its own process sees it: which operations it calls, when, and when it waits for them.

Nothing is asked of the program. Operations come through the process group; an iteration ends where an optimizer has made its step,
which torch tells whoever asks (`register_optimizer_step_post_hook`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from echelonflow.records.observed import UnitOf
from traffic.live.exchange import Exchange, Key

MOST_EVENTS = 100_000
"""Of one iteration, the first ones. A program whose optimizer makes no step has an iteration that does not end."""


class Part(NamedTuple):
    """One exchange of an operation: by rank, how much is sent and received, and which ranks' bytes must have come before some are sent."""

    key: Key
    sent_bytes: Mapping[int, int]
    received_bytes: Mapping[int, int]
    follows: Mapping[int, tuple[int, ...]]

    @classmethod
    def of(cls, key: Key, exchange: Exchange) -> Part:
        """What is exchanged under `key`."""
        received = {rank: sum(map(len, pieces)) for rank, pieces in exchange.expected.items()}
        return cls(key, exchange.sent_bytes, received, exchange.follows)


@dataclass(eq=False)
class Operation:
    """One call of one operation. Ranks are global, times are those of CLOCK_MONOTONIC, in seconds."""

    kind: str
    """Such as "all-reduce"."""
    group: tuple[int, ...]
    """The ranks that take part."""
    parts: tuple[Part, ...]
    source_rank: int = -1
    """Of a message, the place of its sender in the group."""
    is_from_any: bool = False
    """Whether it is received from whoever sends first: `parts` are there when it is known who that is."""
    label: str = ""
    unit: UnitOf | None = None
    """Of what a job scheduler sends as one."""
    called_s: float = 0.0
    ended_s: float | None = None

    @property
    def name(self) -> str:
        """For errors: what it is."""
        return f"{self.kind}{f' ({self.label})' if self.label else ''} among ranks {', '.join(map(str, self.group))}"


@dataclass(frozen=True)
class Called:
    """The program called an operation at `time_s`; it had been computing since it last did anything."""

    operation: Operation
    time_s: float


@dataclass(frozen=True)
class Waited:
    """The program waited for operations from `time_s` to `until_s`."""

    operations: tuple[Operation, ...]
    time_s: float
    until_s: float


@dataclass
class Iteration:
    """One iteration of this rank: from one optimizer step to the next."""

    start_s: float
    events: list[Called | Waited] = field(default_factory=list)
    end_s: float = 0.0

    def note(self, event: Called | Waited) -> None:
        """Add an event, if there are not too many."""
        if len(self.events) < MOST_EVENTS:
            self.events.append(event)


class Observer:
    """Notes what this process does. `on_iteration` is called at each end of an iteration, in the program's own thread.

    `pace` is called whenever the program has computed, before that counts as over, with the number of the event that follows (None: the end of
    the iteration). Whoever stretches computation does it there. `resumed` is called when the program has waited, with the moment at which what it
    waited for had ended, and that at which it went on.
    """

    def __init__(self) -> None:
        self.on_iteration: Callable[[Iteration], None] = lambda _: None
        self.pace: Callable[[int | None], None] = lambda _: None
        self.resumed: Callable[[float, float], None] = lambda _, __: None
        self.current = Iteration(time.monotonic())
        self._lock = threading.Lock()
        self._unseen: list[Operation] = []
        """Operations whose futures were taken, and for which nobody was seen to wait."""
        self._since_s: float | None = None
        """When the backward pass had computed all, until the program is heard of again."""
        self._watched_pass = -1
        self._optimizer: object | None = None
        self._is_aside = False
        self._unit: UnitOf | None = None
        self._hook: Any = None

    def watch_optimizers(self) -> None:
        """From now on steps of the first optimizer that makes one are ends of iterations."""
        if self._hook is None:
            self._hook = register_optimizer_step_post_hook(self._stepped)

    def called(self, operation: Operation) -> None:
        """The program calls an operation, and goes on."""
        with self._lock:
            self._settle()
        self.pace(len(self.current.events))
        operation.unit = self._unit
        operation.called_s = time.monotonic()
        with self._lock:
            self.current.note(Called(operation, operation.called_s))

    @contextlib.contextmanager
    def calling_for(self, unit: UnitOf) -> Iterator[None]:
        """Operations that are called within it carry a unit."""
        self._unit = unit
        try:
            yield
        finally:
            self._unit = None

    @contextlib.contextmanager
    def not_a_step(self) -> Iterator[None]:
        """Steps of optimizers within it end no iteration."""
        self._is_aside = True
        try:
            yield
        finally:
            self._is_aside = False

    def ended(self, operation: Operation) -> None:
        """An operation is over."""
        operation.ended_s = time.monotonic()

    def future_taken(self, operation: Operation) -> None:
        """Somebody may wait for an operation without our seeing it: DDP does, at the end of the backward pass under way."""
        with self._lock:
            self._unseen.append(operation)
        task = torch._C._current_graph_task_id()
        if task not in {-1, self._watched_pass}:
            self._watched_pass = task
            torch.autograd.Variable._execution_engine.queue_callback(self._backward_computed)

    @contextlib.contextmanager
    def waiting_for(self, operation: Operation) -> Iterator[None]:
        """Around a wait of the program's."""
        with self._lock:
            self._settle()
        self.pace(len(self.current.events))
        begin_s = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                if operation in self._unseen:
                    self._unseen.remove(operation)
                until_s = time.monotonic()
                self.current.note(Waited((operation,), begin_s, until_s))
            self.resumed(until_s if operation.ended_s is None else operation.ended_s, until_s)

    def _backward_computed(self) -> None:
        """Called when a backward pass has computed all. What DDP has queued comes next, and waits."""
        self.pace(len(self.current.events))
        with self._lock:
            self._since_s = time.monotonic()

    def _settle(self) -> None:
        """The program goes on after a backward pass: it has waited there for what has ended since; the lock is held.

        A callback behind DDP's would say so at once. But one that is queued by another moves that one's memory while it runs.
        """
        if self._since_s is None:
            return
        since_s, self._since_s = self._since_s, None
        ended = [(each, each.ended_s) for each in self._unseen if each.ended_s is not None]
        self._unseen = [each for each in self._unseen if each.ended_s is None]
        if ended:
            ended_s = max(at_s for _, at_s in ended)
            until_s = max(since_s, ended_s)
            self.current.note(Waited(tuple(each for each, _ in ended), since_s, until_s))
            self.resumed(ended_s, until_s)

    def _stepped(self, optimizer: object, *_: Any) -> None:
        if self._is_aside:
            return
        if self._optimizer is None:
            self._optimizer = optimizer
        if optimizer is not self._optimizer:
            return
        with self._lock:
            self._settle()
        self.pace(None)
        now_s = time.monotonic()
        ended, ended.end_s = self.current, now_s
        self.current = Iteration(now_s)
        self.on_iteration(ended)
        self.current.start_s = time.monotonic()
