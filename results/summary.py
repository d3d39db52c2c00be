"""What an experiment found, per policy and job, over its valid runs; and the verdict on every run."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from echelonflow.model.dag import Job
from results.coflows import CoflowResult
from results.fidelity import Fidelity
from results.metrics import RunRows
from results.statistics import Estimate, estimate


@dataclass(frozen=True, slots=True)
class JobFigures:
    """One run of one job in three numbers, each a mean over its iterations.

    `tardiness_s` is also the mean over its EchelonFlows, by their weights: the paper's objective divided by
    the sum of weights, so that jobs with many and few groups can be read alike.
    """

    iteration_s: float
    exposed_s: float
    tardiness_s: float | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run: what is needed to average it, and whether it may be."""

    label: str
    policy: str
    repeat: int
    reasons: tuple[str, ...]
    """Why it is invalid; empty if it is valid."""
    jobs: Mapping[str, JobFigures]
    fidelity: Fidelity | None
    """None for a simulated run: there is nothing to be unfaithful to."""

    @property
    def valid(self) -> bool:
        return not self.reasons

    def to_dict(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "policy": self.policy,
            "repeat": self.repeat,
            "valid": self.valid,
            "reasons": list(self.reasons),
            "jobs": {name: dataclasses.asdict(figures) for name, figures in self.jobs.items()},
            "fidelity": dataclasses.asdict(self.fidelity) if self.fidelity else None,
        }


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """One policy on one job over the valid runs; estimates are None where there is no valid run."""

    policy: str
    job: str
    runs: int
    valid_runs: int
    iteration_s: Estimate | None
    exposed_s: Estimate | None
    tardiness_s: Estimate | None
    predicted: JobFigures | None
    speedup: float | None
    """Median iteration time of the first policy over that of this one."""

    @property
    def iteration_difference(self) -> float | None:
        """Measured over predicted iteration time, less 1."""
        if self.iteration_s is None or self.predicted is None:
            return None
        return self.iteration_s.median / self.predicted.iteration_s - 1

    @property
    def exposed_difference(self) -> float | None:
        """Measured over predicted exposed communication, less 1; None where none is predicted."""
        if self.exposed_s is None or self.predicted is None or self.predicted.exposed_s <= 0:
            return None
        return self.exposed_s.median / self.predicted.exposed_s - 1

    def to_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "job": self.job,
            "runs": self.runs,
            "valid_runs": self.valid_runs,
            **{
                name: value.to_dict() if (value := getattr(self, name)) is not None else None
                for name in ("iteration_s", "exposed_s", "tardiness_s")
            },
            "predicted": dataclasses.asdict(self.predicted) if self.predicted else None,
            "iteration_difference": self.iteration_difference,
            "exposed_difference": self.exposed_difference,
            "speedup": self.speedup,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """The findings of one experiment, as in summary.json."""

    name: str
    backend: str
    time_unit_s: float | None
    reasons: tuple[str, ...]
    """Why the experiment is not valid as a whole, those of its runs included; empty if it is."""
    results: tuple[PolicyResult, ...]
    runs: tuple[RunResult, ...]
    coflows: tuple[CoflowResult, ...] = ()
    """One per policy where a trace of Coflows was simulated; there are no other results then."""

    @property
    def valid(self) -> bool:
        return not self.reasons

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "backend": self.backend,
            "time_unit_s": self.time_unit_s,
            "valid": self.valid,
            "reasons": list(self.reasons),
            "results": [result.to_dict() for result in self.results],
            "runs": [run.to_dict() for run in self.runs],
            "coflows": [dataclasses.asdict(result) for result in self.coflows],
        }


def job_figures(rows: RunRows, jobs: Sequence[Job]) -> dict[str, JobFigures]:
    """The figures of every job of which the run with these rows completed an iteration."""
    found = {}
    for job in jobs:
        mine = [row for row in rows.iterations if row.job == job.name]
        if not mine:
            continue
        weight = {group.name: group.weight for group in job.dag.groups}
        late = [
            (row.tardiness_s, weight[row.group])
            for row in rows.groups
            if row.job == job.name and row.tardiness_s is not None
        ]
        found[job.name] = JobFigures(
            statistics.fmean(row.duration_s for row in mine),
            statistics.fmean(row.exposed_s for row in mine),
            sum(t * w for t, w in late) / sum(w for _, w in late) if late else None,
        )
    return found


def policy_results(
    runs: Sequence[RunResult],
    policies: Sequence[str],
    jobs: Sequence[Job],
    predictions: Mapping[str, Mapping[str, JobFigures]],
) -> list[PolicyResult]:
    """One result per policy (in the order given) and job, from the valid runs alone."""
    found: list[PolicyResult] = []
    first: dict[str, float] = {}
    for policy in policies:
        of_policy = [run for run in runs if run.policy == policy]
        valid = [run for run in of_policy if run.valid]
        for job in jobs:
            figures = [run.jobs[job.name] for run in valid if job.name in run.jobs]
            iteration = estimate([f.iteration_s for f in figures])
            if iteration is not None and policy == policies[0]:
                first[job.name] = iteration.median
            found.append(
                PolicyResult(
                    policy=policy,
                    job=job.name,
                    runs=len(of_policy),
                    valid_runs=len(valid),
                    iteration_s=iteration,
                    exposed_s=estimate([f.exposed_s for f in figures]),
                    tardiness_s=estimate([f.tardiness_s for f in figures if f.tardiness_s is not None]),
                    predicted=predictions.get(policy, {}).get(job.name),
                    speedup=first[job.name] / iteration.median if iteration is not None and job.name in first else None,
                )
            )
    return found
