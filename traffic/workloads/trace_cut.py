"""A trace made short enough to be simulated, under the load that it has: fewer jobs, fewer iterations, arrivals to match."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from echelonflow.errors import InputError
from echelonflow.model.units import format_duration
from traffic.workloads.job_traces import TracedJob

_DAY_S = 86_400.0


def cut(
    jobs: Sequence[TracedJob],
    *,
    most_jobs: int | None = None,
    cut: float = 1.0,
    most_iterations: int | None = None,
    speed_up: float = 1.0,
) -> tuple[list[TracedJob], list[str]]:
    """The first jobs to arrive, with fewer iterations, and in words what was done.

    Iterations are divided by `cut`, at least one being left, and are `most_iterations` at most. Arrivals are brought together by
    as much as the work of all jobs shrinks by that. So the *load* stays: GPU-seconds that are asked for in a second, from
    the first arrival to the last. Then arrivals come `speed_up` times as fast, and the load grows as much. The first one is at 0.
    Raises InputError where there are fewer jobs than are asked for.
    """
    if most_jobs is not None and most_jobs > len(jobs):
        raise InputError(f"jobs: {most_jobs:,} are asked for; the trace has {len(jobs):,}")
    chosen = list(jobs[:most_jobs])
    short = [dataclasses.replace(job, iterations=_left(job.iterations, cut, most_iterations)) for job in chosen]
    before_s, after_s = (sum(job.work_s for job in each) for each in (chosen, short))
    first_s, factor = chosen[0].arrival_s, before_s / after_s * speed_up
    made = [dataclasses.replace(job, arrival_s=(job.arrival_s - first_s) / factor) for job in short]
    return made, _in_words(jobs, chosen, made, speed_up)


def _left(iterations: int, cut: float, most: int | None) -> int:
    left = max(1, round(iterations / cut))
    return left if most is None else min(left, most)


def _in_words(
    jobs: Sequence[TracedJob], chosen: Sequence[TracedJob], made: Sequence[TracedJob], speed_up: float
) -> list[str]:
    lines = []
    if len(chosen) < len(jobs):
        lines.append(f"{len(jobs) - len(chosen):,} jobs, all but the first {len(chosen):,} to arrive")
    before, after = (sum(job.iterations for job in each) for each in (chosen, made))
    if after < before:
        whole = sum(a.iterations < b.iterations for a, b in zip(made, chosen, strict=True))
        lines.append(
            f"{before - after:,} of {before:,} iterations, of {whole:,} jobs; "
            f"{sum(job.iterations == 1 for job in made):,} jobs have one left"
        )
    spans_s = [each[-1].arrival_s - each[0].arrival_s for each in (chosen, made)]
    if spans_s[1] < spans_s[0]:
        lines.append(
            f"of the {_span_in_words(spans_s[0])} over which jobs arrive all but {_span_in_words(spans_s[1])}: "
            f"{_load_in_words(made)}"
            + (f", {speed_up:g} times that of the trace" if speed_up != 1 else ", as in the trace")
        )
    return lines


def _load_in_words(jobs: Sequence[TracedJob]) -> str:
    found = load(jobs)
    return "the load" if found is None else f"a load of {found:.4g} GPUs"


def _span_in_words(span_s: float) -> str:
    return format_duration(span_s) if span_s < _DAY_S else f"{span_s / _DAY_S:.4g} days"


def load(jobs: Sequence[TracedJob]) -> float | None:
    """GPUs that would be in use on average from the first arrival to the last, if all that is asked for ran at once; None where all arrive at once."""
    span_s = jobs[-1].arrival_s - jobs[0].arrival_s
    return sum(job.work_s for job in jobs) / span_s if span_s > 0 else None
