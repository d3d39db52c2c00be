"""The chosen dozen on packets: each file's own job scheduler against fifo, in turns, so that whatever drifts strikes both.

A turn is one run of each; every other turn goes the other way round. Speed-ups are paired by turn. A run that does not
count is made again once; a turn without a valid run of both counts for nothing.
"""

from __future__ import annotations

import functools
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import carry_out
from echelon.benchmarks._job_scheduler_matrix import FIFO, FOLDER, with_scheduler
from echelon.benchmarks._kept_runs import Execute, every_policy_valid
from echelon.benchmarks._kept_runs import measured as run_or_kept
from echelon.benchmarks.paradigms import EXPERIMENT_S, RUN_S
from echelon.experiment import schema, yaml_file
from echelon.experiment.jobs import find_profile
from echelon.experiment.schema import Experiment
from echelon.running.simulated import predict
from echelonflow.codec import Log
from echelonflow.errors import RunError
from echelonflow.files import write_whole
from results.analysis.statistics import Estimate, estimate
from results.analysis.summary import read_summary
from results.analysis.valid_rows import rows
from traffic.workloads import profile
from traffic.workloads.one_of_each import bound
from traffic.workloads.tensors import PARAMETER_SERVER, Setting, of_profile

OWN = "own"
LOWEST_INTERVAL = 0.98
BEST_WITHIN = 0.10
MOST_OFF = 0.05
LEAST_EXPOSED = 0.01


class Turn(msgspec.Struct, frozen=True):
    """One valid run: seconds of an iteration, means over the iterations but the first; `which` is "fifo" or "own"."""

    experiment: str
    turn: int
    which: str
    scheduler: str
    iteration_s: float
    fluid_iteration_s: float
    """The same in fluid simulation."""
    exposed_s: float
    """Exposed communication, mean over all iterations."""
    fluid_exposed_s: float
    least_s: float
    """The ideal overlap bound."""


LOG: Log[Turn] = Log("echelon-job-scheduler-turns", 1, Turn)


def files() -> list[Path]:
    """The experiments with one job."""
    return sorted(path for path in FOLDER.glob("*.yaml") if not path.stem.startswith("shared-"))


def variant(path: Path, which: str, turn: int) -> Experiment:
    """The experiment of one run of one turn."""
    data = yaml_file.read(path).data
    if which == FIFO:
        data = with_scheduler(data, FIFO)
    return schema.check({**data, "name": f"{path.stem}-{which}-{turn}", "repeats": 1}, path)


def order(turn: int) -> tuple[str, str]:
    """Which goes first in a turn."""
    return (FIFO, OWN) if turn % 2 == 0 else (OWN, FIFO)


def measured(paths: Sequence[Path], folder: Path, turns: int, say: Say, execute: Execute | None = None) -> list[Turn]:
    """All turns of these experiments; what an earlier try measured in `folder` is kept. RunError where nothing came out.

    It is said beforehand how long all of it takes, by fluid simulation.
    """
    execute = execute or functools.partial(carry_out, again=1, pictures="none")
    of_turn_s = sum(expected_s(path) for path in paths)
    say(f"{turns} turns of {len(paths)} experiments take about {turns * of_turn_s / 60:.0f} min, less what is there")
    found: list[Turn] = []
    for turn in range(turns):
        for path in paths:
            for which in order(turn):
                say(f"turn {turn + 1} of {turns}: {path.stem}, {which}")
                experiment = variant(path, which, turn)
                root = run_or_kept(experiment, folder / "job-scheduler-runs", say, execute, every_policy_valid)
                if root is not None and (made := turn_of(root, experiment, path.stem, which, turn)) is not None:
                    found.append(made)
                    write_whole(folder / "emulated.jsonl", LOG.header + b"".join(map(LOG.line, found)))
    if not found:
        raise RunError("not one valid run came out; see above")
    return found


def expected_s(path: Path) -> float:
    """How long one turn of an experiment takes, if no run has to be made again."""
    runs_s = (predict(found, found.policies[0]).end_s for found in (variant(path, which, 0) for which in order(0)))
    return sum(run_s + RUN_S + EXPERIMENT_S for run_s in runs_s)


def turn_of(root: Path, experiment: Experiment, name: str, which: str, turn: int) -> Turn | None:
    """What a run folder says; None where its run does not count."""
    (result,) = read_summary(root / "summary.json").results
    later = [row for row in rows(root, "iterations") if row["iteration"] != "0"]
    if result.exposed_s is None or result.predicted is None or not later:
        return None
    return Turn(
        name, turn, which, str(experiment.source["jobs"][0]["scheduler"]),
        statistics.fmean(float(row["duration_s"]) for row in later),
        statistics.fmean(float(row["predicted_s"]) for row in later),
        result.exposed_s.median, result.predicted.exposed_s, least_s(experiment),
    )  # fmt: skip


def least_s(experiment: Experiment) -> float:
    """The ideal overlap bound of an experiment's job, as it is scaled."""
    job: Mapping[str, Any] = experiment.source["jobs"][0]
    scaling = job.get("scaling", {"time": 1.0, "bandwidth": 1.0})
    rate_Bps = min(experiment.network.capacity_Bps) * scaling["bandwidth"]
    if job["paradigm"] == PARAMETER_SERVER:
        setting = Setting(PARAMETER_SERVER, job["workers"], job.get("servers", 1), rate_Bps)
    else:
        setting = Setting(job.get("algorithm", "ring"), job["ranks"], rate_Bps=rate_Bps)
    model = of_profile(profile.read(find_profile(job["profile"])))
    return bound(model, setting).least_s * float(scaling["time"]) * experiment.stretch


def speed_ups(turns: Sequence[Turn]) -> dict[str, Estimate]:
    """By experiment: its own job scheduler over fifo, paired by turn."""
    by_pair: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for each in turns:
        by_pair[each.experiment, each.turn][each.which] = each.iteration_s
    by_experiment: dict[str, list[float]] = defaultdict(list)
    for (experiment, _), pair in by_pair.items():
        if len(pair) == len(order(0)):
            by_experiment[experiment].append(pair[FIFO] / pair[OWN])
    return {experiment: found for experiment, values in by_experiment.items() if (found := estimate(values))}


def over_bound(turns: Sequence[Turn]) -> dict[str, float]:
    """By experiment: how much longer an iteration takes with its own job scheduler than ideal overlap would, median."""
    by_experiment: dict[str, list[float]] = defaultdict(list)
    for each in turns:
        if each.which == OWN:
            by_experiment[each.experiment].append(each.iteration_s / each.least_s - 1)
    return {experiment: statistics.median(values) for experiment, values in by_experiment.items()}


def off_fluid(turns: Sequence[Turn]) -> list[float]:
    """How far exposed communication is off fluid simulation, run by run, as a share.

    Of runs in which it takes a hundredth of an iteration at least: a share of next to nothing says nothing.
    """
    told = [each for each in turns if each.fluid_exposed_s >= LEAST_EXPOSED * each.fluid_iteration_s]
    return [each.exposed_s / each.fluid_exposed_s - 1 for each in told]


def figures(turns: Sequence[Turn]) -> list[Figure]:
    """Speed-ups with their intervals, the best case against the bound, and exposed communication against fluid."""
    found, above = speed_ups(turns), over_bound(turns)
    made = []
    for experiment, one in found.items():
        interval = "no interval" if one.low is None else f"{one.low:.3f} to {one.high:.3f}"
        shown = f"{one.median:.3f} ({interval}, {one.n} turns)"
        ok = None if one.low is None else one.low >= LOWEST_INTERVAL
        made.append(Figure(f"emulated, {experiment}: speed-up over fifo", shown, "lower end at least 0.98", ok))
    for experiment in dict.fromkeys(each.experiment for each in turns if each.experiment not in found):
        what = f"emulated, {experiment}: speed-up over fifo"
        made.append(Figure(what, "no turn in which both runs count", "lower end at least 0.98", None))
    if found:
        best = max(found, key=lambda experiment: found[experiment].median)
        shown = f"{above[best]:+.1%} ({best}, {found[best].median:.2f} times as fast as fifo)"
        made.append(
            Figure("emulated: the best case against the bound", shown, "within 10 %", above[best] <= BEST_WITHIN)
        )
    off = sorted(map(abs, off_fluid(turns)))
    if off:
        median = statistics.median(off)
        shown = f"{median:.1%} (up to {off[-1]:.1%}, {len(off)} runs)"
        made.append(Figure("emulated: exposed communication off fluid, median", shown, "under 5 %", median < MOST_OFF))
    return made
