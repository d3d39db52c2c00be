"""Where a run's time went: from the ideal, cause by cause, to what was measured, and what nothing explains."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from echelonflow.records.budget import ExplainedRun
from results.analysis.figures import JobFigures


@dataclass(frozen=True, slots=True)
class JobBudget:
    """One job in one run, or over several: parts of its mean iteration time, which add up to it.

    Exposed communication is iteration time less a constant, so every part is also one of exposed communication.
    """

    ideal_s: float
    """Iteration time if nothing were late, decisions in force at once, and links what they declare. From budget.json."""
    computation_s: float
    """What late computations added. From budget.json."""
    decisions_s: float
    """What was added by the time that decisions and hand-overs took, by having few classes, and by orders that came out otherwise. From budget.json."""
    hindered_s: float
    """The part of that which came of spells in which the host or other programs had the processors. From budget.json."""
    acknowledgements_s: float
    """What was added by acknowledgements, which take their part of the links that they go back by. From budget.json."""
    links_s: float
    """What was added by links that carried other than they declare. From budget.json."""
    unexplained_s: float
    """What none of that explains. Computed."""
    iteration_s: float
    """Iteration time as measured. Computed."""
    exposed_s: float
    """Exposed communication as measured. Computed."""

    @property
    def explained_s(self) -> float:
        """Iteration time by the simulation with all causes. From budget.json."""
        return self.iteration_s - self.unexplained_s


PARTS: tuple[tuple[str, str], ...] = (
    ("ideal_s", "ideal"),
    ("computation_s", "+ computation"),
    ("decisions_s", "+ decisions"),
    ("acknowledgements_s", "+ acks"),
    ("links_s", "+ links"),
    ("unexplained_s", "unexplained"),
)
"""Fields of a `JobBudget` that add up to its iteration time, and what they are called."""


def budgets(explained: ExplainedRun | None, measured: Mapping[str, JobFigures]) -> dict[str, JobBudget]:
    """The budget of every job of a run; of those alone that were measured and simulated."""
    if explained is None:
        return {}
    return {
        job: _budget(explained, job, figures)
        for job, figures in measured.items()
        if all(job in times for times in explained.stages_s)
    }


def _budget(explained: ExplainedRun, job: str, figures: JobFigures) -> JobBudget:
    ideal_s, computation_s, unhindered_s, decisions_s, acknowledged_s, links_s = (
        times[job] for times in explained.stages_s
    )
    return JobBudget(
        ideal_s=ideal_s,
        computation_s=computation_s - ideal_s,
        decisions_s=decisions_s - computation_s,
        hindered_s=decisions_s - unhindered_s,
        acknowledgements_s=acknowledged_s - decisions_s,
        links_s=links_s - acknowledged_s,
        unexplained_s=figures.iteration_s - links_s,
        iteration_s=figures.iteration_s,
        exposed_s=figures.exposed_s,
    )


def mean(several: Sequence[JobBudget]) -> JobBudget | None:
    """The mean of each part, so that they add up still; None of none."""
    if not several:
        return None
    return JobBudget(*(statistics.fmean(getattr(one, name) for one in several) for name in JobBudget.__slots__))
