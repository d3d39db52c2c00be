"""All of a study: jobs in steady state and how sure that is, jobs that come and go, closed batches."""

from __future__ import annotations

from collections.abc import Iterator

from echelon.study import arrivals, closed, few_queues, sensitivity, steady_cases
from echelon.study.section import Section


def sections(scale: float = 1.0) -> Iterator[Section]:
    """Every family of cases, `scale` times as many of each."""
    yield from steady_cases.sections(scale)
    yield from sensitivity.sections(scale)
    yield from few_queues.sections(scale)
    yield from arrivals.sections(scale)
    yield from closed.sections(scale)
