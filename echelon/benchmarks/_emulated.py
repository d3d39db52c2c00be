"""What the emulated benchmarks share: running an experiment, reading its tables."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from echelon.benchmarks import Figure, Say
from echelon.experiment.schema import Experiment
from echelon.running import runner
from echelon.running.attempts import extra
from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, RunError
from echelonflow.records.progress import Progress, Report, Running
from results.analysis.shown import Pictures
from results.analysis.summary import Summary
from results.analysis.valid_rows import rows, valid_runs


def emulate(experiment: Experiment, say: Say) -> Path:
    """Run `experiment` on the emulated network; its folder.

    Runs that do not count are made again, half as many as are asked for at most. RunError if it failed, or if not one run
    was valid; invalid ones are reported, and left out by `rows`.
    """
    root = new_folder()
    code, summary = carry_out(experiment, root, say, again=extra(None, experiment.repeats))
    if code in (EXIT_FAILED, EXIT_INTERRUPTED) or not any(result.valid_runs for result in summary.results):
        raise RunError(f"no valid run came out ({'; '.join(summary.reasons) or 'failed'}); see {root}")
    return root


def new_folder() -> Path:
    """An empty folder for a run, beside those of `echelon run`."""
    parent = Path("results/runs")
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="bench-", dir=parent))


def carry_out(
    experiment: Experiment,
    root: Path,
    say: Say,
    hear: Report | None = None,
    *,
    again: int = 0,
    pictures: Pictures = "few",
) -> tuple[int, Summary]:
    """Run `experiment` on the emulated network into `root`; exit code, and what came out of it.

    Where it was begun there before, it is gone on with. `hear` is told of all progress, as it happens. In the place of
    runs that do not count, up to `again` of each policy are made.
    """

    def report(progress: Progress) -> None:
        if isinstance(progress, Running):
            say(f"run {progress.run + 1} of {progress.of}: {progress.policy}")
        if hear is not None:
            hear(progress)

    code, summary = runner.begin_or_go_on(experiment, root, report, pictures=pictures, again=again)
    for reason in summary.reasons:
        say(f"invalid: {reason}")
    return code, summary


def validity(folder: Path) -> Figure:
    """How many runs the other figures rest on."""
    valid, all_runs = valid_runs(folder)
    return Figure("valid runs (the others are left out)", f"{len(valid)} of {all_runs}", "", None)


def iteration_times_s(folder: Path) -> dict[str, dict[int, float]]:
    """Duration of the first iteration by policy and repeat, in valid runs."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for row in rows(folder, "iterations"):
        if row["iteration"] == "0":
            found[row["policy"]][int(row["repeat"])] = float(row["duration_s"])
    return found


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `values` lie."""
    return float(np.quantile(values, share))
