"""Policies in steady state on packets: whether they come in the order in which fluid simulation has them.

Runs the files in experiments/steady/, which are drawn by chance, under the policies that they name. Iteration times count
while all jobs of a file run, on packets as in the simulation of the same run. For each two policies that are more than 5 %
apart in fluid simulation, the same one has to be faster on packets. What is measured is kept beside `--out`; interrupted,
the same command goes on. Valid runs decide. What all runs say that came to their end stands beside it: of some policies
every run is further off what explains it than is allowed. `--only 'crossing-*'` takes the files whose names fit.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import carry_out
from echelon.benchmarks._kept_runs import measured
from echelon.benchmarks._same_order import Times, same_order
from echelon.experiment import schema
from echelon.places import EXPERIMENTS
from echelon.study.steady import WARM_UP, while_all_run
from echelonflow.codec import Log
from echelonflow.errors import InputError, RunError
from echelonflow.files import write_whole
from echelonflow.model.iterations import ends_s, mean_duration_s
from results.analysis.valid_rows import all_rows, valid_runs

FOLDER = EXPERIMENTS / "steady"
RUNS_FILE = "ranking.jsonl"
"""Beside the file of figures: every run that ended."""


class SteadyRun(msgspec.Struct, frozen=True):
    """A run that ended: mean over jobs of the mean iteration time while all run, in seconds, on packets and in fluid simulation."""

    experiment: str
    policy: str
    repeat: int
    on_packets_s: float
    fluid_s: float
    valid: bool


LOG: Log[SteadyRun] = Log("echelon-ranking-runs", 1, SteadyRun)


def run(repeat: int, say: Say, folder: Path, only: Sequence[str] = ()) -> list[Figure]:
    """`repeat` runs of each policy on each file (InputError if `only` fits none, RunError if nothing came out)."""
    paths = [
        path for path in sorted(FOLDER.glob("*.yaml")) if not only or any(fnmatch.fnmatch(path.stem, p) for p in only)
    ]
    if not paths:
        raise InputError(f"--only {' '.join(only)}: fits no file in {FOLDER}, such as drawn-1")
    found: list[SteadyRun] = []
    execute = functools.partial(carry_out, again=max(repeat // 2, 1), pictures="none")
    for path in paths:
        experiment = schema.load(path, {"repeats": repeat})
        root = measured(experiment, folder / "ranking-runs", say, execute, lambda summary: bool(summary.runs))
        if root is not None and (made := runs_in(root, path.stem)):
            found += made
            write_whole(folder / RUNS_FILE, LOG.header + b"".join(map(LOG.line, found)))
    if not found:
        raise RunError("not one valid run came out; see above")
    return figures(found)


def runs_in(root: Path, experiment: str) -> list[SteadyRun]:
    """What the runs in a folder show in steady state; one that did not end is left out."""
    valid, _ = valid_runs(root)
    runs: dict[tuple[str, str], dict[str, list[tuple[int, float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in all_rows(root, "iterations"):
        each = (int(row["iteration"]), float(row["duration_s"]), float(row["predicted_s"]))
        runs[row["policy"], row["repeat"]][row["job"]].append(each)
    found = []
    for (policy, repeat), jobs in runs.items():
        lasts = [[each[1:] for each in sorted(iterations)] for iterations in jobs.values()]
        on_packets_s, fluid_s = (steady_s([[each[place] for each in job] for job in lasts]) for place in range(2))
        if on_packets_s is not None and fluid_s is not None:
            counts = (policy, repeat) in valid
            found.append(SteadyRun(experiment, policy, int(repeat), on_packets_s, fluid_s, counts))
    return found


def steady_s(lasts_s: Sequence[Sequence[float]]) -> float | None:
    """Mean over jobs of the mean iteration time while all run; None where a job ends no two iterations then.

    `lasts_s` is how long the iterations of each job lasted, one after the other; all jobs begin together.
    """
    ends = [ends_s(itertools.accumulate(each)) for each in lasts_s]
    if any(len(each) <= WARM_UP for each in ends):
        return None
    counted = while_all_run(ends)
    if any(len(each) < 2 for each in counted):
        return None
    return statistics.fmean(mean_duration_s(each[1:], each[0]) for each in counted)


def medians(runs: Sequence[SteadyRun]) -> dict[str, Times]:
    """By experiment and policy, in the order in which they come."""
    found: dict[str, dict[str, list[SteadyRun]]] = defaultdict(lambda: defaultdict(list))
    for each in runs:
        found[each.experiment][each.policy].append(each)
    return {
        name: {
            policy: (statistics.median(e.on_packets_s for e in mine), statistics.median(e.fluid_s for e in mine))
            for policy, mine in policies.items()
        }
        for name, policies in found.items()
    }


def figures(runs: Sequence[SteadyRun]) -> list[Figure]:
    """By file what each policy takes, and over all files how many pairs come in another order than in fluid."""
    valid = [run for run in runs if run.valid]
    made, off = [], []
    for name, times in medians(valid).items():
        off += [on_packets / fluid - 1 for on_packets, fluid in times.values()]
        shown = ", ".join(f"{policy} {on_packets:.3f} ({fluid:.3f})" for policy, (on_packets, fluid) in times.items())
        made.append(Figure(f"{name}: iteration on packets (in fluid), seconds", shown, "reported", None))
    made.append(same_order("policies", "valid runs", medians(valid), "all"))
    made.append(same_order("policies", "all runs that ended", medians(runs), "reported"))
    if off:
        shown = f"{statistics.median(map(abs, off)):.1%} (up to {max(map(abs, off)):.1%})"
        made.append(Figure("iteration in steady state off fluid, median over valid runs", shown, "reported", None))
    return made
