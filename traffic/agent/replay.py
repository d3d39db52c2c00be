"""One host's part of the jobs as a state machine: told what happened and when, it says what to do.

Pure: no sockets, no clock. Times are seconds on any one clock that does not go back.

A computation starts at the moment its last input was complete. It ends after its duration, which may be drawn, by the clock and
not by when the agent woke up. An input that is itself a computation was complete when it was due. One that came over the
network was complete when its last byte was read. So a chain of computations never drifts, as it would not on a GPU; by how
much each end was noticed late is recorded. What leaves the host can leave only when it is noticed, so releases carry that
time.

A policy may hold back iterations (`echelonflow.model.slots`). The first of this host's steps that could begin one says when all of
its first steps may. What is held back begins at that moment by the clock, so it is not late.

A job that comes after another begins rank by rank: with the last computation of that one (`echelonflow.model.following`).

A job may hold back transfers that could leave (`echelonflow.model.discipline`). They are released when the core of their
rank has started their task. Where the end of a transfer makes others ready, and gives credit back as well, those that
become ready take part in what is chosen next.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from echelonflow.job_scheduling.gate import Gate
from echelonflow.model.dag import Compute, Job
from echelonflow.model.draws import Durations
from echelonflow.model.faults import Slowdowns
from echelonflow.model.following import Following
from echelonflow.model.progress import JobProgress, StepKey
from echelonflow.model.slots import HeldIterations, Slots
from traffic.agent.plan import host_of


@dataclass(frozen=True, slots=True)
class Computed:
    """A computation has ended; it was due at `due_s`, and noticed at `finish_s`."""

    job: str
    iteration: int
    step: Compute
    start_s: float
    due_s: float
    finish_s: float


@dataclass(frozen=True, slots=True)
class Released:
    """A transfer that leaves this host may be sent from `release_s` on.

    `ready_s` is when it could have been released, where its job held it back; None where it did not.
    """

    job: str
    iteration: int
    flow: str
    release_s: float
    ready_s: float | None = None


@dataclass(frozen=True, slots=True)
class HeldBack:
    """An iteration could begin here at `ready_s`, and is to begin at `begin_s`."""

    job: str
    iteration: int
    ready_s: float
    begin_s: float


Action = Computed | Released | HeldBack


class Steps(Protocol):
    """What an agent asks when something has happened: `Replay` is one, a program that runs here is another."""

    @property
    def done(self) -> bool: ...

    @property
    def next_due_s(self) -> float: ...

    def begin(self, zero_s: float) -> None: ...

    def advance(self, now_s: float) -> list[Action]: ...

    def hold_back(self, slots: Mapping[str, Slots]) -> None: ...

    def end_job(self, job: str) -> None: ...

    def arrived(self, job: str, iteration: int, flow: str, now_s: float) -> list[Action]: ...

    def acknowledged(self, job: str, iteration: int, flow: str, now_s: float) -> list[Action]: ...


class Replay:
    """The steps of `jobs` that `host` starts, and the transfers it receives.

    Every method first lets happen what was due by its `now_s`, and returns what must be done or recorded,
    in order.
    """

    def __init__(self, jobs: Sequence[Job], host: str, slowdowns: Slowdowns | None = None, repeat: int = 0) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._durations = {job.name: Durations(job, repeat) for job in jobs}
        self._host = host
        self._progress = {
            job.name: JobProgress(job, [s.name for s in job.dag.steps if host_of(job, s.name) == host]) for job in jobs
        }
        self._gates = {
            job.name: Gate(job, [rank for rank, placed in enumerate(job.placement) if placed == host]) for job in jobs
        }
        self._following = Following(jobs)
        self._is_local = {(job.name, step.name): job.is_local(step) for job in jobs for step in job.dag.transfers}
        self._ready_s: dict[str, dict[StepKey, float]] = {job.name: {} for job in jobs}
        """Of each job, since when transfers are ready that it holds back."""
        self._arrivals_missing = {job.name: arrivals(job, host) * job.iterations for job in jobs}
        self._held = {job.name: HeldIterations() for job in jobs}
        self._slowdowns = slowdowns
        self._zero_s = 0.0
        self._due: list[tuple[float, int, str, StepKey, float]] = []
        """Heap of (due, sequence number, job, step, start): ends of computations; an empty name starts the job."""
        self._sequence = 0

    @property
    def done(self) -> bool:
        """Whether all that this host starts has finished and all that it receives has arrived."""
        return not any(self._arrivals_missing.values()) and all(progress.done for progress in self._progress.values())

    @property
    def next_due_s(self) -> float:
        """When `advance` must be called next (infinite: only the network can bring news)."""
        return self._due[0][0] if self._due else math.inf

    def begin(self, zero_s: float) -> None:
        """Start the run: every job begins `start_s` after `zero_s`, unless it comes after another."""
        self._zero_s = zero_s
        for job in self._jobs.values():
            if job.after is None:
                self._push(zero_s + job.start_s, job.name, (0, ""), zero_s)

    def advance(self, now_s: float) -> list[Action]:
        """End the computations that were due by `now_s`, and what follows from that."""
        actions: list[Action] = []
        while self._due and self._due[0][0] <= now_s:
            due_s, _, name, (iteration, step_name), start_s = heapq.heappop(self._due)
            job, progress = self._jobs[name], self._progress[name]
            if not step_name:
                self._start(job, progress.start(), due_s, now_s, actions)
                continue
            step = job.dag.by_name[step_name]
            if not isinstance(step, Compute):  # a transfer that was held back with its iteration
                self._start(job, [(iteration, step_name)], due_s, now_s, actions)
                continue
            actions.append(Computed(name, iteration, step, start_s, due_s, now_s))
            self._start(job, progress.finish(iteration, step_name), due_s, now_s, actions)
            for follower in self._following.computed(name, iteration, step.rank):
                if follower in self._progress:  # which may have been ended
                    self._start(
                        self._jobs[follower], self._progress[follower].start_rank(step.rank), due_s, now_s, actions
                    )
        return actions

    def hold_back(self, slots: Mapping[str, Slots]) -> None:
        """From now on iterations begin in these slots, in seconds since the run's zero; those of other jobs when they can."""
        for job, held in self._held.items():
            held.slots = slots.get(job)

    def end_job(self, job: str) -> None:
        """A job is no more: nothing of it starts or is waited for."""
        del self._progress[job], self._gates[job], self._ready_s[job], self._arrivals_missing[job]
        self._due = [entry for entry in self._due if entry[2] != job]
        heapq.heapify(self._due)

    def arrived(self, job: str, iteration: int, flow: str, now_s: float) -> list[Action]:
        """The last byte of an incoming transfer was read at `now_s`."""
        self._arrivals_missing[job] -= 1
        return self._transferred(job, iteration, flow, now_s)

    def acknowledged(self, job: str, iteration: int, flow: str, now_s: float) -> list[Action]:
        """The last byte of an outgoing transfer was acknowledged, as seen at `now_s`."""
        return self._transferred(job, iteration, flow, now_s)

    def _transferred(self, name: str, iteration: int, flow: str, now_s: float) -> list[Action]:
        actions = self.advance(now_s)
        ready = self._progress[name].finish(iteration, flow)
        self._start(self._jobs[name], ready, now_s, now_s, actions, [(iteration, flow)])
        return actions

    def _start(
        self,
        job: Job,
        ready: list[StepKey],
        moment_s: float,
        now_s: float,
        actions: list[Action],
        ended: Sequence[StepKey] = (),
    ) -> None:
        """Start steps whose last input was complete at `moment_s`; local transfers take no time.

        What has `ended` may give credit back. That comes after all that became ready with it, so that the core chooses
        among all of it.
        """
        progress, gate, ready_s = self._progress[job.name], self._gates[job.name], self._ready_s[job.name]
        waiting, finished = deque(ready), deque(ended)
        while waiting or finished:
            if not waiting:
                released = gate.ended(*finished.popleft())
            else:
                iteration, name = waiting.popleft()
                step = job.dag.by_name[name]
                begin_s = moment_s
                if name in job.first_steps:
                    begin_s = self._begin_s(job.name, iteration, moment_s, actions)
                if isinstance(step, Compute):
                    duration_s = self._durations[job.name].of(iteration, step)
                    self._push(self._finish_s(begin_s, duration_s), job.name, (iteration, name), begin_s)
                    continue
                if begin_s > now_s:
                    self._push(begin_s, job.name, (iteration, name), begin_s)
                    continue
                released = gate.ready(iteration, name)
                if (iteration, name) not in released:
                    ready_s[iteration, name] = now_s
            for iteration, name in released:
                since_s = ready_s.pop((iteration, name), now_s)
                if self._is_local[job.name, name]:
                    waiting.extend(progress.finish(iteration, name))
                    finished.append((iteration, name))
                else:
                    actions.append(Released(job.name, iteration, name, now_s, since_s if since_s < now_s else None))

    def _begin_s(self, job: str, iteration: int, moment_s: float, actions: list[Action]) -> float:
        """When a step begins that is among the first of an iteration, and could begin at `moment_s`."""
        held = self._held[job]
        before = held.held
        begin_s = max(self._zero_s + held.begin_s(iteration, moment_s - self._zero_s), moment_s)
        if held.held > before:
            actions.append(HeldBack(job, iteration, moment_s, begin_s))
        return begin_s

    def _finish_s(self, start_s: float, duration_s: float) -> float:
        """When a computation that starts now ends: later than it would, where this host is planned to be slow."""
        if self._slowdowns is None:
            return start_s + duration_s
        return self._zero_s + self._slowdowns.finish_s(start_s - self._zero_s, duration_s)

    def _push(self, due_s: float, job: str, step: StepKey, start_s: float) -> None:
        heapq.heappush(self._due, (due_s, self._sequence, job, step, start_s))
        self._sequence += 1


def arrivals(job: Job, host: str) -> int:
    """Transfers that `host` receives from others in an iteration."""
    return sum(job.hosts_of(t)[1] == host != job.hosts_of(t)[0] for t in job.dag.transfers)
