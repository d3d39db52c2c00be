"""`after:` of jobs in an experiment file: which begin where others have ended, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from echelon.experiment.specs import ExperimentSpec
from echelonflow.model.dag import Job
from echelonflow.model.following import why_not_after

_BESIDE = {
    "start": "it begins when the other job has ended; leave one of the two away",
    "count": "only one job can come after another; write each of them",
}


def jobs_after_others(spec: ExperimentSpec, jobs: Sequence[Job]) -> Iterator[str]:
    """What is wrong with jobs that come after others, a line for each; `jobs` are those that could be made."""
    by_name = {job.name: job for job in jobs}
    later = [(i, job) for i, job in enumerate(spec.jobs) if job.after is not None]
    if later and spec.queue is not None:
        yield "queue: does not go with jobs that come `after` others, which are where those are; list their hosts"
        return
    if later and spec.window == "steady":
        yield "window: steady does not go with jobs that come `after` others: they never all run at once; write all, or two moments"
    for i, job in later:
        yield from (
            f"jobs.{i}.{key}: does not go with after: {why}"
            for key, why in _BESIDE.items()
            if key in job.model_fields_set
        )
        # Where a job is at fault itself, who comes after it cannot be checked.
        if job.name in by_name and (job.after in by_name or not _is_written(job.after, spec)):
            why = why_not_after(by_name[job.name], by_name)
            if why is not None:
                yield f"jobs.{i}.after: {why}"


def _is_written(name: str | None, spec: ExperimentSpec) -> bool:
    return any(job.name == name and job.count == 1 for job in spec.jobs)
