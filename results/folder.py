"""A whole run folder: raw records in; tables, verdict, pictures, timeline and report out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.model.dag import Job
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.calibration import Calibration, read_calibration
from echelonflow.records.folder import RunFiles, RunFolder
from echelonflow.records.manifest import Manifest, read_manifest
from echelonflow.records.outcome import RunOutcome, read_outcome
from echelonflow.records.plan import Plan, read_plan
from echelonflow.records.run_record import RunRecord
from echelonflow.records.runs import load_runs, save_runs
from results import pcap
from results.coflows import coflow_results, load_trace_runs, write_coflows
from results.columns import to_json, write_csv
from results.fidelity import measure
from results.flows import FlowPackets, RunClock, Throughput, flow_packets, throughput
from results.metrics import FlowRow, GroupRow, IterationRow, RunRows, run_rows
from results.read_run import read_run
from results.report import write_report
from results.shown import ShownRun, Window, window
from results.summary import RunResult, Summary, job_figures, policy_results, write_summary
from results.timeline import write_timeline
from results.verdict import Limits, judge, judge_calibration, judge_completeness

__all__ = ["Summary", "analyse"]


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


@dataclass(frozen=True)
class _Folder:
    """What a run folder holds besides its runs."""

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


def analyse(root: Path, predictions: Mapping[str, RunRecord] | None = None, *, pictures: bool = True) -> Summary:
    """Analyse the run folder `root` and write all that is derived from its raw records.

    `predictions` are fluid runs by policy; they are kept in prediction.json, which is read where none are
    given. Without `pictures` nothing is drawn, for who needs the numbers only. Doing it again gives the same. Raises InputError where `root` is not a run folder or what it holds
    is malformed; a run that failed or is incomplete is no error but a verdict.
    """
    folder = _open(root, predictions)
    _remove_pictures(root)
    if folder.manifest.trace is not None:
        summary = _analyse_trace(folder, pictures=pictures)
        _write_findings(folder, summary)
        return summary
    simulated = folder.manifest.backend == "fluid"
    runs = _simulated_runs(folder) if simulated else _emulated_runs(folder)
    summary = _summarise(folder, runs, simulated=simulated)
    _write_tables(folder, runs)
    shown = _shown(folder, runs, summary)
    write_timeline(root / "timeline.json", shown)
    if pictures:
        _draw(folder, shown, summary)
    _write_findings(folder, summary)
    return summary


def _write_findings(folder: _Folder, summary: Summary) -> None:
    """summary.json and the report."""
    write_summary(folder.root / "summary.json", summary)
    write_report(folder.files, folder.manifest, folder.calibration, summary)


def _analyse_trace(folder: _Folder, *, pictures: bool) -> Summary:
    """What the runs of a trace of Coflows show: coflows.csv, the distribution's picture, the figures."""
    runs = load_trace_runs(folder.files.coflow_runs)
    write_coflows(folder.root / "coflows.csv", runs)
    if pictures:
        from results.pictures.coflow_plots import draw_completion

        figures = folder.root / "figures"
        figures.mkdir(exist_ok=True)
        draw_completion(figures / "completion.png", runs)
    return Summary(
        name=folder.manifest.name,
        backend=folder.manifest.backend,
        time_unit_s=None,
        reasons=(),
        results=(),
        runs=(),
        coflows=coflow_results(runs),
    )


def _open(root: Path, predictions: Mapping[str, RunRecord] | None) -> _Folder:
    files = RunFolder(root)
    manifest = read_manifest(files.manifest)
    try:
        jobs = tuple(placed.job() for placed in manifest.jobs)
    except InputError as error:
        raise InputError(f"{files.manifest}: {error}") from None
    kept = files.prediction
    if predictions is not None:
        save_runs(kept, list(predictions.values()))
    elif kept.exists():
        predictions = {run.policy: run for run in load_runs(kept)}
    rows = {policy: run_rows(record, jobs) for policy, record in (predictions or {}).items()}
    return _Folder(root, manifest, jobs, rows)


def _simulated_runs(folder: _Folder) -> list[AnalysedRun]:
    found = []
    for record in load_runs(folder.files.simulated_runs):
        label = f"{record.policy} {record.repeat}"
        rows = run_rows(record, folder.jobs, predicted=folder.predicted(record.policy))
        result = RunResult(label, record.policy, record.repeat, (), job_figures(rows, folder.jobs), None)
        found.append(AnalysedRun(label, record, rows, result, window(rows.iterations, folder.jobs)))
    return found


def _emulated_runs(folder: _Folder) -> list[AnalysedRun]:
    found = [(read_outcome(files.outcome), files) for files in folder.files.runs()]
    found.sort(key=lambda pair: pair[0].run_index)
    return [_emulated_run(folder, outcome, files) for outcome, files in found]


def _emulated_run(folder: _Folder, outcome: RunOutcome, files: RunFiles) -> AnalysedRun:
    label, policy, repeat = outcome.label, outcome.policy, outcome.repeat
    if not files.plan.exists():
        never = (f"the run never started: {outcome.failure or 'it has no plan'}; see logs/",)
        return AnalysedRun(
            label, RunRecord(policy, repeat), RunRows(), RunResult(label, policy, repeat, never, {}, None)
        )
    plan = read_plan(files.plan)
    record, jobs = read_run(files, outcome, plan), plan.jobs
    captures, wrong = _captures(folder.files, label, record)
    clock = RunClock.of(outcome) if outcome.zero_monotonic_s is not None else None
    packets = _packets(record, plan, captures, clock) if clock is not None else {}
    drift = 0.0 if clock is None else 1 / clock.rate - 1
    fidelity = measure(outcome, record, packets, jobs, captures_wrong=wrong, clock_drift=drift)
    # On a network that was not the one declared a run cannot be valid.
    off = judge_calibration(folder.calibration, outcome.run_index, folder.limits)
    reasons = (*off, *judge(fidelity, folder.limits))
    rows = run_rows(record, folder.jobs, predicted=folder.predicted(policy), packets=packets)
    result = RunResult(label, policy, repeat, reasons, job_figures(rows, folder.jobs), fidelity)
    part, arrived = window(rows.iterations, folder.jobs), None
    if part is not None and clock is not None:
        iterations = max(job.iterations for job in folder.jobs)
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


def _summarise(folder: _Folder, runs: Sequence[AnalysedRun], *, simulated: bool) -> Summary:
    results = [run.result for run in runs]
    reasons: list[str] = []
    failure = folder.files.failure
    if failure.exists():
        reasons.append(f"the experiment failed: {failure.read_text(encoding='utf-8').strip()}")
    if not simulated:
        reasons += judge_completeness([(r.policy, r.repeat) for r in results], folder.policies, folder.manifest.repeats)
        reasons += [f"{run.label}: {reason}" for run in runs for reason in run.result.reasons]
    # A simulated run is its own prediction: nothing would be compared.
    predicted = {} if simulated else folder.predictions
    predictions = {policy: job_figures(rows, folder.jobs) for policy, rows in predicted.items()}
    return Summary(
        name=folder.manifest.name,
        backend=folder.manifest.backend,
        time_unit_s=folder.manifest.time_unit_s,
        reasons=tuple(reasons),
        results=tuple(policy_results(results, folder.policies, folder.jobs, predictions)),
        runs=tuple(results),
    )


def _write_tables(folder: _Folder, runs: Sequence[AnalysedRun]) -> None:
    """The CSV tables and decisions.jsonl of all runs, the invalid ones too (summary.json says which)."""
    write_csv(folder.root / "iterations.csv", IterationRow, [row for run in runs for row in run.rows.iterations])
    write_csv(folder.root / "groups.csv", GroupRow, [row for run in runs for row in run.rows.groups])
    write_csv(folder.root / "flows.csv", FlowRow, [row for run in runs for row in run.rows.flows])
    decisions = [
        json.dumps({"policy": run.record.policy, "repeat": run.record.repeat, **to_json(decision)}) + "\n"
        for run in runs
        for decision in run.record.decisions
    ]
    (folder.root / "decisions.jsonl").write_text("".join(decisions), encoding="utf-8")


def _shown(folder: _Folder, runs: Sequence[AnalysedRun], summary: Summary) -> list[ShownRun]:
    """One run per policy for the pictures: the valid one nearest its policy's median, else the first that ended."""
    shown = []
    valid = {run.label for run in summary.runs if run.valid}
    for policy in folder.policies:
        mine = [run for run in runs if run.record.policy == policy and run.window is not None]
        medians = {r.job: r.iteration_s.median for r in summary.results if r.policy == policy and r.iteration_s}
        if not mine:
            continue

        def distance(run: AnalysedRun, medians: dict[str, float] = medians) -> tuple[bool, float, int]:
            off = sum(abs(f.iteration_s - medians[job]) for job, f in run.result.jobs.items() if job in medians)
            return run.label not in valid, off, run.record.repeat

        best = min(mine, key=distance)
        assert best.window is not None  # by the choice of `mine`
        # Nobody is to take the picture of an invalid run for a result, nor that of a simulation for a measurement.
        mark = " (simulated)" if folder.manifest.backend == "fluid" else ""
        title = policy + mark if best.label in valid else f"{policy} (INVALID run)"
        shown.append(ShownRun(title, best.record, best.rows, best.window, best.throughput))
    return shown


def _remove_pictures(root: Path) -> None:
    """Remove what an earlier analysis drew: it may show what this one does not."""
    for name in ("gantt", "times", "tardiness", "throughput", "completion"):
        for suffix in (".png", ".svg"):
            (root / "figures" / f"{name}{suffix}").unlink(missing_ok=True)


def _draw(folder: _Folder, shown: Sequence[ShownRun], summary: Summary) -> None:
    """All pictures that there are numbers for."""
    from results.pictures.gantt import draw_gantt
    from results.pictures.plots import draw_tardiness, draw_throughput, draw_times

    figures = folder.root / "figures"
    figures.mkdir(exist_ok=True)
    draw_gantt(figures / "gantt.png", shown)
    draw_times(figures / "times.png", summary)
    draw_tardiness(figures / "tardiness.png", shown, folder.jobs)
    draw_throughput(figures / "throughput.png", shown)
