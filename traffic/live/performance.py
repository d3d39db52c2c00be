"""The iterations of a program that count: those for which flows are declared, and to which the scheduler attends.

A program warms up first, over links that nobody schedules, as DDP changes its buckets after the first iteration. Then the agents of all ranks of all
programs declare and connect, and wait for each other. That is the run's zero, at which all programs begin their first iteration that counts.

A program that changes in mid-run has several phases, each a job of its own. What it does between two of them goes by links again, and counts for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch.distributed as dist

from echelonflow.errors import EchelonError, RunError
from echelonflow.records.agent_log import AgentLog
from echelonflow.records.live_part import Departure, LiveOutcome, LivePart, write_live_outcome
from echelonflow.records.observed import read_observed
from echelonflow.records.phases import InPhase, counted_before, in_phase
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
        self._part, self._observer, self._phases = part, observer, part.phases
        self._plan = read_plan(Path(part.plan))
        assert part.lesson is not None
        self._lesson = Lesson(read_observed(Path(part.lesson)), part.phases)
        self._engine: Engine | None = None
        self._iterations_seen = 0
        self._agent: LiveAgent | None = None
        self._rehearsals: Sequence[Rehearsal] = ()
        """Of each phase."""
        self._is_over = False
        self._declared: Sequence[frozenset[str]] = ()
        """Of each phase: exchanges that have flows, of any rank's."""
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
        return self._iterations_seen + 1 == self._phases[0].first

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
        agent = self._agent
        if agent is None or self._is_over:
            return False
        when = in_phase(self._phases, self._iterations_seen)
        if self._departure is None:
            self._depart(self._lesson.departure(operation, part, when), self._iterations_seen)
        place = self._lesson.place_of(operation, part)
        is_declared = place is not None and place.name in self._declared[place.phase]
        by_flows = self._departure is None and is_declared
        sent_bytes = sum(part.sent_bytes.values())
        if by_flows:
            self._scheduled_bytes += sent_bytes
        elif when is not None or place is not None:
            self._other_bytes += sent_bytes
        if place is None or not is_declared:
            return False
        agent.submit(Assigned(part.key, place, by_flows), operation.called_s, exchange, on_done)
        return True

    def _depart(self, how: str | None, iteration: int) -> None:
        if how is not None and self._agent is not None:
            self._departure = Departure(counted_before(self._phases, iteration), how)
            self._agent.depart()

    def iterated(self) -> None:
        """The program has ended an iteration. The next one begins when this returns, which may be later than it could."""
        self._iterations_seen += 1
        try:
            if self._iterations_seen == self._phases[0].first:
                self._begin()
            elif self._agent is not None and not self._is_over:
                self._next(self._agent)
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
            number = counted_before(self._phases, self._iterations_seen)
            self._agent.give_up(f"job {self._part.job!r}: the program ended after {number} iterations that count")

    def _begin(self) -> None:
        part = self._part
        assert self._engine is not None
        otherwise = self._lesson.otherwise_before()
        if otherwise is not None:
            raise RunError(f"rank {part.rank} did otherwise than in the lesson while it warmed up: {otherwise}")
        connections.allow_one_for_every_flow()
        records, jobs = AgentLog(Path(part.records)), [phase.job for phase in self._phases]
        agent = LiveAgent(self._plan, jobs, part.rank, part.host, Path(part.socket), records, self._engine)
        self._declared = agent.declared
        self._rehearsals = [
            Rehearsal(job, part.rank, part.profiled, partial(agent.computed, job.name)) for job in agent.jobs
        ]
        self._agent = agent
        self._begin_iteration(agent, InPhase(0, 0), agent.start())

    def _next(self, agent: LiveAgent) -> None:
        ended, begins = (in_phase(self._phases, self._iterations_seen - back) for back in (1, 0))
        if ended is not None and self._departure is None:
            self._depart(self._lesson.not_called(ended), self._iterations_seen - 1)
        if self._iterations_seen == self._phases[-1].end:
            self._finish(agent)
        elif begins is None:
            self._let_go()
        else:
            if not begins.iteration and self._departure is None:
                otherwise = self._lesson.otherwise_before(begins.phase)
                before = f"before it became job {self._phases[begins.phase].job} "
                self._depart(None if otherwise is None else before + otherwise, self._iterations_seen)
            ready_s = time.monotonic() if ended is None else self._rehearsals[ended.phase].since_s
            self._begin_iteration(agent, begins, ready_s)

    def _let_go(self) -> None:
        """What the program computes from now on takes what it takes, and is nobody's."""
        self._observer.pace, self._observer.resumed = (lambda _: None), (lambda _, __: None)

    def _finish(self, agent: LiveAgent) -> None:
        self._is_over = True
        self._let_go()
        agent.finish()
        overran = [each.overran for each in self._rehearsals if each.overran is not None]
        outcome = LiveOutcome(
            job=self._part.job,
            rank=self._part.rank,
            computed=sum(each.computed for each in self._rehearsals),
            overran=sum(overran) if overran else None,
            scheduled_bytes=self._scheduled_bytes,
            other_bytes=self._other_bytes,
            departure=self._departure,
        )
        write_live_outcome(Path(self._part.outcome), outcome)

    def _begin_iteration(self, agent: LiveAgent, when: InPhase, ready_s: float) -> None:
        begin_s = agent.held_until_s(when, ready_s)
        while (left_s := begin_s - time.monotonic()) > 0:
            time.sleep(left_s)
        rehearsal = self._rehearsals[when.phase]
        self._observer.pace, self._observer.resumed = rehearsal.pace, rehearsal.resumed
        rehearsal.begin_iteration(when.iteration, begin_s)
