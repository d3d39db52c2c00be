"""One trial: an experiment with other options for its job schedulers, and how long its iterations take then."""

from __future__ import annotations

import copy
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelon.running import runner
from echelon.running.attempts import extra
from echelon.tuning.history import Asked, Backend, Settings
from echelon.tuning.space import Point
from echelonflow import plugins
from echelonflow.errors import EXIT_INTERRUPTED
from echelonflow.records.progress import Report
from results.analysis.rows import iteration_rows
from results.analysis.summary import Summary
from results.analysis.valid_rows import rows

RunsOfJobs = Mapping[str, Sequence[float]]
"""By job, the mean iteration time of every run that counts, seconds."""


@dataclass(frozen=True)
class Found:
    """What a trial showed; where no run counts, why."""

    runs_s: RunsOfJobs
    why: str | None = None
    unexplained: float | None = None
    """As in `Sample`."""


OFF = "fifo"
"""The job scheduler of a job whose own is left off: what frameworks do by themselves."""
NO_LIMIT = 10.0
LIMITS = {"max_unexplained_iteration": NO_LIMIT, "max_unexplained_exposed": NO_LIMIT, "max_moved_exposed": NO_LIMIT}
"""Limits of an emulated trial that are not those of its experiment. Options are compared by the iteration time that packets took.
So it does not matter how far that is off what the causes explain, nor what became of its parts. All other limits hold, among
them by how much the machine may move an iteration."""
_MOST_SAID = 200
Trials = Callable[[Settings, str, int, Backend], Found]
"""Tries settings: what is in force instead of the file's, a name for what is written, the runs, and on what."""


def with_settings(source: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """An experiment, as its file says it, whose jobs have these options for their schedulers, or have them left off."""
    changed = copy.deepcopy(dict(source))
    for job in changed["jobs"]:
        if job["name"] in settings:
            point = settings[job["name"]]
            job["scheduler"] = OFF if point is None else with_options(job["scheduler"], point)
    return changed


def with_options(scheduler: str, point: Point) -> str:
    """The scheduler as it is written with these two options, and the others that it has."""
    name, options = plugins.parse_call(scheduler)
    return f"{name}({', '.join(f'{key}={value}' for key, value in (options | point.options()).items())})"


def experiment_with(asked: Asked, settings: Settings, repeats: int = 1, backend: Backend = "fluid") -> Experiment:
    """The experiment of one trial, under the one policy (InputError where the options do not fit)."""
    source = with_settings(asked.experiment, settings)
    source.pop("against", None)
    if backend == "emulation":
        emulation = source.get("emulation") or {}
        source["emulation"] = {**emulation, "limits": {**(emulation.get("limits") or {}), **LIMITS}}
    return schema.check({**source, "policies": [asked.policy], "repeats": repeats}, asked.path)


@dataclass(frozen=True)
class TrialsOf:
    """Trials of the experiment in `asked`; emulated ones are kept in `folder`. `report` is told how those go on."""

    asked: Asked
    folder: Path
    report: Report
    resume_or_run: Callable[..., tuple[int, Any]] = runner.begin_or_go_on

    def __call__(self, settings: Settings, label: str, repeats: int, backend: Backend) -> Found:
        """Simulated once, as a simulation is exact; or emulated `repeats` times. KeyboardInterrupt where it was ended."""
        experiment = experiment_with(self.asked, settings, repeats, backend)
        return simulated(experiment) if backend == "fluid" else self._emulated(experiment, label)

    def _emulated(self, experiment: Experiment, label: str) -> Found:
        root = self.folder / "runs" / label
        code, summary = self.resume_or_run(
            experiment, root, self.report, pictures="none", again=extra(None, experiment.repeats)
        )
        if code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        by_run: dict[str, dict[str, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
        for row in rows(root, "iterations"):
            by_run[row["job"]][row["repeat"]].append((int(row["iteration"]), float(row["duration_s"])))
        if set(by_run) < {job.name for job in experiment.jobs}:
            return Found({}, f"{_cut('; '.join(summary.reasons) or 'no run ended')}{_SEE}{root}")
        runs_s = {job: tuple(map(_mean_s, runs.values())) for job, runs in by_run.items()}
        return Found(runs_s, unexplained=_unexplained(summary))


def _unexplained(summary: Summary) -> float | None:
    """The part of iteration time that nothing explains, as a share: of the job that is furthest off."""
    budgets = [result.budget for result in summary.results if result.budget is not None]
    shares = [budget.unexplained_s / budget.explained_s for budget in budgets if budget.explained_s > 0]
    return max(shares, key=abs, default=None)


_SEE = "; see "


def without_place(why: str | None) -> str | None:
    """Why a trial came to nothing, without the folder that tells all of it."""
    return None if why is None else why.partition(_SEE)[0]


def _cut(reasons: str) -> str:
    """The beginning of why runs do not count: all of it is in their report."""
    return reasons if len(reasons) <= _MOST_SAID else reasons[:_MOST_SAID] + "..."


def simulated(experiment: Experiment) -> Found:
    """The fluid simulation of an experiment that has one policy."""
    record = runner.predict(experiment, experiment.policies[0])
    by_job: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in iteration_rows(record, experiment.jobs):
        by_job[row.job].append((row.iteration, row.duration_s))
    return Found({job: (_mean_s(durations),) for job, durations in by_job.items()})


def _mean_s(durations: Sequence[tuple[int, float]]) -> float:
    """Mean duration of the iterations of a run but the first: nothing is on the way when that begins."""
    later = [duration_s for iteration, duration_s in durations if iteration > 0]
    return statistics.fmean(later or [duration_s for _, duration_s in durations])


def value_s(found: Found, jobs: Sequence[str]) -> float | None:
    """What is minimised: the mean over `jobs` of the median over runs; None where a job has no run that counts."""
    if not jobs or any(not found.runs_s.get(job) for job in jobs):
        return None
    return statistics.fmean(statistics.median(found.runs_s[job]) for job in jobs)
