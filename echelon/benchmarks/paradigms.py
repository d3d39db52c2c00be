"""Every training paradigm, alone and beside a rival job: emulated against fluid, under four policies.

Runs experiments/paradigms/*.yaml (`--only 'gpipe*'`: those whose name fits), until there are `repeat` valid runs of each
policy, or half as many again were made. Beside `--out` it leaves the tables experiment x policy (paradigms.csv,
paradigms.md; paradigms-shared.* beside a rival), their pictures, and the run folders in paradigm-runs/. It says
beforehand how long it takes. Interrupted, the same command goes on in the midst of an experiment, and what is measured is
not run again; another `--out` begins anew. `python -m echelon.documents.paradigms_page` makes docs/paradigms.md of it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import carry_out
from echelon.benchmarks._kept_runs import Execute, complete, every_policy_valid, measured, newest
from echelon.benchmarks._paradigm_figures import ALONE, SHARED, Measured, coverage, of_all_runs, of_setting, where
from echelon.benchmarks._paradigm_files import POLICIES, files
from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelon.running.attempts import extra
from echelon.running.runner import predict
from echelonflow.errors import RunError
from echelonflow.files import write_whole
from results.analysis.side_by_side import cells
from results.analysis.summary import read_summary
from results.pictures.paradigm_plots import draw_paradigms
from results.report.side_by_side import markdown, write_cells

RUN_S = 5.0
"""Before and after every run: agents start, connections are opened, captures end."""
EXPERIMENT_S = 25.0
"""Of every experiment: the network comes up, links are measured, records are analysed."""


def run(repeat: int, say: Say, folder: Path, only: Sequence[str] = (), execute: Execute | None = None) -> list[Figure]:
    """Exposed communication against fluid, order of policies, and bytes of every host against closed forms.

    `execute` carries out one experiment into a folder. An experiment that fails, or of which single runs are
    invalid, counts with what valid runs it has, and is reported. InputError if `only` fits no experiment or this machine
    cannot emulate; RunError if nothing at all was measured, or if it was interrupted.
    """
    execute = execute or functools.partial(carry_out, again=extra(None, repeat))
    parent = folder / "paradigm-runs"
    experiments = [schema.load(path, {"repeats": repeat, "policies": list(POLICIES)}) for path in files(only)]
    left = Left(experiments, parent)
    say(left.words())
    found: list[Measured] = []
    for experiment in experiments:
        root = measured(experiment, parent, say, execute, every_policy_valid)
        left.done(experiment)
        if root is None:
            continue
        found.append(Measured(experiment, root, tuple(cells(read_summary(root / "summary.json")))))
        _write(found, folder)  # what there is so far outlives whatever happens next
        say(left.words())
    if not any(cell.result.valid_runs for one in found for cell in one.cells):
        raise RunError("not one valid run came out; see above")
    say(f"tables and pictures: {folder / 'paradigms.md'} and beside it")
    figures = [
        figure
        for setting in (ALONE, SHARED)
        for figure in of_setting(setting, [one for one in found if one.setting is setting])
    ]
    return [*figures, *of_all_runs(found), coverage(found, [one.name for one in experiments]), where(found)]


class Left:
    """How long what is not measured yet will take: by fluid simulation first, then by how long the others took."""

    def __init__(self, experiments: Sequence[Experiment], parent: Path) -> None:
        todo = [one for one in experiments if not _there(one, parent)]
        self._expected_s = {one.name: expected_s(one) for one in todo}
        self._all, self._todo_s = len(experiments), sum(self._expected_s.values())
        self._begin_s, self._done_s = time.monotonic(), 0.0

    def done(self, experiment: Experiment) -> None:
        """One more has been measured, or was there."""
        self._done_s += self._expected_s.pop(experiment.name, 0.0)

    def words(self) -> str:
        left_s = sum(self._expected_s.values())
        if self._done_s:
            left_s *= (time.monotonic() - self._begin_s) / self._done_s
        number = len(self._expected_s)
        return (
            f"{self._all - number} of {self._all} experiments are measured; the others take about {left_s / 60:.0f} min"
        )


def _there(experiment: Experiment, parent: Path) -> bool:
    root = newest(experiment, parent)
    return root is not None and complete(root, every_policy_valid)


def expected_s(experiment: Experiment) -> float:
    """How long an experiment takes, all runs of all policies, if none has to be made again."""
    runs_s = sum(predict(experiment, policy).end_s + RUN_S for policy in experiment.policies)
    return EXPERIMENT_S + experiment.repeats * runs_s


def _write(found: Sequence[Measured], folder: Path) -> None:
    """The tables and the picture of each setting in which something was measured."""
    for setting in (ALONE, SHARED):
        shown = [cell for one in found if one.setting is setting for cell in one.cells]
        if shown:
            stem = folder / f"paradigms{setting.suffix}"
            write_cells(stem.with_suffix(".csv"), shown)
            write_whole(stem.with_suffix(".md"), markdown(shown, POLICIES))
            draw_paradigms(stem.with_suffix(".png"), shown, POLICIES)
