"""What a program was seen to do, held against what it does now: which of its computations is over, and what was to last how long."""

from __future__ import annotations

import time
from collections.abc import Callable

from echelonflow.model.dag import Compute, Job
from echelonflow.records.observed import step_of

OnComputed = Callable[[int, Compute, float, float, float], None]
"""Iteration, step, start, when it was to end, when it did; in seconds of CLOCK_MONOTONIC."""


class Rehearsal:
    """The computations of one rank of `job`, in the iterations that count.

    Where computation is `profiled`, what ends too early lasts until it should have ended: a GPU that takes so long. What ends too late is
    late by that. The next one begins when this one was due, as it does in a replay, so that being late does not add up. Or it begins when an operation
    has ended that the program waits for: a GPU goes on then, even while the thread that waits has yet to get the processor. Elsewhere a
    computation takes what it takes, whatever was seen before: it begins when the program goes on, and is due when it ends.
    """

    def __init__(self, job: Job, rank: int, profiled: bool, on_computed: OnComputed) -> None:
        self._steps = {step.name: step for step in job.dag.computes if step.rank == rank}
        self._rank, self._on_computed = rank, on_computed
        self.since_s = 0.0
        """When the computation under way began."""
        self._seen: set[str] = set()
        self.iteration = -1
        self.computed = 0
        """Computations that have ended."""
        self.overran: int | None = 0 if profiled else None
        """Of these, how many took longer than their profile by more than a hundredth; None where they have no profile."""

    def begin_iteration(self, iteration: int, since_s: float) -> None:
        """An iteration begins, with a computation since `since_s`."""
        self.iteration, self.since_s = iteration, since_s
        self._seen.clear()

    def resumed(self, ended_s: float, until_s: float) -> None:
        """The program has waited for what had ended at `ended_s`, and goes on since `until_s`."""
        self.since_s = until_s if self.overran is None else max(self.since_s, ended_s)

    def pace(self, event: int | None) -> None:
        """The program has computed up to its event of that number, None up to the end of the iteration. Returns when that is due."""
        name = step_of(self._rank, event)
        step = self._steps.get(name)
        if step is None or name in self._seen:
            return
        self._seen.add(name)
        start_s, now_s = self.since_s, time.monotonic()
        self.computed += 1
        if self.overran is None:
            due_s = now_s
        else:
            due_s = start_s + step.duration_s
            self.overran += now_s > due_s + step.duration_s / 100
            while now_s < due_s:
                time.sleep(due_s - now_s)
                now_s = time.monotonic()
        self.since_s = due_s
        self._on_computed(self.iteration, step, start_s, due_s, now_s)
