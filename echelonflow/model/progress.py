"""Which steps of a job may start now: the same bookkeeping for the simulator and for agents.

Pure: it is told what finished and answers what became ready. It knows no times.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from echelonflow.errors import RunError
from echelonflow.model.dag import Job, rank_of

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
        dag, owned_steps = job.dag, self._owned
        self._followers = {name: [f for f in dag.followers[name] if f in owned_steps] for name in dag.by_name}
        self._next_followers = {name: [f for f in dag.next_followers[name] if f in owned_steps] for name in dag.by_name}
        self._needs_at_first = {name: len(dag.by_name[name].after) for name in owned_steps}
        self._needs = {name: needs + len(dag.previous[name]) for name, needs in self._needs_at_first.items()}
        if job.after is not None:  # its first steps also wait for their rank to begin
            for name in job.first_steps & owned_steps:
                self._needs_at_first[name] += 1
        self._waiting: dict[StepKey, int] = {}
        self._unfinished = len(self._owned) * job.iterations

    @property
    def done(self) -> bool:
        """Whether all owned steps of all iterations have finished."""
        return self._unfinished == 0

    def start(self) -> list[StepKey]:
        """The steps that wait for nothing, in all iterations; of a job that comes after no other."""
        ready: list[StepKey] = []
        for step in self._job.dag.steps:
            if step.name in self._owned and not step.after:
                ready.append((0, step.name))
                self._add_later(step.name, ready)
        return ready

    def start_rank(self, rank: int) -> list[StepKey]:
        """The same of a rank, which has ended the job before this one; some may wait for what other ranks send."""
        ready: list[StepKey] = []
        for step in self._job.dag.steps:
            if rank_of(step) == rank and step.name in self._job.first_steps & self._owned:
                self._satisfy(0, [step.name], ready)
                if not step.after:
                    self._add_later(step.name, ready)
        return ready

    def _add_later(self, name: str, ready: list[StepKey]) -> None:
        """A step that waits for nothing of the iteration before is ready in all of them."""
        if not self._job.dag.previous[name]:
            ready.extend((iteration, name) for iteration in range(1, self._job.iterations))

    def finish(self, iteration: int, name: str) -> list[StepKey]:
        """Note that a step (owned or not) has finished; returns the owned steps that became ready."""
        if name in self._owned:
            self._unfinished -= 1
        ready: list[StepKey] = []
        self._satisfy(iteration, self._followers[name], ready)
        if iteration + 1 < self._job.iterations:
            self._satisfy(iteration + 1, self._next_followers[name], ready)
        return ready

    def _satisfy(self, iteration: int, names: Sequence[str], ready: list[StepKey]) -> None:
        """One thing less that these steps wait for; those for which it was the last are appended to `ready`."""
        waiting = self._waiting
        needs = self._needs if iteration > 0 else self._needs_at_first
        for name in names:
            key = (iteration, name)
            left = waiting.get(key, needs[name])
            if left > 1:
                waiting[key] = left - 1
                continue
            if left < 1:
                raise RunError(
                    f"step {name!r} of iteration {iteration} was satisfied more often than it has dependencies"
                )
            waiting.pop(key, None)
            ready.append(key)
