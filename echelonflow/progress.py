"""Which steps of a job may start now: the same bookkeeping for the simulator and for agents.

Pure: it is told what finished and answers what became ready. It knows no times.
"""

from __future__ import annotations

from collections.abc import Collection

from echelonflow.dag import Job
from echelonflow.errors import RunError

StepKey = tuple[int, str]
"""(iteration, step name)."""


class JobProgress:
    """Progress of one job, or of those of its steps that one host starts (`owned`; default all).

    A step of iteration k waits for the steps in its `after`, and for the steps of iteration k - 1 that
    `next_iteration` ties to it.
    """

    def __init__(self, job: Job, owned: Collection[str] | None = None) -> None:
        self._job = job
        self._owned = frozenset(job.dag.by_name if owned is None else owned)
        self._waiting: dict[StepKey, int] = {}
        self._unfinished = len(self._owned) * job.iterations

    @property
    def done(self) -> bool:
        """Whether all owned steps of all iterations have finished."""
        return self._unfinished == 0

    def start(self) -> list[StepKey]:
        """The steps that wait for nothing, in all iterations."""
        ready: list[StepKey] = []
        for step in self._job.dag.steps:
            if step.name in self._owned and not step.after:
                last = 1 if self._job.dag.previous[step.name] else self._job.iterations
                ready.extend((iteration, step.name) for iteration in range(last))
        return ready

    def finish(self, iteration: int, name: str) -> list[StepKey]:
        """Note that a step (owned or not) has finished; returns the owned steps that became ready."""
        if name in self._owned:
            self._unfinished -= 1
        ready = [key for f in self._job.dag.followers[name] if (key := self._satisfy(iteration, f))]
        if iteration + 1 < self._job.iterations:
            later = self._job.dag.next_followers[name]
            ready += [key for f in later if (key := self._satisfy(iteration + 1, f))]
        return ready

    def _satisfy(self, iteration: int, name: str) -> StepKey | None:
        if name not in self._owned:
            return None
        key = (iteration, name)
        if key not in self._waiting:
            before = self._job.dag.previous[name] if iteration > 0 else ()
            self._waiting[key] = len(self._job.dag.by_name[name].after) + len(before)
        self._waiting[key] -= 1
        if self._waiting[key] < 0:
            raise RunError(f"step {name!r} of iteration {iteration} was satisfied more often than it has dependencies")
        if self._waiting[key] > 0:
            return None
        del self._waiting[key]
        return key
