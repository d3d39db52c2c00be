"""Which part of a run is shown: pictures and the timeline show one run of each policy, pictures one iteration of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from echelonflow.model.dag import Job
from echelonflow.records.run_record import RunRecord
from results.analysis.packets import Throughput
from results.analysis.planned import FaultShown
from results.analysis.rows import IterationRow, RunRows, run_rows

Pictures = Literal["none", "few", "all"]
"""What is drawn: nothing, as much as can be read, or everything, however long that takes."""

LATE_TOLD = 1e-6
"""Share of the shown time by which a flow may end after its ideal finish and not be called late: rounding."""


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run that is drawn: one iteration of every job that comes after no other, from `start_s` to `finish_s`."""

    iteration: int
    start_s: float
    finish_s: float


@dataclass(frozen=True, slots=True)
class ShownRun:
    """One run as it is shown: under a title, with its rows, and what arrived during the shown iteration."""

    title: str
    record: RunRecord
    rows: RunRows
    window: Window
    throughput: Throughput | None = None
    """None where no packets were captured."""
    faults: tuple[FaultShown, ...] = ()
    """The planned faults of the run."""

    @staticmethod
    def of(title: str, record: RunRecord, jobs: Sequence[Job]) -> ShownRun:
        """A run of `jobs` that no capture tells of (ValueError if it did not complete the shown iteration)."""
        rows = run_rows(record, jobs)
        part = window(rows.iterations, jobs)
        if part is None:
            raise ValueError(f"{title}: iteration {shown_iteration(jobs)} is not complete, so it cannot be shown")
        return ShownRun(title, record, rows, part)


def shown_iteration(jobs: Sequence[Job]) -> int:
    """The iteration that pictures show: the second where there is one (the first has no previous one to wait for)."""
    shown = (job for job in jobs if not job.is_background and job.after is None)
    return min(1, min((job.iterations for job in shown), default=1) - 1)


def window(iterations: Sequence[IterationRow], jobs: Sequence[Job]) -> Window | None:
    """Where the shown iteration lies in a run with these rows; None if the run did not complete it."""
    later = {job.name for job in jobs if job.after is not None}  # which begin when others have ended
    rows = [row for row in iterations if row.iteration == shown_iteration(jobs) and row.job not in later]
    if not rows:
        return None
    return Window(rows[0].iteration, min(row.start_s for row in rows), max(row.finish_s for row in rows))
