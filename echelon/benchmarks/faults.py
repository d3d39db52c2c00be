"""Planned faults: a controller that is killed and started again in mid-run, and what policies do under every kind of fault.

The first figures are demanded: with the controller restarted, runs complete, are valid, and their iterations take at most
10 % longer than undisturbed ones. The others are results: iteration times over undisturbed ones, simulated and emulated.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType
from typing import Any

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import carry_out
from echelon.experiment.schema import Experiment, check
from echelon.running.runner import predict
from echelonflow.errors import InputError
from results.analysis.figures import job_figures
from results.analysis.rows import run_rows
from results.analysis.summary import Summary
from testbed import preflight

RESTART = "restart"
"""Name of the part whose figures are demanded."""
MOST_LONGER = 0.10
POLICIES = ("fair", "coflow(grouping=group)", "echelonflow")
RESTARTED = {"fault": "controller-stop", "at": "3 s", "for": "500 ms"}
KINDS: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "link-down": {"link": ["h2", "s1"], "at": "2 s", "for": "500 ms"},
        "link-rate": {"link": ["h2", "s1"], "rate": "40 %", "at": "2 s", "for": "3 s"},
        "slowdown": {"host": "h1", "factor": 1.5, "at": "2 s", "for": "3 s"},
        "crash": {"host": "h4", "at": "4 s"},
        "controller-stop": {"at": "2 s", "for": "1 s"},
        "lost-messages": {"host": "h3", "share": "20 %", "at": "2 s", "for": "3 s"},
    }
)
"""One fault of each kind, and when."""
_JOB = {
    "paradigm": "gpipe", "stages": 3, "micro_batches": 3, "forward": "100 ms", "backward": "100 ms",
    "activation": "100 ms of link", "iterations": 7,
}  # fmt: skip


def experiment(faults: Sequence[dict[str, Any]], policies: Sequence[str] = POLICIES, repeats: int = 1) -> Experiment:
    """Two jobs that share the links of two hosts; the third host of each is its own."""
    data = {
        "name": "faults",
        "network": {"topology": "single-switch", "hosts": 4, "rate": "50 Mbit/s"},
        "jobs": [
            {**_JOB, "name": "job", "placement": ["h1", "h2", "h3"]},
            {**_JOB, "name": "rival", "placement": ["h1", "h2", "h4"]},
        ],
        "policies": list(policies),
        "repeats": repeats,
        "faults": list(faults),
    }
    return check(data, Path("faults.yaml"))


def run(repeat: int, say: Say, only: Sequence[str] = ()) -> list[Figure]:
    """`repeat` runs with the controller restarted, and as many without; then one run of each policy under each kind."""
    parts = [name for name in (RESTART, *KINDS) if not only or any(fnmatch(name, pattern) for pattern in only)]
    if not parts:
        raise InputError(f"--only {' '.join(only)}: there is: {', '.join((RESTART, *KINDS))}")
    preflight.require()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="echelon-faults-") as folder:
        if RESTART in parts:
            figures += _restarts(repeat, Path(folder), say)
        kinds = [name for name in parts if name != RESTART]
        if kinds:
            figures += _table(kinds, Path(folder), say)
    return figures


def _restarts(repeat: int, folder: Path, say: Say) -> list[Figure]:
    calm, _ = _iteration_s(experiment([], ["echelonflow"], repeat), folder / "calm", say)
    times, summary = _iteration_s(experiment([RESTARTED], ["echelonflow"], repeat), folder / "restarted", say)
    completed = sum(run.fidelity is not None and run.fidelity.completed for run in summary.runs)
    valid = sum(run.valid for run in summary.runs)
    figures = [
        Figure("controller restarted in mid-run: completed", f"{completed} of {repeat}", "all", completed == repeat),
        Figure("controller restarted in mid-run: valid", f"{valid} of {repeat}", "all", valid == repeat),
    ]
    ratios = [time_s / calm["echelonflow"] - 1 for time_s in _of_runs(summary)] if calm and times else []
    worst = max(ratios, default=float("nan"))
    measured = f"{worst:+.1%} (median {statistics.median(ratios):+.1%})" if ratios else "nothing"
    figures.append(
        Figure("iteration time over undisturbed, worst run", measured, f"<= {MOST_LONGER:+.0%}", worst <= MOST_LONGER)
    )
    away_s = [fault.end_s - fault.begin_s for run in summary.runs for fault in run.faults if fault.end_s is not None]
    if away_s:
        figures.append(Figure("time without a controller that knows the run", f"{max(away_s):.2f} s", "", None))
    return figures


def _table(kinds: Sequence[str], folder: Path, say: Say) -> list[Figure]:
    """Iteration time of every policy under each kind, over the undisturbed one."""
    calm = experiment([])
    calm_fluid_s = _simulated_s(calm)
    calm_s, calm_runs = _iteration_s(calm, folder / "undisturbed", say)
    figures = []
    for kind in kinds:
        struck = experiment([{"fault": kind, **KINDS[kind]}])
        fluid_s = _simulated_s(struck)
        emulated_s, runs = _iteration_s(struck, folder / kind, say)
        for policy in POLICIES:
            there = policy in emulated_s and policy in calm_s
            words = f"{emulated_s[policy] / calm_s[policy]:.3f} emulated" if there else "nothing emulated"
            sure = all(run.valid for found in (calm_runs, runs) for run in found.runs if run.policy == policy)
            measured = (
                f"{fluid_s[policy] / calm_fluid_s[policy]:.3f} simulated, {words}{'' if sure else ' (not valid)'}"
            )
            figures.append(Figure(f"{kind}, {policy}: iteration over undisturbed", measured, "", None))
    return figures


def _simulated_s(what: Experiment) -> dict[str, float]:
    """Mean iteration time of both jobs by policy, in the fluid simulation."""
    found = {}
    for policy in what.policies:
        figures = job_figures(run_rows(predict(what, policy), what.jobs), what.jobs)
        found[policy] = statistics.fmean(job.iteration_s for job in figures.values())
    return found


def _iteration_s(what: Experiment, folder: Path, say: Say) -> tuple[dict[str, float], Summary]:
    """The same on packets, the median over valid runs, or over all where none is valid; policies without any are left out."""
    say(f"{folder.name}: {len(what.policies) * what.repeats} runs")
    _, summary = carry_out(what, folder, say)
    found: dict[str, float] = {}
    for policy in what.policies:
        mine = [run for run in summary.runs if run.policy == policy and run.jobs]
        times = [_mean_s(run.jobs) for run in mine if run.valid or not any(other.valid for other in mine)]
        if times:
            found[policy] = statistics.median(times)
    return found, summary


def _of_runs(summary: Summary) -> list[float]:
    return [_mean_s(run.jobs) for run in summary.runs if run.valid]


def _mean_s(jobs: Any) -> float:
    return statistics.fmean(job.iteration_s for job in jobs.values())
