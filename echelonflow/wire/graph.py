"""From a job to the message that says all its steps, and whether such a message makes sense."""

from __future__ import annotations

from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, Job
from echelonflow.wire.messages import GraphStep, JobGraph


def graph_of(job: Job) -> JobGraph:
    """What a job waits for, as its agents tell the coordinator: once, for all iterations. Names of steps are left out."""
    index = {transfer.name: i for i, transfer in enumerate(job.dag.transfers)}
    steps = []
    for step, before in zip(job.dag.steps, job.dag.places_before, strict=True):
        if isinstance(step, Compute):
            steps.append(GraphStep(-1, step.duration_s, before))
        else:
            steps.append(GraphStep(-1 if job.is_local(step) else index[step.name], 0.0, before))
    place = job.dag.place
    pairs = tuple((place[earlier], place[later]) for earlier, later in job.dag.next_iteration)
    return JobGraph(job.name, job.iterations, tuple(steps), pairs)


def check(graph: JobGraph) -> None:
    """Raise InputError for a graph whose steps cannot follow one another, or that names a flow twice."""
    what, steps = f"graph of job {graph.job!r}", len(graph.steps)
    flows = [step.flow for step in graph.steps if step.flow >= 0]
    if len(set(flows)) < len(flows):
        raise InputError(f"{what}: two of its steps are the same flow")
    for place, step in enumerate(graph.steps):
        if any(before >= steps for before in step.after):
            raise InputError(f"{what}: step {place} waits for step {max(step.after)}; there are {steps}")
        if len(set(step.after)) < len(step.after):
            raise InputError(f"{what}: step {place} waits for a step twice")
    for pair in graph.next_iteration:
        if max(pair) >= steps:
            raise InputError(f"{what}: next_iteration names step {max(pair)}; there are {steps}")
    if len(in_order(graph)) < steps:
        raise InputError(f"{what}: its steps wait for each other in a circle")


def in_order(graph: JobGraph) -> list[int]:
    """Places of the steps, each after those that it waits for; those of a circle are left out."""
    waiting = [len(step.after) for step in graph.steps]
    behind: list[list[int]] = [[] for _ in graph.steps]
    for later, step in enumerate(graph.steps):
        for earlier in step.after:
            behind[earlier].append(later)
    found = [place for place, count in enumerate(waiting) if count == 0]
    for earlier in found:  # which grows meanwhile
        for later in behind[earlier]:
            waiting[later] -= 1
            if waiting[later] == 0:
                found.append(later)
    return found


def waits(graph: JobGraph) -> int:
    """How many dependencies the graph names."""
    return sum(len(step.after) for step in graph.steps) + len(graph.next_iteration)
