"""What an experiment found, per policy and job, over its valid runs; and the verdict on every run."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from echelonflow.codec import convert, read_json
from echelonflow.files import write_whole
from echelonflow.model.dag import Job
from echelonflow.records.blame import Blame
from results.analysis.arrivals import CompletionResult
from results.analysis.blamed import mean_blame
from results.analysis.budget import JobBudget, mean
from results.analysis.coflows import CoflowResult
from results.analysis.columns import to_json
from results.analysis.control_plane import ControlPlane
from results.analysis.effects import JobEffects
from results.analysis.fidelity import Fidelity
from results.analysis.figures import JobFigures
from results.analysis.measures import JobMeasures, RunMeasures
from results.analysis.paired import Comparison
from results.analysis.planned import FaultShown
from results.analysis.statistics import Estimate, estimate
from results.analysis.together import TogetherResult


@dataclass(frozen=True, slots=True)
class PolicyPart:
    """The part of a run in which one policy was in force, where policies were swapped in mid-run."""

    policy: str
    """Policy with its options; `unknown` where no record tells. From events.jsonl."""
    since_s: float | None
    """When it was swapped in, in seconds since the run's zero; null for the run's own policy. From events.jsonl."""
    jobs: Mapping[str, JobFigures]
    """Figures by name of each job, over the iterations that lie wholly in that part. Computed."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run: what is needed to average it, and whether it may be."""

    KEYS: ClassVar[tuple[str, ...]] = (
        "label",
        "policy",
        "repeat",
        "valid",
        "reasons",
        "jobs",
        "fidelity",
        "budgets",
        "parts",
        "faults",
        "measures",
        "together",
        "control",
        "effects",
    )

    label: str
    """Name of the run: of its raw records and captures, and in reasons. From the run."""
    policy: str
    """Policy with its options. From the experiment file."""
    repeat: int
    """Number of the run among those of its policy, counted from 0. From the experiment file."""
    reasons: tuple[str, ...]
    """Why it is invalid, in words; empty if it is valid. Computed."""
    jobs: Mapping[str, JobFigures]
    """Figures by name of each job of which it completed an iteration. Computed."""
    fidelity: Fidelity | None
    """How faithful the run was; null for a simulated run, which has nothing to be unfaithful to. Computed."""
    parts: tuple[PolicyPart, ...] = ()
    """One object for each policy that was in force, before and after every swap; empty where none was swapped in. Computed."""

    faults: tuple[FaultShown, ...] = ()
    """The planned faults that happened in it, in order of the plan. From run.json."""
    budgets: Mapping[str, JobBudget] = field(default_factory=dict)
    """Where its time went, by name of each job; empty where that is not known. Computed."""

    measures: Mapping[str, JobMeasures] = field(default_factory=dict)
    """More of each job, by its name: percentiles, completion, slowdown, use of its GPUs. Computed."""
    together: RunMeasures | None = None
    """All jobs together; null where no iteration counts. Computed."""
    control: ControlPlane | None = None
    """What the controller had to do; null for a simulated run. Computed."""
    blame: Sequence[Blame] = ()
    """What the mean iteration of each job was spent on; empty where that is not known."""
    effects: Mapping[str, JobEffects] = field(default_factory=dict)
    """What it was judged by, by name of each job; empty where that is not known. Computed."""

    @property
    def valid(self) -> bool:
        """Whether the run kept all limits, so that it counts. Computed."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """One policy on one job over the valid runs; estimates are null where there is no valid run."""

    KEYS: ClassVar[tuple[str, ...]] = (
        "policy", "job", "asked", "runs", "valid_runs", "iteration_s", "exposed_s", "tardiness_s", "predicted",
        "iteration_difference", "exposed_difference", "speedup", "budget", "in_job_s", "in_job_share",
        "iteration_p95_s", "completion_s", "slowdown", "gpu_share", "blame", "simulations", "scatter",
    )  # fmt: skip

    policy: str
    """Policy with its options. From the experiment file."""
    job: str
    """Name of the job. From the experiment file."""
    runs: int
    """Number of runs that left records. From the run folder."""
    valid_runs: int
    """Number of those that are valid. Computed."""
    iteration_s: Estimate | None
    """Mean iteration time of a run, over the valid runs. Computed."""
    exposed_s: Estimate | None
    """Mean exposed communication of a run, over the valid runs. Computed."""
    tardiness_s: Estimate | None
    """Mean tardiness of a run's EchelonFlows by weight, over the valid runs. Computed."""
    predicted: JobFigures | None
    """The same figures in the fluid simulation; null for simulated runs. From prediction.json."""
    speedup: float | None
    """Median iteration time of the first policy over that of this one; null where that is 0. Computed."""
    asked: int = 1
    """Number of valid runs that were asked for. From the experiment file."""
    budget: JobBudget | None = None
    """Where the time went: the mean over the valid runs, or over all where none is valid; null where not known. Computed."""
    in_job_s: Estimate | None = None
    """Mean time for which the job held a flow back after it was ready, over the valid runs; null where it held none. Computed."""
    in_job_share: Estimate | None = None
    """Share of its flows that the job held back, over the valid runs; null where it held none. Computed."""
    iteration_p95_s: Estimate | None = None
    """95th percentile of the durations of a run's iterations, over the valid runs. Computed."""
    completion_s: Estimate | None = None
    """Time from the start of the job to its end, over the valid runs; null where it came to none. Computed."""
    slowdown: Estimate | None = None
    """Mean iteration time over the same of the job alone, over the valid runs. Computed."""
    gpu_share: Estimate | None = None
    """Share of time in which its GPUs computed, over the valid runs. Computed."""
    blame: tuple[Blame, ...] = ()
    """What its mean iteration was spent on: the mean over the valid runs, or over all where none is valid; empty where not
    known. Computed."""
    simulations: int | None = None
    """So many simulations of each stage tell effects apart from chance, in runs where one would not; null where there are none. Computed."""
    scatter: float | None = None
    """How far iterations scatter by chance in these: twice their deviation over their mean; the mean over these runs. Computed."""

    @property
    def iteration_difference(self) -> float | None:
        """Measured over predicted iteration time, less 1; null where none is predicted. Computed."""
        if self.iteration_s is None or self.predicted is None or self.predicted.iteration_s <= 0:
            return None
        return self.iteration_s.median / self.predicted.iteration_s - 1

    @property
    def exposed_difference(self) -> float | None:
        """Measured over predicted exposed communication, less 1; null where none is predicted. Computed."""
        if self.exposed_s is None or self.predicted is None or self.predicted.exposed_s <= 0:
            return None
        return self.exposed_s.median / self.predicted.exposed_s - 1


@dataclass(frozen=True, slots=True)
class Summary:
    """The findings of one experiment, as in summary.json."""

    KEYS: ClassVar[tuple[str, ...]] = (
        "name",
        "backend",
        "time_unit_s",
        "stretch",
        "valid",
        "reasons",
        "set_aside",
        "results",
        "comparisons",
        "runs",
        "coflows",
        "together",
        "window",
        "completions",
    )

    name: str
    """Name of the experiment. From the experiment file."""
    backend: str
    """`emulation` or `fluid`. From the command line."""
    time_unit_s: float | None
    """Length of the experiment's unit of time; null where it has none. From the experiment file."""
    reasons: tuple[str, ...]
    """Why the experiment is not valid as a whole; empty if it is. Reasons of its runs are included where their policy lacks
    valid runs. Computed."""
    results: tuple[PolicyResult, ...]
    """One object per policy and job; empty for a trace of Coflows. Computed."""
    runs: tuple[RunResult, ...]
    """One object per run; empty for a trace of Coflows. Computed."""
    coflows: tuple[CoflowResult, ...] = ()
    """One object per policy for a trace of Coflows; empty otherwise. Computed."""
    stretch: float = 1.0
    """How many times as long as the experiment file says everything took: all times are of that longer clock. From the
    experiment file."""
    comparisons: tuple[Comparison, ...] = ()
    """One object per policy and job but for those of the policy that others are compared with; empty in simulations of
    which nothing is drawn: they have no spread. Computed."""
    completions: tuple[CompletionResult, ...] = ()
    """One object per policy, over all jobs from their arrivals to their ends; empty where all arrive at once. Computed."""
    set_aside: tuple[str, ...] = ()
    """Why runs do not count in whose place others were made, so that their policy lacks none. Computed."""
    together: tuple[TogetherResult, ...] = ()
    """One object per policy, over all jobs together; empty for a trace of Coflows. Computed."""
    window: str | None = None
    """Which iterations count, in words; null where all do. From the experiment file."""

    @property
    def valid(self) -> bool:
        """Whether the experiment as a whole is valid: each policy has the valid runs that were asked for. Computed."""
        return not self.reasons


def policy_results(
    runs: Sequence[RunResult],
    policies: Sequence[str],
    jobs: Sequence[Job],
    predictions: Mapping[str, Mapping[str, JobFigures]],
    asked: int = 1,
) -> list[PolicyResult]:
    """One result per policy (in the order given) and job, from the valid runs alone, of which so many were `asked` for."""
    found: list[PolicyResult] = []
    first: dict[str, float] = {}
    for policy in policies:
        of_policy = [run for run in runs if run.policy == policy]
        valid = [run for run in of_policy if run.valid]
        for job in jobs:
            figures = [run.jobs[job.name] for run in valid if job.name in run.jobs]
            measures = [run.measures[job.name] for run in valid if job.name in run.measures]
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
                    speedup=_over(first.get(job.name), iteration),
                    asked=asked,
                    in_job_s=estimate([f.in_job_s for f in figures if f.in_job_s is not None]),
                    in_job_share=estimate([f.in_job_share for f in figures if f.in_job_share is not None]),
                    budget=mean([run.budgets[job.name] for run in valid or of_policy if job.name in run.budgets]),
                    iteration_p95_s=estimate([m.iteration_p95_s for m in measures]),
                    completion_s=estimate([m.completion_s for m in measures if m.completion_s is not None]),
                    slowdown=estimate([m.slowdown for m in measures if m.slowdown is not None]),
                    gpu_share=estimate([m.gpu_share for m in measures if m.gpu_share is not None]),
                    blame=mean_blame([run.blame for run in valid or of_policy], job.name),
                    **_chance([run.effects[job.name] for run in valid or of_policy if job.name in run.effects]),
                )
            )
    return found


def _chance(effects: Sequence[JobEffects]) -> dict[str, Any]:
    """How many simulations told effects from chance, and how far iterations scatter in them."""
    several = [found for found in effects if found.simulations > 1]
    if not several:
        return {}
    return {
        "simulations": max(found.simulations for found in several),
        "scatter": statistics.fmean(found.scatter for found in several),
    }


def _over(first_s: float | None, own: Estimate | None) -> float | None:
    """How many times as fast as the first policy this one is; None where either is not known, or nothing took time."""
    return None if first_s is None or own is None or own.median <= 0 else first_s / own.median


def lacking(runs: Sequence[RunResult], policies: Sequence[str], asked: int) -> dict[str, int]:
    """How many valid runs each policy lacks of those that were `asked` for; policies that lack none are left out."""
    valid = Counter(run.policy for run in runs if run.valid)
    return {policy: asked - valid[policy] for policy in policies if valid[policy] < asked}


def write_summary(path: Path, summary: Summary) -> None:
    """Write summary.json; it is derived like the tables, so that it has no version: `analyse` makes it anew."""
    write_whole(path, json.dumps(to_json(summary), indent=1, allow_nan=False) + "\n")


def read_summary(path: Path) -> Summary:
    """What `write_summary` wrote (InputError, naming the file, where it is something else)."""
    return convert(read_json(path), Summary, str(path))
