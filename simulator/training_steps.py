"""Steps of training jobs as a simulation needs them: what is asked of each again in every iteration, and what of it is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from echelonflow.model.dag import Compute, Job, Step
from echelonflow.records.run_columns import ComputeStep, FlowStep
from echelonflow.wire.messages import FlowDeclaration

StepName = tuple[str, str]
"""(job, step)."""


@dataclass(frozen=True, slots=True)
class AskedStep:
    """What is asked of a step again in every iteration."""

    host: str
    """That begins it."""
    compute: Compute | None
    """None of a transfer."""
    flow: tuple[FlowDeclaration, str, str] | None
    """Declaration, group and group's kind of a transfer over the network."""
    ends: tuple[int, ...] = ()
    """The ranks that a transfer goes from and to."""
    is_first: bool = False
    """Whether an iteration begins with it on its rank."""
    place: int = 0
    """Of a computation or a flow over the network among those of the run's record."""
    size_bytes: int = 0
    """Of a transfer; what is declared of it may be wrong."""


def recorded_computes(jobs: Sequence[Job]) -> dict[StepName, ComputeStep]:
    """What a record says of each computation of some jobs, in their order."""
    return {
        (job.name, step.name): ComputeStep(job.name, step.name, step.kind, step.rank, job.placement[step.rank])
        for job in jobs
        for step in job.dag.computes
    }


def recorded_flows(
    jobs: Sequence[Job], declared: Mapping[StepName, tuple[FlowDeclaration, str, str]]
) -> dict[StepName, FlowStep]:
    """The same of each transfer that was declared."""
    size_bytes = {(job.name, step.name): step.size_bytes for job in jobs for step in job.dag.transfers}
    return {
        (job, name): FlowStep(
            job,
            name,
            group,
            kind,
            d.coflow,
            d.src_host,
            d.dst_host,
            d.src_port,
            d.dst_port,
            size_bytes[job, name],
            d.offset_s,
        )
        for (job, name), (d, group, kind) in declared.items()
    }


def asked_of(
    job: Job,
    step: Step,
    declared: Mapping[StepName, tuple[FlowDeclaration, str, str]],
    places: Mapping[StepName, int],
) -> AskedStep:
    """What is asked of one step; `places` are those in the record."""
    key = (job.name, step.name)
    if isinstance(step, Compute):
        host = job.placement[step.rank]
        return AskedStep(host, step, None, (), step.name in job.first_steps, places[key])
    # One within a host is not declared.
    ends, place = (step.src_rank, step.dst_rank), places.get(key, 0)
    host = job.placement[step.src_rank]
    return AskedStep(host, None, declared.get(key), ends, step.name in job.first_steps, place, step.size_bytes)
