"""One run after the other: its records and packets read once, its rows and figures computed once, its verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from echelonflow.errors import InputError
from echelonflow.model.counting import Counted
from echelonflow.model.dag import Job
from echelonflow.records.budget import ExplainedRun
from echelonflow.records.link_load import LinkLoad
from echelonflow.records.plan import Plan
from echelonflow.records.run_record import RunRecord, as_run
from echelonflow.records.runs import load_runs
from results.analysis.arrivals import ArrivalRow, arrival_rows
from results.analysis.asked import (
    Asked,
    checked,
    missing_computes,
    missing_flows,
    named,
    words_of,
)
from results.analysis.blamed import in_order, with_unexplained
from results.analysis.budget import budgets
from results.analysis.context import Context
from results.analysis.control_plane import control_plane
from results.analysis.counted import counted_of, marked, only, span_s, why_none_counts
from results.analysis.effects import JobEffects, effects, judge_effects, judge_together, not_told_s
from results.analysis.evidence import Evidence, RawRun
from results.analysis.fidelity import Fidelity, measure
from results.analysis.figures import JobFigures, job_figures
from results.analysis.limits import Limits
from results.analysis.link_load import loads_by_records
from results.analysis.measures import JobMeasures, RunMeasures, job_measures, run_measures
from results.analysis.packets import Throughput, throughput
from results.analysis.planned import accounted_for, beyond_simulation, faults_done, faults_simulated
from results.analysis.rows import IterationRow, RunRows, run_rows
from results.analysis.shown import Window, window
from results.analysis.summary import RunResult
from results.analysis.swaps import Swap, in_force, parts
from results.analysis.verdict import judge, judge_calibration, judge_prediction, judge_swaps


@dataclass(frozen=True, slots=True)
class AnalysedRun:
    """One run: what was read of it once, and all that was computed of that.

    Its captures, which may be large, are not kept.
    """

    label: str
    record: RunRecord
    rows: RunRows
    result: RunResult
    window: Window | None = None
    """The part that pictures show; None if the run did not get so far."""
    arrivals: Sequence[ArrivalRow] = ()
    """Its jobs from their arrivals to their ends."""
    throughput: Throughput | None = None
    """What arrived in that part; None where nothing was captured."""
    links: Sequence[LinkLoad] = ()
    """How busy each link was while iterations that count were under way."""

    @staticmethod
    def without_rows(name: str, policy: str, repeat: int, reasons: Sequence[str]) -> AnalysedRun:
        """A run of which nothing could be read but that it was made."""
        result = RunResult(name, policy, repeat, tuple(reasons), {}, None)
        return AnalysedRun(name, RunRecord(policy, repeat), RunRows(), result)


def simulated_runs(context: Context) -> list[AnalysedRun]:
    """All runs of a simulated experiment, in the order in which they were made."""
    asked, found = Asked(context.jobs), []
    waited = not all(job.is_placed and job.after is None for job in context.jobs)
    for record in load_runs(context.files.simulated_runs):
        name = f"{record.policy} {record.repeat}"
        try:
            if waited:  # and was placed as there was room, or began where another had ended
                asked = Asked(as_run(context.jobs, record))
            checked(record, asked, f"{context.files.simulated_runs}, {record.policy}")
        except InputError as error:
            found.append(AnalysedRun.without_rows(name, record.policy, record.repeat, [f"cannot be read: {error}"]))
            continue
        reasons = _incomplete(record, asked)
        kept_twice = context.prediction.get((record.policy, record.repeat))  # in older folders
        if kept_twice is not None and (kept_twice.computes, kept_twice.flows) != (record.computes, record.flows):
            reasons.append("runs.json and prediction.json, which were one simulation, differ")
        jobs = asked.jobs
        rows = run_rows(record, jobs, network=context.manifest.network, is_prediction=True)
        counted = counted_of(rows.iterations, jobs, context.manifest.counting)
        rows = marked(rows, counted)
        figures = job_figures(only(rows, counted), jobs)
        measures, together = _measured(context, record, rows, jobs, counted)
        reasons += why_none_counts(rows.iterations, counted, context.manifest.counting)
        faults = faults_simulated(context.manifest.faults, record.end_s)
        result = RunResult(
            name, record.policy, record.repeat, tuple(reasons), figures, None,
            faults=faults, measures=measures, together=together, blame=in_order(record.blame),
        )  # fmt: skip
        found.append(
            AnalysedRun(
                name,
                record,
                rows,
                result,
                window(rows.iterations, jobs),
                arrival_rows(record, jobs, rows.iterations),
                links=record.links or _loads(context, record, rows, counted),
            )
        )
    return found


def _incomplete(record: RunRecord, asked: Asked) -> list[str]:
    """What a simulation left out."""
    reasons = []
    for what, missing in (("computation", missing_computes(record, asked)), ("flow", missing_flows(record, asked))):
        if missing:
            reasons.append(f"{len(missing)} {what}s have no record or did not end: {named(missing)}; see runs.json")
    return reasons


def emulated_runs(context: Context) -> list[AnalysedRun]:
    """All runs of an emulated experiment that left something, in the order in which they were made.

    Captures are read one run at a time, so that those of one run are in memory at most. A run that broke off is read
    as far as it goes. What cannot be read is named in the verdict of its run; the others lose nothing by it. Runs of one
    policy are also judged together.
    """
    found = [RawRun.of(context, files) for files in context.files.runs()]
    found.sort(key=lambda run: (run.outcome.run_index, run.files.root.name))
    return _with_joint_verdict([_analysed(run) for run in found], context.limits)


def _analysed(run: RawRun) -> AnalysedRun:
    outcome = run.outcome
    if not run.files.plan.exists():
        never = f"the run never started: {outcome.failure or 'it has no plan'}; see logs/"
        return AnalysedRun.without_rows(outcome.label, outcome.policy, outcome.repeat, (*run.wrong, never))
    try:
        plan = run.plan()
    except InputError as error:
        reasons = (*run.wrong, f"cannot be read: {error}")
        return AnalysedRun.without_rows(outcome.label, outcome.policy, outcome.repeat, reasons)
    return _judged(run, plan, run.evidence(plan))


def _judged(run: RawRun, plan: Plan, evidence: Evidence) -> AnalysedRun:
    context, outcome, jobs = run.context, run.outcome, evidence.jobs
    record, clock, captures = evidence.read.record, evidence.clock, evidence.captures
    fidelity = measure(
        outcome, record, evidence.packets, jobs,
        captures_wrong=evidence.captures_wrong,
        clock_drift=0.0 if clock is None else 1 / clock.rate - 1,
        told_twice=[words_of(key) for key in evidence.read.twice],
        farthest=evidence.waited[0] if evidence.waited else None,
        unscheduled=context.assignment is not None and any(each.pauses for each in context.assignment.programs),
    )  # fmt: skip
    rows = run_rows(
        record, jobs,
        predicted=context.predicted(outcome.policy, outcome.repeat), packets=evidence.packets,
        network=context.manifest.network, took_s=evidence.took_s,
    )  # fmt: skip
    rows = dataclasses.replace(rows, iterations=_with_policies(rows.iterations, outcome.policy, evidence.swapped))
    counted = counted_of(rows.iterations, jobs, context.manifest.counting)
    rows = marked(rows, counted)
    figures = job_figures(only(rows, counted), jobs)
    measures, together = _measured(context, record, rows, jobs, counted)
    phases = parts(outcome.policy, evidence.swapped, rows, jobs)
    hosts = {host for job in jobs for host in job.placement}
    explained = _explanation(run)
    budget = {} if phases else budgets(explained, figures)
    moved = effects(budget, None if explained is None else explained.ensemble)
    reasons = (
        # On a network that was not the one declared a run cannot be valid.
        *judge_calibration(
            context.calibration, outcome.run_index, context.limits, hosts, explained=explained is not None
        ),
        *run.wrong,
        *judge(
            fidelity,
            context.limits,
            accounted_for(outcome.faults),
            explained=explained is not None,
            no_matter_s=0.0 if explained is None else not_told_s(figures),
        ),
        *judge_swaps(phases),
        *why_none_counts(rows.iterations, counted, context.manifest.counting),
        *(
            []
            if phases or beyond_simulation(outcome.faults)
            else _judge_times(run, figures, moved, explained, fidelity)
        ),
    )
    result = RunResult(
        outcome.label, outcome.policy, outcome.repeat, reasons, figures, fidelity, phases,
        faults_done(outcome.faults), budget, measures, together,
        control_plane(record, (run.files, *run.files.restarts())),
        () if phases or explained is None else with_unexplained(explained.blame, figures),
        moved,
    )  # fmt: skip
    part, arrived = window(rows.iterations, jobs), None
    if part is not None and clock is not None:
        iterations = max(job.iterations for job in jobs)
        arrived = throughput(captures, plan.addresses, clock, (part.start_s, part.finish_s), iterations)
    loads = _loads(context, record, rows, counted)
    if explained is not None and explained.links:
        loads = explained.links
    return AnalysedRun(
        outcome.label, record, rows, result, part, arrival_rows(record, jobs, rows.iterations),
        throughput=arrived, links=loads,
    )  # fmt: skip


def _measured(
    context: Context, record: RunRecord, rows: RunRows, jobs: Sequence[Job], counted: Counted
) -> tuple[Mapping[str, JobMeasures], RunMeasures | None]:
    """The measures of each job, and of all together."""
    measures = job_measures(record, rows, jobs, counted, context.yardsticks)
    return measures, run_measures(measures, rows, jobs, counted, context.yardsticks)


def _loads(context: Context, record: RunRecord, rows: RunRows, counted: Counted) -> Sequence[LinkLoad]:
    """How busy links were while any iteration that counts was under way; none where the network is not known."""
    network = context.manifest.network
    if network is None:
        return ()
    try:
        return loads_by_records(record.flows, network, *span_s(rows.iterations, counted))
    except InputError:  # a host that the network lacks, or no path: the verdict says it
        return ()


def _explanation(run: RawRun) -> ExplainedRun | None:
    """What explains a run's times; None in folders from before that was done, and for runs that cannot be simulated."""
    context, outcome = run.context, run.outcome
    if context.explained is None or beyond_simulation(outcome.faults):
        return None
    found = context.explained.get(outcome.label)
    if found is not None and found.zero_monotonic_s == outcome.zero_monotonic_s:
        return found
    failure = "budget.json does not tell of it" if found is None else "budget.json tells of an earlier run of that name"
    return ExplainedRun(run_index=outcome.run_index, zero_monotonic_s=outcome.zero_monotonic_s, failure=failure)


def _judge_times(
    run: RawRun,
    figures: Mapping[str, JobFigures],
    moved: Mapping[str, JobEffects],
    explained: ExplainedRun | None,
    fidelity: Fidelity,
) -> list[str]:
    """Why times are not those that were asked for: by effect, or by the bare prediction where no effect is known."""
    context, outcome = run.context, run.outcome
    if explained is None:
        return judge_prediction(figures, context.predicted_figures(outcome.policy, outcome.repeat), context.limits)
    if not outcome.completed:  # which is reason enough
        return []
    if explained.failure is not None:
        return [f"the run could not be explained: {explained.failure}"]
    missing = sorted(figures.keys() - moved.keys())
    untold = [f"the time of {named(missing)} could not be explained; see budget.json"] if missing else []
    return untold + judge_effects(moved, fidelity, context.limits)


def _with_joint_verdict(runs: Sequence[AnalysedRun], limits: Limits) -> list[AnalysedRun]:
    """The same runs, and why those of a policy do not count together, for each that would count by itself."""
    reasons = {
        policy: judge_together(
            [run.result.effects for run in runs if run.result.policy == policy and run.result.valid], limits
        )
        for policy in {run.result.policy for run in runs}
    }
    return [
        dataclasses.replace(run, result=dataclasses.replace(run.result, reasons=tuple(reasons[run.result.policy])))
        if run.result.valid and reasons[run.result.policy]
        else run
        for run in runs
    ]


def _with_policies(rows: Sequence[IterationRow], first: str, swapped: Sequence[Swap]) -> list[IterationRow]:
    """Iterations with the policies that were in force in each, where any was swapped in."""
    if not swapped:
        return list(rows)
    return [dataclasses.replace(row, in_force=in_force(first, swapped, row.start_s, row.finish_s)) for row in rows]
