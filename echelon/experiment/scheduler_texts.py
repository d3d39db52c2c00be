"""Job schedulers that a command line gives to the jobs of an experiment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from echelonflow.errors import InputError
from echelonflow.spelling import unknown
from traffic.workloads import job_schedulers, paradigms

_OF_JOB = re.compile(r"([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)


def with_schedulers(data: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """`data` of an experiment file with these job schedulers, each "p3" or, for one job alone, "job=p3".

    Without a job it is that of every job whose paradigm takes one. Raises InputError for a scheduler that is none, a job
    that is not there, and where no job takes one.
    """
    jobs = data.get("jobs")
    if not isinstance(jobs, list):  # which is a fault of the file, and reported as such
        return data
    changed = [dict(job) if isinstance(job, dict) else job for job in jobs]
    taking = paradigms.taking_schedulers()
    for text in texts:
        match = _OF_JOB.fullmatch(text)
        name, scheduler = (match[1], match[2]) if match else (None, text)
        try:
            job_schedulers.load(scheduler)
        except InputError as error:
            raise InputError("\n".join(f"--scheduler {line}" for line in str(error).split("\n"))) from None
        named = [job for job in changed if isinstance(job, dict)]
        if name is None:
            chosen = [job for job in named if job.get("paradigm") in taking]
            if not chosen:
                raise InputError(
                    f"--scheduler {text}: no job takes a job scheduler; those of paradigm {' and '.join(taking)} do"
                )
        else:
            chosen = [job for job in named if job.get("name") == name]
            if not chosen:
                there = [str(job.get("name")) for job in named]
                raise InputError(f"--scheduler {text}: there is no job {name!r}{unknown(name, there)}")
        for job in chosen:
            job["scheduler"] = scheduler
    return {**data, "jobs": changed}
