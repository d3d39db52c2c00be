"""What an experiment found, read from its folder: tables, pictures, the verdict."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from echelon.notebook.table import Table, read_table
from echelonflow.errors import InputError
from echelonflow.spelling import unknown
from results.analysis.columns import columns_of
from results.analysis.figures import JobFigures
from results.analysis.rows import FlowRow, GroupRow, IterationRow, RunMark
from results.analysis.statistics import Estimate
from results.analysis.summary import PolicyResult, RunResult, Summary, read_summary
from results.folder import analyse
from results.report.table import summary_table


@dataclass(frozen=True)
class Picture:
    """A picture in a file, which a notebook shows."""

    path: Path

    def _repr_png_(self) -> bytes:
        return self.path.read_bytes()

    def __repr__(self) -> str:
        return f"<picture {self.path.stem}>"


@dataclass(frozen=True)
class Results:
    """The folder of an experiment that was run or simulated. Printed, it is the table of the command line.

    Times are seconds since the run's zero, and columns are those of docs/columns.md.
    """

    folder: Path
    summary: Summary
    kept: Any = field(default=None, repr=False, compare=False)
    """What keeps the folder; None where it stays by itself."""

    @property
    def valid(self) -> bool:
        """Whether each policy has the valid runs that were asked for."""
        return self.summary.valid

    @property
    def reasons(self) -> Sequence[str]:
        """Why not, in words; empty if it is valid."""
        return self.summary.reasons

    @functools.cached_property
    def jobs(self) -> Table:
        """A row for each policy and job: medians over the valid runs, with 95 % intervals of the mean over runs.

        Where there is no valid run, or but one, what is missing is NaN.
        """
        return _table([_of_policy(result) for result in self.summary.results], PolicyResult)

    @functools.cached_property
    def runs(self) -> Table:
        """A row for each run and job, with `valid`: a mean over all runs would count those that failed their limits, too."""
        rows = [_of_run(run, job, figures) for run in self.summary.runs for job, figures in run.jobs.items()]
        return _table(rows, RunResult, JobFigures)

    @functools.cached_property
    def iterations(self) -> Table:
        """A row for each iteration of each job in each run; `valid` says whether the run counts."""
        return self._read("iterations", IterationRow)

    @functools.cached_property
    def groups(self) -> Table:
        """A row for each EchelonFlow of each iteration."""
        return self._read("groups", GroupRow)

    @functools.cached_property
    def flows(self) -> Table:
        """A row for each flow of each iteration."""
        return self._read("flows", FlowRow)

    def _read(self, name: str, kind: type) -> Table:
        columns = [column for each in (kind, RunMark) for column in columns_of(each)]
        return read_table(self.folder / f"{name}.csv", {column.name: column.meaning for column in columns})

    def picture(self, name: str = "gantt") -> Picture:
        """A picture of the results: `gantt`, `times`, `tardiness`, and others that the run gave rise to.

        Pictures that are not there yet are drawn. Raises InputError where there is none of this name.
        """
        figures = self.folder / "figures"
        if not (figures / f"{name}.png").is_file():
            analyse(self.folder)
        there = sorted(path.stem for path in figures.glob("*.png"))
        if name not in there:
            raise InputError(f"there is no picture {name!r}{unknown(name, there)}")
        return Picture(figures / f"{name}.png")

    @property
    def report(self) -> Path:
        """The report, one HTML file."""
        return self.folder / "report.html"

    def __str__(self) -> str:
        return summary_table(self.summary)


def read(folder: str | Path, kept: Any = None) -> Results:
    """The results in a folder that `echelon run` left (InputError where it left none there)."""
    root = Path(folder)
    return Results(root, read_summary(root / "summary.json"), kept)


def _of_policy(result: PolicyResult) -> dict[str, Any]:
    predicted = result.predicted
    return {
        "policy": result.policy,
        "job": result.job,
        "runs": result.runs,
        "valid_runs": result.valid_runs,
        **_estimate("iteration", result.iteration_s),
        **_estimate("exposed", result.exposed_s),
        **_estimate("tardiness", result.tardiness_s),
        "predicted_s": np.nan if predicted is None else predicted.iteration_s,
        "speedup": np.nan if result.speedup is None else result.speedup,
    }


def _estimate(name: str, found: Estimate | None) -> dict[str, float]:
    values = (np.nan, None, None) if found is None else (found.median, found.low, found.high)
    keys = (f"{name}_s", f"{name}_low_s", f"{name}_high_s")
    return {key: np.nan if value is None else value for key, value in zip(keys, values, strict=True)}


def _of_run(run: RunResult, job: str, figures: JobFigures) -> dict[str, Any]:
    late_s = np.nan if figures.tardiness_s is None else figures.tardiness_s
    return {
        "policy": run.policy,
        "repeat": run.repeat,
        "valid": run.valid,
        "job": job,
        "iteration_s": figures.iteration_s,
        "exposed_s": figures.exposed_s,
        "tardiness_s": late_s,
    }


def _table(rows: Sequence[Mapping[str, Any]], *kinds: type) -> Table:
    meanings = {column.name: column.meaning for kind in kinds for column in columns_of(kind)}
    names = rows[0] if rows else ()
    columns = {name: [row[name] for row in rows] for name in names}
    return Table(
        {n: np.array(v, dtype=object if isinstance(v[0], str) else None) for n, v in columns.items()},
        {name: meanings[name] for name in names if name in meanings},
    )
