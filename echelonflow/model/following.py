"""Jobs that come after others: on each rank such a job begins when the rank has ended the one before. Pure.

A rank has ended a job when all its computations of the job's last iteration have ended. Nothing passes between ranks for that: as in a
program that goes on with something else, each begins by itself. What it has sent may still be on its way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from echelonflow.errors import InputError
from echelonflow.model.dag import Job, rank_of
from echelonflow.model.flow_key import FlowKey
from echelonflow.spelling import unknown


class Following:
    """Which of some jobs begin on a rank, as computations end there. InputError where one cannot come after the one that it names."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        by_name = {job.name: job for job in jobs}
        self._last: dict[str, int] = {}
        """By job that others come after: its last iteration."""
        self._left: dict[str, Counter[int]] = {}
        """Of that, how many computations each rank has yet to end."""
        self._after: defaultdict[str, list[str]] = defaultdict(list)
        for job in by_name.values():
            if job.after is None:
                continue
            why = why_not_after(job, by_name)
            if why is not None:
                raise InputError(f"job {job.name}: {why}")
            before = by_name[job.after]
            self._after[before.name].append(job.name)
            self._last[before.name] = before.iterations - 1
            self._left[before.name] = Counter(step.rank for step in before.dag.computes)

    def computed(self, job: str, iteration: int, rank: int) -> list[str]:
        """A computation has ended; returns the jobs that begin on its rank now."""
        if self._last.get(job) != iteration:
            return []
        left = self._left[job]
        left[rank] -= 1
        return list(self._after[job]) if not left[rank] else []


def why_not_after(job: Job, by_name: Mapping[str, Job]) -> str | None:
    """Why a job cannot come after the one that it names; None if it can."""
    assert job.after is not None, "only such jobs are asked about"
    if job.after not in by_name:
        return f"there is no job {job.after!r}{unknown(job.after, by_name)}"
    seen, at = [job.name], by_name[job.after]
    while at.name not in seen:
        seen.append(at.name)
        if at.after is None or at.after not in by_name:
            break
        at = by_name[at.after]
    else:
        return f"each of {', '.join(seen[seen.index(at.name) :])} waits for another of them, so that none begins"
    before = by_name[job.after]
    if job.placement != before.placement:
        return (
            f"it is on {', '.join(job.placement)}, and {before.name} on {', '.join(before.placement)}; give both the same placement, "
            "a list of hosts"
        )
    idle = sorted(set(range(before.dag.ranks)) - {step.rank for step in before.dag.computes})
    if idle:
        return f"rank {idle[0]} of {before.name} computes nothing, so that nothing says when it has ended"
    return None


def begins_after(job: Job, by_name: Mapping[str, Job]) -> dict[str, tuple[FlowKey, ...]]:
    """By first step of a job: the computations of the job before it that must have ended; nothing where it comes after none."""
    before = None if job.after is None else by_name.get(job.after)
    if before is None:
        return {}
    computed: defaultdict[int, list[FlowKey]] = defaultdict(list)
    for step in before.dag.computes:
        computed[step.rank].append((before.name, before.iterations - 1, step.name))
    return {name: tuple(computed[rank_of(job.dag.by_name[name])]) for name in job.first_steps}
