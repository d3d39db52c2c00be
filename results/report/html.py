"""report.html: everything a reader needs to judge an experiment, in one file that needs no other."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from echelonflow.model.units import format_rate, format_size
from echelonflow.records.blame import CAUSES
from echelonflow.records.calibration import Calibration
from echelonflow.records.experiment_file import experiment_text, rerun_command
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import Manifest
from results.analysis.analysed_run import AnalysedRun
from results.analysis.coflows import TraceRun
from results.analysis.shown import ShownRun
from results.analysis.summary import Summary
from results.analysis.training import Trained, training_lines
from results.report.blame import most_waited_for, spent_s
from results.report.budget import unexplained_share
from results.report.charts import Chart
from results.report.charts.bars import budgets, spent, times
from results.report.charts.curves import completion_curves, iteration_curves, tardiness_curves
from results.report.charts.decisions import decisions
from results.report.charts.gantt import gantts
from results.report.charts.rates import class_rates, link_loads
from results.report.charts.training import loss_curves
from results.report.comparison import narrowing_lines
from results.report.control import control_table
from results.report.headline import headline
from results.report.in_job import held_back
from results.report.page import download, environment, write_page
from results.report.printed_column import MISSING, TimeUnit, format_estimate, format_seconds, format_share
from results.report.table import lists_jobs, stretched, swapped_parts, unit_of, window_lines
from results.report.together import bound_words, several_jobs


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is drawn in a report; with nothing of it, there are tables alone."""

    runs: Sequence[AnalysedRun] = ()
    shown: Sequence[ShownRun] = ()
    """One run of each policy."""
    traces: Sequence[TraceRun] = ()


def write_report(
    folder: RunFolder,
    manifest: Manifest,
    calibration: Calibration | None,
    summary: Summary,
    drawn: Drawn | None = None,
    programs: Sequence[Trained] = (),
) -> Path:
    """Write report.html into `folder`; returns its path. Without what is `drawn` it has no charts.

    `programs` are the jobs that were training programs.
    """
    unit = unit_of(summary)
    return write_page(
        folder.root / "report.html",
        with_filters(environment(), unit),
        "report.html.j2",
        {} if drawn is None else _charts(drawn, manifest, summary, programs),
        summary=summary,
        headline=headline(summary, manifest.against, unit),
        listed=lists_jobs(summary),
        unit=unit,
        manifest=manifest,
        simulated=summary.backend == "fluid",
        calibration=calibration,
        papers_figure=_is_papers_figure(manifest),
        swapped=swapped_parts(summary),
        held_back=held_back(summary.results),
        control=control_table(summary),
        programs=programs,
        training=list(training_lines(programs)),
        together=summary.together if several_jobs(summary) else (),
        bound=bound_words(summary.together),
        blamed=[result for result in summary.results if result.blame],
        causes=CAUSES,
        spent_s=spent_s,
        most_waited_for=most_waited_for,
        counted=window_lines(summary),
        stretched=None if summary.stretch == 1 else stretched(summary.stretch),
        narrowing=narrowing_lines(summary.comparisons),
        facts=_facts(manifest),
        experiment=_experiment(folder, manifest),
        as_download=download,
        rerun=rerun_command(manifest.backend),
        command=_command(manifest),
    )


def with_filters(made: jinja2.Environment, unit: TimeUnit) -> jinja2.Environment:
    """The same, with filters for numbers; times in `unit`."""
    made.filters["time"] = functools.partial(format_seconds, unit=unit)
    made.filters["signed_time"] = functools.partial(format_seconds, unit=unit, signed=True)
    made.filters["number"] = format_seconds
    made.filters["share"] = format_share
    made.filters["difference"] = functools.partial(format_estimate, unit=unit, signed=True)
    made.filters["ratio"] = format_estimate
    made.filters["ms"] = lambda value_s: MISSING if value_s is None else f"{value_s * 1e3:.2f}"
    made.filters["whole"] = lambda value: MISSING if value is None else f"{value:.0f}"
    made.filters["short_ms"] = lambda value: MISSING if value is None else f"{value:.2f}"
    made.filters["percent"] = lambda value: MISSING if value is None else f"{value:.0%}"
    made.filters["fine_percent"] = lambda value: MISSING if value is None else f"{value:.2%}"
    made.filters["unexplained"] = lambda budget: format_share(unexplained_share(budget))
    made.filters["size"] = lambda value: MISSING if value is None else format_size(value)
    made.filters["rate"] = lambda rate_Bps: format_rate(rate_Bps * 8)
    return made


def _charts(drawn: Drawn, manifest: Manifest, summary: Summary, programs: Sequence[Trained]) -> dict[str, list[Chart]]:
    """The charts of each section; sections without any are left out."""
    found = {
        "completion": completion_curves(drawn.traces) if drawn.traces else [],
        "gantt": gantts(drawn.shown),
        "times": times(summary),
        "iterations": iteration_curves(drawn.runs, manifest.policies),
        "tardiness": tardiness_curves(drawn.runs, manifest.policies),
        "blame": spent(summary),
        "budget": budgets(summary),
        "classes": class_rates(drawn.shown),
        "links": link_loads(drawn.shown, manifest.network),
        "decisions": decisions(drawn.shown),
        "training": loss_curves(programs, manifest.policies),
    }
    return {section: charts for section, charts in found.items() if charts}


def _is_papers_figure(manifest: Manifest) -> bool:
    """Whether this is the example of the EchelonFlow paper's Fig. 2: one forward pass of two stages, three micro-batches."""
    experiment = manifest.experiment or {}
    jobs = experiment.get("jobs")
    if not isinstance(jobs, list) or len(jobs) != 1 or not isinstance(jobs[0], dict):
        return False
    asked = {"paradigm": "pipeline", "stages": 2, "micro_batches": 3, "forward": "1 s", "activation": "2 s of link"}
    return all(jobs[0].get(key) == value for key, value in asked.items()) and not jobs[0].keys() - {"name", *asked}


def _experiment(folder: RunFolder, manifest: Manifest) -> str:
    """The file that runs the experiment again; of an older folder, what its manifest says of it."""
    if folder.experiment.is_file():
        return folder.experiment.read_text(encoding="utf-8", errors="replace")
    return experiment_text(manifest.experiment or {}, rerun_command(manifest.backend))


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    """What the manifest knows about where the numbers come from, in words."""
    named = {
        "started": manifest.started,
        "code revision": manifest.git,
        "seed": manifest.seed,
        "congestion control": manifest.congestion_control,
        "OpenFlow framework": manifest.framework,
        "network": _network(manifest),
        "limits of a valid run": manifest.limits,
        **manifest.machine,
        **{f"version of {name}": value for name, value in manifest.versions.items()},
    }
    return [(name, _words(value)) for name, value in named.items() if value not in (None, "", [], {})]


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_words(item)}" for key, item in value.items())
    return str(value)


def _network(manifest: Manifest) -> str | None:
    network = manifest.network
    if network is None:
        return None
    rates = sorted({cable.rate_bps for cable in network.cables})
    return (
        f"{network.name}: {len(network.hosts)} hosts, {len(network.switches)} switches, "
        f"{' and '.join(map(format_rate, rates))}, MTU {network.mtu_bytes}"
    )


def _command(manifest: Manifest) -> str:
    """The command that repeats the experiment, to be copied into a shell: the folder may be another's."""
    policies = " ".join(f"--policy {shlex.quote(policy)}" for policy in manifest.policies)
    backend = " --backend fluid" if manifest.backend == "fluid" else ""
    file = manifest.experiment_file or f"{manifest.name}.yaml"
    against = "" if manifest.against is None else f" --against {shlex.quote(manifest.against)}"
    against += "" if manifest.stretch == 1 else f" --stretch {manifest.stretch:g}"
    return f"echelon run {shlex.quote(file)} {policies}{against} --repeat {manifest.repeats} --seed {manifest.seed}{backend}"
