"""How far jobs are and how late they were, for who watches: counted as flows come and go, in constant time for each.

Pure: times are arguments, in seconds since the run's zero. No decision depends on any of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from echelonflow.model.flow_key import FlowKey
from echelonflow.wire.live import MOST_GROUPS, MOST_JOBS, JobLive


@dataclass(slots=True)
class _Job:
    """One job so far."""

    iteration: int
    began_s: float
    lasted_s: float | None = None
    ended_groups: int = 0
    tardiness_s: float = 0.0
    worst_tardiness_s: float = 0.0


@dataclass(slots=True)
class _InFlight:
    """What a job has in flight."""

    flows: int = 0
    groups: set[str] = field(default_factory=set)
    late_s: float | None = None


class JobBooks:
    """Iterations that have begun and groups that have ended, by job."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}

    def release(self, job: str, iteration: int, release_s: float) -> None:
        """A flow of an iteration is released."""
        known = self._jobs.get(job)
        if known is None:
            self._jobs[job] = _Job(iteration, release_s)
        elif iteration > known.iteration:
            # Where iterations were left out, such as by a controller that was away, nobody knows how long one lasted.
            known.lasted_s = release_s - known.began_s if iteration == known.iteration + 1 else None
            known.iteration, known.began_s = iteration, release_s
        elif iteration == known.iteration:
            known.began_s = min(known.began_s, release_s)

    def end_group(self, job: str, tardiness_s: float) -> None:
        """All flows of a group have ended in an iteration, the worst of them so late."""
        known = self._jobs.get(job)
        if known is not None:
            known.ended_groups += 1
            known.tardiness_s += tardiness_s
            known.worst_tardiness_s = max(known.worst_tardiness_s, tardiness_s)

    def forget(self, jobs: Collection[str]) -> None:
        """Forget jobs that have gone."""
        for job in jobs:
            self._jobs.pop(job, None)

    def __len__(self) -> int:
        return len(self._jobs)

    def describe(self, in_flight: Iterable[tuple[FlowKey, str, float]]) -> tuple[JobLive, ...]:
        """The first jobs by name; `in_flight` has each flow's key, its group, and how long it is past its ideal finish."""
        names = sorted(self._jobs)[:MOST_JOBS]
        flying = {name: _InFlight() for name in names}
        for (job, _, _), group, late_s in in_flight:
            of_job = flying.get(job)
            if of_job is not None:
                of_job.flows += 1
                of_job.groups.add(group)
                of_job.late_s = late_s if of_job.late_s is None else max(of_job.late_s, late_s)
        return tuple(_described(name, self._jobs[name], flying[name]) for name in names)


def _described(name: str, job: _Job, flying: _InFlight) -> JobLive:
    return JobLive(
        job=name,
        iteration=job.iteration,
        began_s=job.began_s,
        lasted_s=job.lasted_s,
        groups=tuple(sorted(flying.groups)[:MOST_GROUPS]),
        groups_in_flight=len(flying.groups),
        flows_in_flight=flying.flows,
        late_s=flying.late_s,
        ended_groups=job.ended_groups,
        tardiness_s=job.tardiness_s,
        worst_tardiness_s=job.worst_tardiness_s,
    )
