"""One run after the other: its records and packets read once, its rows and figures computed once, its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from echelonflow.model.dag import Job
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.calibration import Calibration, read_calibration
from echelonflow.records.folder import RunFiles, RunFolder
from echelonflow.records.manifest import Manifest
from echelonflow.records.outcome import RunOutcome, read_outcome
from echelonflow.records.plan import Plan, read_plan
from echelonflow.records.run_record import RunRecord
from echelonflow.records.runs import load_runs
from results.analysis import pcap
from results.analysis.fidelity import measure
from results.analysis.packets import FlowPackets, RunClock, Throughput, flow_packets, throughput
from results.analysis.planned import faults_done, faults_simulated
from results.analysis.read_run import read_run
from results.analysis.rows import IterationRow, RunRows, run_rows
from results.analysis.shown import Window, window
from results.analysis.summary import RunResult, job_figures
from results.analysis.verdict import Limits, judge, judge_calibration


@dataclass(frozen=True)
class Context:
    """What all runs of a folder share."""

    root: Path
    manifest: Manifest
    jobs: tuple[Job, ...]
    predictions: Mapping[str, RunRows] = field(default_factory=dict)
    """Rows of the fluid run of each policy."""

    @cached_property
    def calibration(self) -> Calibration | None:
        """What links were found to carry; None where they never were measured."""
        return read_calibration(self.files.calibration)

    @property
    def files(self) -> RunFolder:
        return RunFolder(self.root)

    @property
    def limits(self) -> Limits:
        return Limits.with_changes(self.manifest.limits)

    def predicted(self, policy: str) -> Sequence[IterationRow]:
        """Iterations of the fluid run of `policy`; none where it was not predicted."""
        return self.predictions.get(policy, RunRows()).iterations

    @property
    def policies(self) -> list[str]:
        return list(self.manifest.policies)


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


def simulated_runs(context: Context) -> list[AnalysedRun]:
    """All runs of a simulated experiment, in the order in which they were made."""
    found = []
    for record in load_runs(context.files.simulated_runs):
        label = f"{record.policy} {record.repeat}"
        rows = run_rows(record, context.jobs, predicted=context.predicted(record.policy))
        end_s = max((compute.finish_s for compute in record.computes), default=0.0)
        faults = faults_simulated(context.manifest.faults, end_s)
        figures = job_figures(rows, context.jobs)
        result = RunResult(label, record.policy, record.repeat, (), figures, None, faults)
        found.append(AnalysedRun(label, record, rows, result, window(rows.iterations, context.jobs)))
    return found


def emulated_runs(context: Context) -> list[AnalysedRun]:
    """All runs of an emulated experiment that left something, in the order in which they were made.

    Captures are read one run at a time, so that those of one run are in memory at most. Raises InputError where records
    are malformed; a run that broke off is read as far as it goes.
    """
    found = [(read_outcome(files.outcome), files) for files in context.files.runs()]
    found.sort(key=lambda pair: pair[0].run_index)
    return [_emulated_run(context, outcome, files) for outcome, files in found]


def _emulated_run(context: Context, outcome: RunOutcome, files: RunFiles) -> AnalysedRun:
    label, policy, repeat = outcome.label, outcome.policy, outcome.repeat
    if not files.plan.exists():
        never = (f"the run never started: {outcome.failure or 'it has no plan'}; see logs/",)
        return AnalysedRun(
            label, RunRecord(policy, repeat), RunRows(), RunResult(label, policy, repeat, never, {}, None)
        )
    plan = read_plan(files.plan)
    record, jobs = read_run(files, outcome, plan), plan.jobs
    captures, wrong = _captures(context.files, label, record)
    clock = RunClock.of(outcome) if outcome.zero_monotonic_s is not None else None
    packets = _packets(record, plan, captures, clock) if clock is not None else {}
    drift = 0.0 if clock is None else 1 / clock.rate - 1
    fidelity = measure(outcome, record, packets, jobs, captures_wrong=wrong, clock_drift=drift)
    # On a network that was not the one declared a run cannot be valid.
    off = judge_calibration(context.calibration, outcome.run_index, context.limits)
    reasons = (*off, *judge(fidelity, context.limits))
    rows = run_rows(record, context.jobs, predicted=context.predicted(policy), packets=packets)
    figures, faults = job_figures(rows, context.jobs), faults_done(outcome.faults)
    result = RunResult(label, policy, repeat, reasons, figures, fidelity, faults)
    part, arrived = window(rows.iterations, context.jobs), None
    if part is not None and clock is not None:
        iterations = max(job.iterations for job in context.jobs)
        arrived = throughput(captures, plan.addresses, clock, (part.start_s, part.finish_s), iterations)
    return AnalysedRun(label, record, rows, result, part, arrived)


def _captures(folder: RunFolder, label: str, record: RunRecord) -> tuple[dict[str, pcap.Capture], list[str]]:
    """Captures of every host that sends or receives, and in words what is wrong with them."""
    found, wrong = {}, []
    for host in sorted({host for f in record.flows for host in (f.src_host, f.dst_host)}):
        path = folder.capture(label, host)
        if not path.exists():
            wrong.append(f"there is no capture of {host} (pcap/{path.name})")
            continue
        found[host] = pcap.read(path)
        if found[host].unread_bytes:
            wrong.append(f"the capture of {host} ends in mid-packet (pcap/{path.name})")
    return found, wrong


def _packets(
    record: RunRecord, plan: Plan, captures: Mapping[str, pcap.Capture], clock: RunClock
) -> dict[FlowKey, FlowPackets]:
    """What the captures saw of every flow of `record` whose two ends were captured."""
    iterations = {job.name: job.iterations for job in plan.placed}
    connections = {(f.job, f.flow): f for f in record.flows}
    released = {(f.job, f.iteration, f.flow) for f in record.flows}
    found = {}
    for (job, flow), f in connections.items():
        if f.src_host not in captures or f.dst_host not in captures:
            continue
        name = (plan.addresses[f.src_host], f.src_port, plan.addresses[f.dst_host], f.dst_port)
        seen = flow_packets(
            captures[f.src_host], captures[f.dst_host], name, f.size_bytes, iterations=iterations[job], clock=clock
        )
        found.update({key: s for i, s in enumerate(seen) if (key := (job, i, flow)) in released})
    return found
