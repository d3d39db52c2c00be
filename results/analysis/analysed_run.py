"""One run after the other: its records and packets read once, its rows and figures computed once, its verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from echelonflow.errors import InputError
from echelonflow.model.faults import ControllerStop
from echelonflow.records.assignment import AssignedRun
from echelonflow.records.folder import RunFiles
from echelonflow.records.outcome import RunOutcome, read_outcome
from echelonflow.records.plan import Plan, read_plan
from echelonflow.records.run_record import RunRecord
from echelonflow.records.runs import load_runs
from results.analysis import contradictions, pcap
from results.analysis.asked import (
    NAMED_AT_MOST,
    Asked,
    check_size,
    checked,
    missing_computes,
    missing_flows,
    named,
    words_of,
)
from results.analysis.context import Context
from results.analysis.fidelity import measure
from results.analysis.packets import Decided, RunClock, Throughput, packets_of_run, throughput
from results.analysis.passing import WaitedFor, waited_for
from results.analysis.planned import accounted_for, beyond_simulation, faults_done, faults_simulated
from results.analysis.read_run import ReadRun, read_run
from results.analysis.rows import IterationRow, RunRows, run_rows
from results.analysis.shown import Window, window
from results.analysis.summary import JobFigures, RunResult, job_figures
from results.analysis.swaps import Swap, in_force, parts, swaps
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
    throughput: Throughput | None = None
    """What arrived in that part; None where nothing was captured."""

    @staticmethod
    def without_rows(name: str, policy: str, repeat: int, reasons: Sequence[str]) -> AnalysedRun:
        """A run of which nothing could be read but that it was made."""
        result = RunResult(name, policy, repeat, tuple(reasons), {}, None)
        return AnalysedRun(name, RunRecord(policy, repeat), RunRows(), result)


def simulated_runs(context: Context) -> list[AnalysedRun]:
    """All runs of a simulated experiment, in the order in which they were made."""
    asked, found = Asked(context.jobs), []
    for record in load_runs(context.files.simulated_runs):
        name = f"{record.policy} {record.repeat}"
        try:
            checked(record, asked, f"{context.files.simulated_runs}, {record.policy}")
        except InputError as error:
            found.append(AnalysedRun.without_rows(name, record.policy, record.repeat, [f"cannot be read: {error}"]))
            continue
        reasons = _incomplete(record, asked)
        predicted = context.prediction.get(record.policy)
        if predicted is not None and (predicted.computes, predicted.flows) != (record.computes, record.flows):
            reasons.append("runs.json and prediction.json, which were one simulation, differ")
        rows = run_rows(record, context.jobs, predicted=context.predicted(record.policy))
        figures = job_figures(rows, context.jobs)
        end_s = max((compute.finish_s for compute in record.computes), default=0.0)
        faults = faults_simulated(context.manifest.faults, end_s)
        result = RunResult(name, record.policy, record.repeat, tuple(reasons), figures, None, faults=faults)
        found.append(AnalysedRun(name, record, rows, result, window(rows.iterations, context.jobs)))
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
    as far as it goes. What cannot be read is named in the verdict of its run; the others lose nothing by it.
    """
    found = [_Run.of(context, files) for files in context.files.runs()]
    found.sort(key=lambda run: (run.outcome.run_index, run.files.root.name))
    return [run.analysed() for run in found]


@dataclass(frozen=True, slots=True)
class _Run:
    """One emulated run while it is analysed; `wrong` collects in words what cannot be read or contradicts itself."""

    context: Context
    files: RunFiles
    outcome: RunOutcome
    wrong: list[str] = field(default_factory=list)

    @staticmethod
    def of(context: Context, files: RunFiles) -> _Run:
        """The run in `files`. Where run.json cannot be read, it is known by what was assigned under the folder's name."""
        name = files.root.name
        assigned = _assigned(context, name)
        wrong = list(context.changed_in(name))
        try:
            outcome = read_outcome(files.outcome)
        except InputError as error:
            wrong.append(f"cannot be read: {error}")
            known = assigned or AssignedRun(len(context.files.runs()), name, name, 0, "unknown", 0.0)
            failure = "run.json, which would tell, cannot be read"
            outcome = RunOutcome(
                policy=known.policy, repeat=known.repeat, run_index=known.run_index, label=name,
                enforcer=known.enforcer, failure=failure,
            )  # fmt: skip
            return _Run(context, files, outcome, wrong)
        wrong += contradictions.of_outcome(outcome, None, assigned)
        if outcome.label != name:
            wrong.append(f"run.json is that of {outcome.label}")
            outcome.label = name
        return _Run(context, files, outcome, wrong)

    def analysed(self) -> AnalysedRun:
        outcome = self.outcome
        if not self.files.plan.exists():
            never = f"the run never started: {outcome.failure or 'it has no plan'}; see logs/"
            return AnalysedRun.without_rows(outcome.label, outcome.policy, outcome.repeat, (*self.wrong, never))
        try:
            plan = read_plan(self.files.plan)
            check_size(plan.jobs)
            self._check_plan(plan)
        except InputError as error:
            reasons = (*self.wrong, f"cannot be read: {error}")
            return AnalysedRun.without_rows(outcome.label, outcome.policy, outcome.repeat, reasons)
        return self._with(plan)

    def _check_plan(self, plan: Plan) -> None:
        """Note where the plan contradicts others; InputError where it contradicts itself."""
        fault = contradictions.of_declarations(plan)
        if fault is not None:
            raise InputError(f"{self.files.plan}: {fault}")
        self.wrong.extend(contradictions.of_plan(plan, self.context.manifest))
        self.wrong.extend(contradictions.of_outcome(self.outcome, plan, None))

    def _with(self, plan: Plan) -> AnalysedRun:
        context, outcome, jobs = self.context, self.outcome, plan.jobs
        read = read_run(self.files, outcome, plan)
        record = read.record
        logs = [part.events for part in (self.files, *self.files.restarts())]
        swapped = swaps(logs, outcome, record.decisions, read.faults)
        self._note(read, plan)
        clock = self._clock()
        captures, captures_wrong = self._captures(record)
        # Without a controller agents choose their marks alone, and nobody decides them.
        alone = any(isinstance(done.fault, ControllerStop) for done in outcome.faults)
        decided = {} if alone else _decided(record)
        packets = packets_of_run(record, plan, captures, clock, decided) if clock is not None else {}
        fidelity = measure(
            outcome, record, packets, jobs,
            captures_wrong=captures_wrong,
            clock_drift=0.0 if clock is None else 1 / clock.rate - 1,
            told_twice=[words_of(key) for key in read.twice],
            farthest=self._farthest(record, plan, captures, clock),
        )  # fmt: skip
        rows = run_rows(record, jobs, predicted=context.predicted(outcome.policy), packets=packets)
        rows = dataclasses.replace(rows, iterations=_with_policies(rows.iterations, outcome.policy, swapped))
        figures = job_figures(rows, jobs)
        phases = parts(outcome.policy, swapped, rows, jobs)
        hosts = {host for job in jobs for host in job.placement}
        reasons = (
            # On a network that was not the one declared a run cannot be valid.
            *judge_calibration(context.calibration, outcome.run_index, context.limits, hosts),
            *self.wrong,
            *judge(fidelity, context.limits, accounted_for(outcome.faults)),
            *judge_swaps(phases),
            *([] if phases or beyond_simulation(outcome.faults) else self._far_from_prediction(figures)),
        )
        result = RunResult(
            outcome.label, outcome.policy, outcome.repeat, reasons, figures, fidelity, phases,
            faults_done(outcome.faults),
        )  # fmt: skip
        part, arrived = window(rows.iterations, jobs), None
        if part is not None and clock is not None:
            iterations = max(job.iterations for job in jobs)
            arrived = throughput(captures, plan.addresses, clock, (part.start_s, part.finish_s), iterations)
        return AnalysedRun(outcome.label, record, rows, result, part, arrived)

    def _far_from_prediction(self, figures: Mapping[str, JobFigures]) -> list[str]:
        return judge_prediction(figures, self.context.predicted_figures(self.outcome.policy), self.context.limits)

    def _farthest(
        self, record: RunRecord, plan: Plan, captures: Mapping[str, pcap.Capture], clock: RunClock | None
    ) -> WaitedFor | None:
        """Of the links for which flows waited, the one farthest off; planned faults change what links carry."""
        manifest = self.context.manifest
        if clock is None or manifest.network is None or manifest.faults:
            return None
        strange = {host for job in plan.placed for host in job.placement} - set(manifest.network.hosts)
        if strange:
            self.wrong.append(f"plan.json places jobs on {named(sorted(strange))}, which the network lacks")
            return None
        try:
            found = waited_for(record, plan, manifest.network, captures, clock)
        except InputError as error:  # no path
            self.wrong.append(f"manifest.json and plan.json do not fit: {error}")
            return None
        return found[0] if found else None

    def _note(self, read: ReadRun, plan: Plan) -> None:
        """What could not be read of the logs, and where their times contradict each other."""
        more = len(read.faults) - NAMED_AT_MOST
        self.wrong.extend(f"cannot be read, and is left out: {fault}" for fault in read.faults[:NAMED_AT_MOST])
        if more > 0:
            self.wrong.append(f"{more} more lines cannot be read, and are left out")
        planned = bool(self.context.manifest.faults)
        self.wrong.extend(
            contradictions.of_times(read.record, read.acked_s, self.outcome, plan.jobs, planned_faults=planned)
        )

    def _clock(self) -> RunClock | None:
        if self.outcome.zero_monotonic_s is None:
            return None
        fault = contradictions.clock_fault(self.outcome)
        if fault is None:
            return RunClock.of(self.outcome)
        self.wrong.append(f"{fault}: packets cannot be compared with logs")
        return None

    def _captures(self, record: RunRecord) -> tuple[dict[str, pcap.Capture], list[str]]:
        """Captures of every host that sends or receives, and in words what is wrong with them."""
        found, wrong = {}, []
        for host in sorted({host for f in record.flows for host in (f.src_host, f.dst_host)}):
            path = self.context.files.capture(self.outcome.label, host)
            counts = self.outcome.captures.get(host)
            if counts is None:
                wrong.append(f"run.json has no counts of the capture of {host}")
            if not path.exists():
                wrong.append(f"there is no capture of {host} (pcap/{path.name})")
                continue
            try:
                found[host] = capture = pcap.read(path)
            except InputError as error:
                wrong.append(f"the capture of {host} cannot be read: {error}")
                continue
            if capture.unread_bytes:
                wrong.append(f"the capture of {host} ends in mid-packet (pcap/{path.name})")
            elif not capture.streams:
                wrong.append(f"the capture of {host} holds no payload (pcap/{path.name})")
        return found, wrong


def _assigned(context: Context, name: str) -> AssignedRun | None:
    """What was assigned under the name of a run; None where assignment.json does not tell."""
    runs = () if context.assignment is None else context.assignment.runs
    return next((run for run in runs if run.label == name), None)


def _with_policies(rows: Sequence[IterationRow], first: str, swapped: Sequence[Swap]) -> list[IterationRow]:
    """Iterations with the policies that were in force in each, where any was swapped in."""
    if not swapped:
        return list(rows)
    return [dataclasses.replace(row, in_force=in_force(first, swapped, row.start_s, row.finish_s)) for row in rows]


def _decided(record: RunRecord) -> dict[tuple[str, str], dict[int, list[Decided]]]:
    """The marks of every flow, by (job, flow) and iteration, each when it came into force."""
    found: dict[tuple[str, str], dict[int, list[Decided]]] = {}
    for decision in record.decisions:
        for (job, iteration, flow), dscp in decision.marks:
            marks = found.setdefault((job, flow), {}).setdefault(iteration, [])
            if not marks or marks[-1][1] != dscp:
                marks.append((decision.time_s, dscp))
    return found
