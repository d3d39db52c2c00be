"""The iterations of a program that count: those for which flows are declared, and to which the scheduler attends.

A program warms up first, over links that nobody schedules, as DDP changes its buckets after the first iteration. Then the agents of all ranks of all
programs declare and connect, and wait for each other. That is the run's zero, at which all programs begin their first iteration that counts.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch.distributed as dist

from echelonflow.errors import EchelonError, RunError
from echelonflow.records.agent_log import AgentLog
from echelonflow.records.live_part import Departure, LiveOutcome, LivePart, write_live_outcome
from echelonflow.records.observed import exchange_of, read_observed
from echelonflow.records.plan import read_plan
from traffic.agent import connections
from traffic.live.engine import Engine
from traffic.live.exchange import Exchange
from traffic.live.lesson import Lesson
from traffic.live.observing import Observer, Operation, Part
from traffic.live.rehearsal import Rehearsal
from traffic.live.running import OnDone
from traffic.live.scheduled import Assigned, LiveAgent


class Performance:
    """The part of one process in a run; all but `fail` is called by the program's own threads."""

    def __init__(self, part: LivePart, observer: Observer) -> None:
        assert part.plan is not None  # whoever only observes has no part in a run
        self._part, self._observer = part, observer
        self._plan = read_plan(Path(part.plan))
        assert part.lesson is not None
        self._lesson = Lesson(read_observed(Path(part.lesson)), part.warm_up)
        self._engine: Engine | None = None
        self._iterations_seen = 0
        self._agent: LiveAgent | None = None
        self._rehearsal: Rehearsal | None = None
        self._is_over = False
        self._declared: frozenset[str] = frozenset()
        """Exchanges that have flows, of any rank's."""
        self._scheduled_bytes = self._other_bytes = 0
        self._departure: Departure | None = None
        """Where the program first did otherwise than in the lesson."""

    @property
    def send_buffer_bytes(self) -> int:
        """SO_SNDBUF of every connection of the run."""
        return self._plan.send_buffer_bytes

    @property
    def begins_next(self) -> bool:
        """Whether the iteration that ends is the last one of warming up."""
        return self._iterations_seen + 1 == self._part.warm_up

    def attach(self, engine: Engine) -> None:
        """`engine` has the links that nobody schedules."""
        self._engine = engine
        engine.on_failure, engine.on_parting = self.fail, self._part_from

    def submit(self, operation: Operation, part: Part, exchange: Exchange, on_done: OnDone) -> bool:
        """Carry out an exchange that has declared flows; False for one that has none.

        From the first exchange on that is not as in the lesson, links carry what this rank sends. All ranks know alike which exchanges have
        flows, and receive them either way. So nobody need be told.
        """
        self._lesson.note(operation, part)
        agent, rehearsal = self._agent, self._rehearsal
        if agent is None or rehearsal is None or self._is_over:
            return False
        if self._departure is None:
            self._depart(self._lesson.departure(operation, part, rehearsal.iteration))
        place = self._lesson.place_of(operation, part)
        by_flows = self._departure is None and place is not None and place.name in self._declared
        sent_bytes = sum(part.sent_bytes.values())
        if by_flows:
            self._scheduled_bytes += sent_bytes
        else:
            self._other_bytes += sent_bytes
        if place is None or place.name not in self._declared or place.iteration >= agent.job.iterations:
            return False
        agent.submit(Assigned(part.key, place, by_flows), operation.called_s, exchange, on_done)
        return True

    def _depart(self, how: str | None) -> None:
        if how is not None and self._agent is not None and self._rehearsal is not None:
            self._departure = Departure(self._rehearsal.iteration, how)
            self._agent.depart()

    def iterated(self) -> None:
        """The program has ended an iteration. The next one begins when this returns, which may be later than it could."""
        self._iterations_seen += 1
        number = self._iterations_seen - self._part.warm_up
        try:
            if number == 0:
                self._begin()
            elif self._agent is not None and not self._is_over:
                self._next(number)
        except EchelonError as error:
            if self._engine is not None:
                self._engine.fail(str(error))
            raise dist.DistBackendError(str(error)) from None

    def fail(self, why: str) -> None:
        """Links that nobody schedules are lost: another rank has gone."""
        if self._agent is not None and not self._is_over:
            self._agent.fail(why)

    def _part_from(self, rank: int, why: str) -> None:
        if self._agent is not None and not self._is_over:
            self._agent.part_from(rank, why)

    def close(self) -> None:
        """The program ends: it was to have done all its iterations by now."""
        if self._agent is not None and not self._is_over:
            number = max(self._iterations_seen - self._part.warm_up, 0)
            self._agent.give_up(f"job {self._part.job!r}: the program ended after {number} iterations that count")

    def _begin(self) -> None:
        part = self._part
        assert self._engine is not None
        otherwise = self._lesson.otherwise_before()
        if otherwise is not None:
            raise RunError(otherwise)
        connections.allow_one_for_every_flow()
        records = AgentLog(Path(part.records))
        agent = LiveAgent(self._plan, part.job, part.rank, part.host, Path(part.socket), records, self._engine)
        self._declared = frozenset(map(exchange_of, agent.sizes_bytes))
        self._rehearsal = Rehearsal(agent.job, part.rank, part.profiled, agent.computed)
        self._observer.pace, self._observer.resumed = self._rehearsal.pace, self._rehearsal.resumed
        self._agent = agent
        self._begin_iteration(0, agent.start())

    def _next(self, number: int) -> None:
        assert self._agent is not None
        assert self._rehearsal is not None
        if self._departure is None:
            self._depart(self._lesson.not_called(number))
        if number < self._agent.job.iterations:
            self._begin_iteration(number, self._rehearsal.since_s)
            return
        self._is_over = True
        self._observer.pace, self._observer.resumed = (lambda _: None), (lambda _, __: None)
        self._agent.finish()
        outcome = LiveOutcome(
            job=self._part.job,
            rank=self._part.rank,
            computed=self._rehearsal.computed,
            overran=self._rehearsal.overran,
            scheduled_bytes=self._scheduled_bytes,
            other_bytes=self._other_bytes,
            departure=self._departure,
        )
        write_live_outcome(Path(self._part.outcome), outcome)

    def _begin_iteration(self, number: int, ready_s: float) -> None:
        assert self._agent is not None
        assert self._rehearsal is not None
        begin_s = self._agent.held_until_s(number, ready_s)
        while (left_s := begin_s - time.monotonic()) > 0:
            time.sleep(left_s)
        self._rehearsal.begin_iteration(number, begin_s)
