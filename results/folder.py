"""A whole run folder: raw records in; tables, verdict, pictures, timeline and report out."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.files import writing
from echelonflow.model.dag import Job
from echelonflow.records.run_record import RunRecord
from results.analysis.analysed_run import AnalysedRun, emulated_runs, simulated_runs
from results.analysis.arrivals import ArrivalRow, completion_results
from results.analysis.coflows import TraceRun, coflow_results, judge_trace, load_trace_runs, write_coflows
from results.analysis.columns import to_json, write_csv, write_joined
from results.analysis.context import Context, open_folder
from results.analysis.paired import Comparison, compare
from results.analysis.rows import FlowRow, GroupRow, IterationRow, RunMark
from results.analysis.sample import beyond_reading
from results.analysis.shown import Pictures, ShownRun
from results.analysis.summary import RunResult, Summary, lacking, policy_results, write_summary
from results.analysis.tables import (
    BLAME_COLUMNS,
    JOB_COLUMNS,
    LINK_COLUMNS,
    RUN_COLUMNS,
    blame_rows,
    job_rows,
    link_rows,
    run_row,
)
from results.analysis.together import TogetherResult, together_result
from results.analysis.training import trained
from results.analysis.verdict import judge_completeness
from results.pictures import places
from results.pictures.places import Figures, Target
from results.report.html import Drawn, write_report
from results.report.timeline import write_timeline

_PICTURES = ("gantt", "times", "budget", "blame", "tardiness", "throughput", "completion")

__all__ = ["Figures", "Reading", "Summary", "analyse", "read"]


def analyse(
    root: Path,
    predictions: Mapping[str, RunRecord] | None = None,
    *,
    pictures: Pictures = "few",
    jobs: Sequence[Job] | None = None,
    figures: Figures = "screen",
) -> Summary:
    """Analyse the run folder `root` and write all that is derived from its raw records.

    `predictions` are fluid runs by policy; they are kept in prediction.json, which is read where none are given.
    `pictures` says what is drawn; nothing for who needs the numbers only. With `figures` for a paper, all that is drawn is also
    drawn for one of its columns, in figures/paper/. `jobs` are those of the manifest, where they
    are at hand: large ones take long to be made again. Doing it again gives the same. Raises
    InputError where `root` is not a run folder. What it holds and cannot be read, and a run that failed or is
    incomplete, are no errors but a verdict.
    """
    places.check(pictures, figures)
    folder = open_folder(root, predictions, jobs)
    if folder.manifest.trace is None:
        return _read(folder).write(pictures=pictures, figures=figures)
    places.remove(root, _PICTURES)
    summary, runs = _analyse_trace(folder, pictures=pictures, figures=figures)
    _write_findings(folder, summary, None if pictures == "none" else Drawn(traces=runs))
    return summary


@dataclasses.dataclass(frozen=True)
class Reading:
    """What the raw records of a folder say, before anything is written: figures, and the verdict on every run."""

    folder: Context
    runs: Sequence[AnalysedRun]
    summary: Summary

    def write(self, *, pictures: Pictures = "few", figures: Figures = "screen") -> Summary:
        """Write all that is derived, as `analyse` does; returns what was found."""
        root = self.folder.root
        places.remove(root, _PICTURES)
        _write_tables(self.folder, self.runs)
        shown = _shown(self.folder, self.runs, self.summary)
        write_timeline(root / "timeline.json", shown, self.folder.jobs, whole=pictures == "all")
        if pictures != "none":
            for target in places.targets(root, figures):
                _draw(target, self.folder, shown, self.summary, whole=pictures == "all")
        drawn = None if pictures == "none" else Drawn(self.runs, shown)
        _write_findings(self.folder, self.summary, drawn)
        return self.summary


def read(root: Path) -> Reading:
    """Read the folder of jobs that were run or simulated, and judge what is there; nothing is written.

    Raises what `analyse` raises.
    """
    return _read(open_folder(root))


def _read(folder: Context) -> Reading:
    simulated = folder.manifest.backend == "fluid"
    runs, folder = _simulated(folder) if simulated else (emulated_runs(folder), folder)
    return Reading(folder, runs, _summarise(folder, runs, simulated=simulated))


def _write_findings(folder: Context, summary: Summary, drawn: Drawn | None) -> None:
    """summary.json and the report."""
    write_summary(folder.root / "summary.json", summary)
    write_report(folder.files, folder.manifest, folder.calibration, summary, drawn, trained(folder.files))


def _analyse_trace(folder: Context, *, pictures: Pictures, figures: Figures) -> tuple[Summary, list[TraceRun]]:
    """What the runs of a trace of Coflows show: coflows.csv, the distribution's picture, the figures; and the runs."""
    reasons = _of_all(folder)
    try:
        runs = load_trace_runs(folder.files.coflow_runs)
    except InputError as error:
        runs = []
        reasons.append(f"cannot be read: {error}")
    reasons += judge_trace(runs, folder.manifest) if runs else []
    write_coflows(folder.root / "coflows.csv", runs)
    if pictures != "none" and runs:
        from results.pictures.coflow_plots import draw_completion

        for target in places.targets(folder.root, figures):
            draw_completion(target.folder / "completion.png", runs, whole=pictures == "all", page=target.page())
    summary = Summary(
        name=folder.manifest.name,
        backend=folder.manifest.backend,
        time_unit_s=None,
        reasons=tuple(reasons),
        results=(),
        runs=(),
        coflows=coflow_results(runs) if runs else (),
    )
    return summary, runs


def _simulated(folder: Context) -> tuple[list[AnalysedRun], Context]:
    """The runs of a simulation, and the folder with why they cannot be read, if they cannot."""
    try:
        return simulated_runs(folder), folder
    except InputError as error:
        return [], dataclasses.replace(folder, wrong=(*folder.wrong, f"cannot be read: {error}"))


def _summarise(folder: Context, runs: Sequence[AnalysedRun], *, simulated: bool) -> Summary:
    results = [run.result for run in runs]
    asked = folder.manifest.runs_simulated() if simulated else folder.manifest.repeats
    given = dict.fromkeys(folder.policies, asked) if simulated else folder.manifest.runs_given()
    jobs = [job for job in folder.jobs if not job.is_background]
    enough = set(folder.policies) - lacking(results, folder.policies, asked).keys()
    reasons = [
        *_of_all(folder),
        *judge_completeness([(r.policy, r.repeat) for r in results], given),
        *_reasons_of([run for run in results if run.policy not in enough]),
    ]
    # A simulated run is its own prediction: nothing would be compared.
    counting = folder.manifest.counting
    predictions = {} if simulated else folder.predicted_means()
    return Summary(
        name=folder.manifest.name,
        backend=folder.manifest.backend,
        time_unit_s=folder.manifest.time_unit_s,
        reasons=tuple(reasons),
        results=tuple(policy_results(results, folder.policies, jobs, predictions, asked)),
        runs=tuple(results),
        stretch=folder.manifest.stretch,
        comparisons=() if simulated and asked == 1 else tuple(_comparisons(folder, results)),
        completions=tuple(completion_results([run.arrivals for run in runs if run.result.valid], folder.policies)),
        set_aside=tuple(_reasons_of([run for run in results if run.policy in enough])),
        together=tuple(_together(folder, results)),
        window=None if counting.is_all else counting.words,
    )


def _together(folder: Context, results: Sequence[RunResult]) -> Iterator[TogetherResult]:
    for policy in folder.policies:
        valid = [run.together for run in results if run.policy == policy and run.valid and run.together is not None]
        yield together_result(policy, len(folder.jobs), valid, folder.yardsticks)


def _comparisons(folder: Context, results: Sequence[RunResult]) -> list[Comparison]:
    against = folder.manifest.against or folder.policies[0]
    return compare(results, folder.policies, [job.name for job in folder.jobs if not job.is_background], against)


def _reasons_of(runs: Sequence[RunResult]) -> list[str]:
    return [f"{run.label}: {reason}" for run in runs for reason in run.reasons]


def _of_all(folder: Context) -> list[str]:
    """What is wrong with the experiment as a whole."""
    failure, reasons = folder.files.failure, []
    if failure.exists():
        reasons.append(f"the experiment failed: {failure.read_text(encoding='utf-8', errors='replace').strip()}")
    return [*reasons, *folder.wrong, *folder.changed_elsewhere]


def _write_tables(folder: Context, runs: Sequence[AnalysedRun]) -> None:
    """The CSV tables and decisions.jsonl of all runs, the invalid ones too, which are marked."""
    marks = [RunMark(run.result.valid) for run in runs]
    write_csv(folder.root / "iterations.csv", IterationRow, *(run.rows.iterations for run in runs), beside=marks)
    write_csv(folder.root / "arrivals.csv", ArrivalRow, *(run.arrivals for run in runs), beside=marks)
    write_csv(folder.root / "groups.csv", GroupRow, *(run.rows.groups for run in runs), beside=marks)
    write_csv(folder.root / "flows.csv", FlowRow, *(run.rows.flows for run in runs), beside=marks)
    results = [run.result for run in runs]
    write_joined(folder.root / "runs.csv", RUN_COLUMNS, (run_row(result) for result in results))
    write_joined(folder.root / "jobs.csv", JOB_COLUMNS, (row for result in results for row in job_rows(result)))
    write_joined(
        folder.root / "links.csv", LINK_COLUMNS, (row for run in runs for row in link_rows(run.result, run.links))
    )
    write_joined(folder.root / "blame.csv", BLAME_COLUMNS, (row for result in results for row in blame_rows(result)))
    with writing(folder.root / "decisions.jsonl") as file:
        for run in runs:
            for decision in run.record.decisions:
                line = {"policy": run.record.policy, "repeat": run.record.repeat, **to_json(decision)}
                file.write(json.dumps(line).encode() + b"\n")


def _shown(folder: Context, runs: Sequence[AnalysedRun], summary: Summary) -> list[ShownRun]:
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
        shown.append(ShownRun(title, best.record, best.rows, best.window, best.throughput, best.result.faults))
    return shown


def _draw(target: Target, folder: Context, shown: Sequence[ShownRun], summary: Summary, *, whole: bool) -> None:
    """All pictures that there are numbers for: the `whole` of it, or as much as can be read."""
    from results.pictures.blame_plots import draw_blame
    from results.pictures.budget_plots import draw_budgets
    from results.pictures.gantt import draw_gantt
    from results.pictures.plots import draw_tardiness, draw_throughput, draw_times

    figures, page, vector = target.folder, target.page(), whole or not beyond_reading(shown)
    draw_gantt(figures / "gantt.png", shown, whole=whole, page=page)
    draw_times(figures / "times.png", summary, whole=whole, vector=vector, page=page)
    draw_budgets(figures / "budget.png", summary, page=page)
    draw_blame(figures / "blame.png", summary, whole=whole, vector=vector, page=page)
    draw_tardiness(figures / "tardiness.png", shown, folder.jobs, whole=whole, vector=vector, page=page)
    draw_throughput(figures / "throughput.png", shown, page=page)
