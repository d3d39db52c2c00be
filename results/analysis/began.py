"""When jobs that come after others began in a run: its agents tell what ended on each rank, and what was held back there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from echelonflow.model.dag import Job, rank_of
from echelonflow.model.flow_key import FlowKey
from echelonflow.model.following import begins_after
from echelonflow.records.run_record import ComputeRecord


def began_s(
    computes: Iterable[ComputeRecord], held_s: Mapping[FlowKey, float], jobs: Sequence[Job]
) -> dict[str, float]:
    """By job: when the first steps of its last rank might begin, in seconds since the run's zero; without jobs that did not get so far.

    `held_s` says by job, iteration and host when iterations were to begin that did so later than the job before had ended.
    """
    by_name = {job.name: job for job in jobs}
    later = [job for job in jobs if job.after in by_name]
    if not later:
        return {}
    ended_s = {(c.job, c.iteration, c.step): c.finish_s - c.late_s for c in computes}
    found = {}
    for job in later:
        waits_for = begins_after(job, by_name)
        if all(key in ended_s for keys in waits_for.values() for key in keys):
            hosts = {name: job.placement[rank_of(job.dag.by_name[name])] for name in waits_for}
            found[job.name] = max(
                max([held_s.get((job.name, 0, hosts[name]), 0.0), *(ended_s[key] for key in keys)])
                for name, keys in waits_for.items()
            )
    return found
