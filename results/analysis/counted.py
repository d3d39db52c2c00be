"""The iterations of a run that count, and the rows of its tables that tell of them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from echelonflow.model.counting import Counted, Counting
from echelonflow.model.dag import Job
from results.analysis.rows import GroupRow, IterationRow, RunRows


def counted_of(rows: Sequence[IterationRow], jobs: Sequence[Job], counting: Counting) -> Counted:
    """The iterations of each job that count in a run with these iterations."""
    ends_s: dict[str, list[float]] = defaultdict(list)
    for row in rows:  # in order, without a gap
        ends_s[row.job].append(row.finish_s)
    return counting.counted({job.name: job.start_s for job in jobs}, ends_s)


def marked(rows: RunRows, counted: Counted) -> RunRows:
    """The same rows; each iteration says whether it counts."""
    iterations = [dataclasses.replace(row, counted=_is_in(row, counted)) for row in rows.iterations]
    return dataclasses.replace(rows, iterations=iterations)


def only(rows: RunRows, counted: Counted) -> RunRows:
    """The rows of iterations and groups that count; flows are left as they are."""
    return RunRows(
        [row for row in rows.iterations if _is_in(row, counted)],
        [row for row in rows.groups if _is_in(row, counted)],
        rows.flows,
    )


def why_none_counts(rows: Sequence[IterationRow], counted: Counted, counting: Counting) -> list[str]:
    """Why a run says nothing although iterations of it have ended: none of them counts. Empty where one does."""
    if counted or not rows:
        return []
    return [f"no iteration counts, of which only {counting.words} do; give jobs more iterations, or widen the window"]


def span_s(rows: Sequence[IterationRow], counted: Counted) -> tuple[float, float]:
    """From when to when iterations that count were under way, in seconds since the run's zero; (0, 0) where none counts."""
    mine = [row for row in rows if _is_in(row, counted)]
    return (min(row.start_s for row in mine), max(row.finish_s for row in mine)) if mine else (0.0, 0.0)


def _is_in(row: IterationRow | GroupRow, counted: Counted) -> bool:
    return row.iteration in counted.get(row.job, ())
