"""A surface measured on packets: an experiment emulated with every partition and credit of a grid, place by place.

It is a tuning by grid search (`echelon.tuning`), so it goes on where it was stopped.
"""

from __future__ import annotations

from pathlib import Path

from echelon.benchmarks import Say
from echelon.benchmarks._tuner_regret import Surface, places
from echelon.experiment import schema
from echelon.running import place
from echelon.tuning import beginning
from echelon.tuning.history import Asked, History, Sample, asked_in
from echelon.tuning.trials import TrialsOf
from echelon.tuning.tuning import Tuner
from echelonflow.errors import RunError
from echelonflow.records.progress import Progress, RunFailed

SIZES, CREDITS = 4, 4
SPACE = ("partition=500 KB..24 MB,credit=500 KB..100 MB",)
"""Smaller partitions of what is measured take less time on a link than a decision does."""
NAME = "emulated"


def measured(file: Path, folder: Path, say: Say) -> Surface:
    """Emulate `file` at every place that `folder` does not have yet, one run each.

    Raises what a tuning raises, and RunError where a place has no valid run.
    """
    wishes = beginning.Wishes(method="grid", samples=SIZES * CREDITS, space=SPACE, backend="emulation", repeats=1)
    asked = beginning.asked(schema.load(file), wishes)

    def hear(words: str, sample: Sample | None) -> None:
        if sample is not None and sample.value_s is not None:
            say(f"{NAME}: {sample.role} {sample.number + 1}: {sample.value_s:.3f} s")

    def report(progress: Progress) -> None:
        if isinstance(progress, RunFailed):
            say(progress.reason)

    with place.opened(folder, again=True):
        asked = beginning.opened(folder, asked)
        Tuner(asked, History(folder), TrialsOf(asked, folder, report), hear).tune()
    found = kept(folder)
    if found is None:
        raise RunError(
            f"{folder}: a place of the surface has no valid run; remove its line from history.jsonl and run again"
        )
    return found


def kept(folder: Path) -> Surface | None:
    """The surface that was measured in `folder`; None if a place of it is missing."""
    asked = asked_in(folder)
    return None if asked is None else of_history(asked, History(folder))


def of_history(asked: Asked, history: History) -> Surface | None:
    """The surface of a grid search that has tried every place; None if it has not."""
    by_point = {sample.point: sample.value_s for sample in history.of(0, "sample")}
    rows: list[list[float]] = [[] for _ in range(SIZES)]
    for i, _, across, up in places(SIZES, CREDITS):
        value_s = by_point.get(asked.space.point(across, up))
        if value_s is None:
            return None
        rows[i].append(value_s)
    return Surface(f"{NAME} {asked.experiment['name']}", asked.space, tuple(map(tuple, rows)))
