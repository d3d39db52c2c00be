"""Where the records of one run contradict each other, in words: each is written by another process at another time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from echelonflow.model.dag import Compute, Job, Transfer
from echelonflow.model.draws import Durations
from echelonflow.model.flow_key import FlowKey
from echelonflow.model.following import begins_after
from echelonflow.records.assignment import AssignedRun, Assignment
from echelonflow.records.manifest import Manifest
from echelonflow.records.outcome import RunOutcome
from echelonflow.records.plan import Plan
from echelonflow.records.run_record import RunRecord
from results.analysis.asked import Asked, held_names, named, ready_s, words_of

CLOCK_OFF_S = 0.05
"""Readings of clocks, and times by two processes, that differ by less do not contradict each other."""
MOST_CLOCK_DRIFT = 0.01
MOST_CLOCK_S = 1e11
LOG_ROUNDING_S = 1e-6
STARTED_WITHIN_S = 0.2
"""A flow that waits for nothing is released when its agent notices that the job has begun, which no log tells."""
CAUSE_OFF_S = 1e-4
"""Agents note that a step begins at the very reading of the clock at which what it waits for ended."""


def of_experiment(manifest: Manifest, assignment: Assignment) -> list[str]:
    """Where manifest.json and assignment.json tell of different experiments."""
    wrong = []
    if assignment.jobs != manifest.jobs:
        wrong.append("the jobs")
    if manifest.network is not None and assignment.network != manifest.network:
        wrong.append("the network")
    asked = {(policy, repeat) for policy, runs in manifest.runs_given().items() for repeat in range(runs)}
    assigned = {(run.policy, run.repeat) for run in assignment.runs}
    if not assigned <= asked or assignment.before + len(assignment.runs) != len(asked):
        wrong.append("the runs")
    return [f"manifest.json and assignment.json differ in {part}" for part in wrong]


def of_plan(plan: Plan, manifest: Manifest) -> list[str]:
    """Where a plan asks for other work than the manifest, or than its own declarations."""
    ours, theirs = ({job.name: job for job in placed} for placed in (plan.placed, manifest.jobs))
    wrong = []
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours or name not in theirs:
            wrong.append(f"job {name} is in one of them")
        elif ours[name].iterations != theirs[name].iterations:
            wrong.append(f"job {name} has {ours[name].iterations} iterations, not {theirs[name].iterations}")
        elif ours[name] != theirs[name]:
            wrong.append(f"job {name} is another")
    return [f"plan.json asks for other work than manifest.json: {told}" for told in wrong]


def of_declarations(plan: Plan) -> str | None:
    """Why the declarations of a plan are not those of its jobs; None if they are."""
    asked = Asked(plan.jobs)
    declared = [
        (group.job, flow.flow, group.group, flow.src_host, flow.dst_host, flow.size_bytes, flow.offset_s, flow.coflow)
        for group in plan.groups
        for flow in group.flows
    ]
    if sorted(declared) != sorted((job, flow, *known) for (job, flow), known in asked.flows.items()):
        return "declares other flows than its jobs have"
    kinds = {(job.name, group.name): group.kind for job in plan.jobs for group in job.dag.groups}
    if any(kinds[group.job, group.group] != group.kind for group in plan.groups):
        return "declares a group as of another kind than its job"
    ports = [(flow.src_host, flow.src_port) for group in plan.groups for flow in group.flows]
    if len(set(ports)) != len(ports) or not all(
        0 < port < 1 << 16 for group in plan.groups for flow in group.flows for port in (flow.src_port, flow.dst_port)
    ):
        return "gives two flows of a host one port, or one that there is not"
    return None


def of_outcome(outcome: RunOutcome, plan: Plan | None, assigned: AssignedRun | None) -> list[str]:
    """Where run.json says something else than what was assigned and planned."""
    wrong = []
    if plan is not None and plan.run_index != outcome.run_index:
        wrong.append(f"run.json is of run {outcome.run_index}, plan.json of run {plan.run_index}")
    if assigned is not None:
        said = (outcome.policy, outcome.repeat, outcome.run_index, outcome.enforcer)
        asked = (assigned.policy, assigned.repeat, assigned.run_index, assigned.enforcer)
        if said != asked:
            wrong.append(f"run.json tells of {said}, assignment.json of {asked}")
    return wrong


def clock_fault(outcome: RunOutcome) -> str | None:
    """Why the clock readings of a run that began cannot be used; None if they can."""
    zero_s = outcome.zero_monotonic_s
    if zero_s is None:
        return None
    if len(outcome.clock) < 2:
        return "run.json has no clock readings from before and after the run"
    begin, end = outcome.clock[0], outcome.clock[-1]
    times = (begin.monotonic_s, begin.realtime_s, end.monotonic_s, end.realtime_s, zero_s)
    if not all(0 <= time_s < MOST_CLOCK_S for time_s in times):
        return "clock readings in run.json are none"
    mono_s, real_s = end.monotonic_s - begin.monotonic_s, end.realtime_s - begin.realtime_s
    if not begin.monotonic_s <= zero_s <= end.monotonic_s:
        return "the run's zero lies outside its clock readings in run.json"
    if not abs(mono_s - real_s) <= CLOCK_OFF_S + MOST_CLOCK_DRIFT * mono_s:
        return f"the clock was set during the run: {mono_s:.3f} s passed, and {real_s:.3f} s by the time of day"
    return None


def of_times(
    record: RunRecord,
    acked_s: Mapping[FlowKey, float],
    outcome: RunOutcome,
    jobs: Sequence[Job],
    *,
    may_be_late: bool = False,
    held_s: Mapping[FlowKey, float] | None = None,
    took_s: Mapping[FlowKey, float] | None = None,
) -> list[str]:
    """Where times in logs cannot be: outside the run, before what a step waits for, or longer than lateness tells.

    `held_s` says by job, iteration and host when iterations were to begin that were held back. Where steps
    `may_be_late`, one may take longer and begin later, but never earlier: planned faults slow hosts down or end them, and programs do more than a
    profile has. What computations `took_s` by the log itself is what they take: nothing else says how long they should.
    """
    later_s = math.inf if may_be_late else 0.0
    causes = _causes(record, acked_s, jobs, later_s, held_s)
    wrong = [*_outside(record, outcome), *_durations(record, jobs, later_s, took_s), *causes]
    return [f"times in logs contradict each other: {named(wrong)}; see agents/*.jsonl"] if wrong else []


def _outside(record: RunRecord, outcome: RunOutcome) -> Iterator[str]:
    if outcome.zero_monotonic_s is None or not outcome.clock:
        return
    last_s = outcome.clock[-1].monotonic_s - outcome.zero_monotonic_s + CLOCK_OFF_S
    times = [(c.job, c.iteration, c.step, c.start_s, c.finish_s) for c in record.computes]
    times += [(f.job, f.iteration, f.flow, f.release_s, max(f.start_s, f.finish_s)) for f in record.flows]
    for job, iteration, step, begin_s, end_s in times:
        if begin_s < -CLOCK_OFF_S or end_s > last_s:
            yield f"{job}/{step} of iteration {iteration} lies outside the run"


def _durations(
    record: RunRecord, jobs: Sequence[Job], later_s: float, took_s: Mapping[FlowKey, float] | None
) -> Iterator[str]:
    steps = {job.name: job.dag.by_name for job in jobs}
    durations = {job.name: Durations(job, record.repeat, took_s) for job in jobs}
    for c in record.computes:
        step = steps[c.job][c.step]
        assert isinstance(step, Compute), "records were checked"
        over_s = c.finish_s - c.start_s - durations[c.job].of(c.iteration, step) - c.late_s
        rounding_s = LOG_ROUNDING_S * (1 + abs(c.finish_s))
        if not -rounding_s <= over_s <= later_s + rounding_s:
            yield f"{c.job}/{c.step} of iteration {c.iteration} took other than it was asked to and late"


def _causes(
    record: RunRecord,
    acked_s: Mapping[FlowKey, float],
    jobs: Sequence[Job],
    later_s: float = 0.0,
    held_s: Mapping[FlowKey, float] | None = None,
) -> Iterator[str]:
    """A step begins as the last of those that it waits for has ended: not before, and with nothing else to wait for.

    The first steps of an iteration that was held back begin when that was over.

    A flow that its job held back begins when it is ready; what its job may hold back is checked elsewhere (`windows`).
    A computation counts as ended when it was due, or later, when that was noticed. A flow has ended for its receiver
    with its last byte, and for its sender with the acknowledgement of that.
    """
    spans: dict[FlowKey, _Span] = {
        (c.job, c.iteration, c.step): _Span(c.start_s, c.finish_s - c.late_s, c.finish_s) for c in record.computes
    }
    for f in record.flows:
        key = (f.job, f.iteration, f.flow)
        if f.ready_s is not None and f.ready_s > f.release_s:
            yield f"{words_of(key)} was ready at {f.ready_s:.6f} s, after its release at {f.release_s:.6f} s"
        spans[key] = _Span(ready_s(f), f.finish_s, f.finish_s, acked_s.get(key, math.nan), f.src_host, f.dst_host)
    by_name = {job.name: job for job in jobs}
    for job in jobs:
        begins = begins_after(job, by_name)
        for iteration in range(job.iterations):
            yield from _causes_of(job, iteration, spans, later_s, held_s or {}, {} if iteration else begins)


class _Span(NamedTuple):
    """When a step began, and the earliest and latest moment that counts as its end; of a flow at its two ends."""

    begin_s: float
    due_s: float
    noticed_s: float
    acked_s: float = math.nan
    src_host: str = ""
    dst_host: str = ""

    def at(self, host: str) -> tuple[float, float]:
        """The earliest and the latest moment at which `host` may take it for ended."""
        if host == self.src_host and host != self.dst_host:
            return self.acked_s, self.acked_s
        if self.dst_host and host != self.dst_host:
            return -math.inf, math.inf
        return self.due_s, self.noticed_s


def _causes_of(
    job: Job, iteration: int, spans: dict[FlowKey, _Span], later_s: float, held_s: Mapping[FlowKey, float],
    begins: Mapping[str, Sequence[FlowKey]],
) -> Iterator[str]:  # fmt: skip
    """Steps of one iteration that began at another time; transfers within a host, which nobody logs, are added.

    `begins` are the computations of another job that steps wait for, beside those that they name.
    """
    dag, held = job.dag, held_names(job)
    for name in dag.order:
        key, step = (job.name, iteration, name), dag.by_name[name]
        keys = [(job.name, iteration, before) for before in step.after]
        keys += [(job.name, iteration - 1, before) for before in dag.previous.get(name, ())] if iteration else []
        keys += begins.get(name, ())
        before = [spans[one] for one in keys if one in spans]
        if len(before) < len(keys):
            continue
        host = job.placement[step.rank if isinstance(step, Compute) else step.src_rank]
        ends_s = [span.at(host) for span in before]
        due_s = max([job.earliest_s, *(end_s for end_s, _ in ends_s)])
        began_s = job.earliest_s + (STARTED_WITHIN_S if isinstance(step, Transfer) else 0.0)
        noticed_s = max([began_s, *(end_s for _, end_s in ends_s)])
        if name in job.first_steps and (until_s := held_s.get((job.name, iteration, host))) is not None:
            due_s = max(due_s, until_s)
            noticed_s = max(noticed_s, until_s + (STARTED_WITHIN_S if isinstance(step, Transfer) else 0.0))
        if isinstance(step, Transfer) and job.is_local(step):
            spans[key] = _Span(due_s, due_s, math.inf if name in held else noticed_s)
        elif key in spans and not due_s - CAUSE_OFF_S <= spans[key].begin_s <= noticed_s + later_s + CAUSE_OFF_S:
            yield f"{words_of(key)} began at {spans[key].begin_s:.6f} s, and could at {due_s:.6f} s"
