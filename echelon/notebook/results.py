"""What an experiment found, read from its folder: tables, pictures, the verdict."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from echelon.notebook.picture import Picture, picture_in
from echelon.notebook.table import Table, read_table
from echelonflow.errors import InputError
from results.analysis.arrivals import ArrivalRow
from results.analysis.columns import columns_of
from results.analysis.rows import FlowRow, GroupRow, IterationRow, RunMark
from results.analysis.statistics import Estimate
from results.analysis.summary import PolicyResult, Summary, read_summary
from results.analysis.tables import BLAME_COLUMNS, JOB_COLUMNS, LINK_COLUMNS, RUN_COLUMNS
from results.folder import analyse
from results.report.table import summary_table


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
    def medians(self) -> Table:
        """A row for each policy and job: medians over the valid runs, with 95 % intervals of the mean over runs.

        Where there is no valid run, or but one, what is missing is NaN.
        """
        rows = [_of_policy(result) for result in self.summary.results]
        meanings = {column.name: column.meaning for column in columns_of(PolicyResult)}
        names = list(rows[0]) if rows else []
        columns = {name: [row[name] for row in rows] for name in names}
        return Table(
            {n: np.array(v, dtype=object if isinstance(v[0], str) else None) for n, v in columns.items()},
            {name: meanings[name] for name in names if name in meanings},
        )

    @functools.cached_property
    def runs(self) -> Table:
        """A row for each run, of all its jobs together: percentiles, slowdown, fairness, GPUs, the bound, the controller.

        With `valid`: a mean over all runs would count those that failed their limits, too.
        """
        return self._read("runs", *RUN_COLUMNS)

    @functools.cached_property
    def jobs(self) -> Table:
        """A row for each run and job: times and their percentiles, completion, slowdown, GPUs, tardiness; and `valid`."""
        return self._read("jobs", *JOB_COLUMNS)

    @functools.cached_property
    def blame(self) -> Table:
        """A row for each run, job and cause: what its mean iteration was spent on."""
        return self._read("blame", *BLAME_COLUMNS)

    @functools.cached_property
    def links(self) -> Table:
        """A row for each run and link: how busy it was."""
        return self._read("links", *LINK_COLUMNS)

    @functools.cached_property
    def arrivals(self) -> Table:
        """A row for each job of each run, from its arrival to its end."""
        return self._read("arrivals", ArrivalRow, RunMark)

    @functools.cached_property
    def iterations(self) -> Table:
        """A row for each iteration of each job in each run; `valid` says whether the run counts."""
        return self._read("iterations", IterationRow, RunMark)

    @functools.cached_property
    def groups(self) -> Table:
        """A row for each EchelonFlow of each iteration."""
        return self._read("groups", GroupRow, RunMark)

    @functools.cached_property
    def flows(self) -> Table:
        """A row for each flow of each iteration."""
        return self._read("flows", FlowRow, RunMark)

    def _read(self, name: str, *kinds: type) -> Table:
        path = self.folder / f"{name}.csv"
        if not path.is_file():
            raise InputError(f"{path}: there is no such table; `echelon report {self.folder}` makes all of them")
        return read_table(path, {column.name: column.meaning for kind in kinds for column in columns_of(kind)})

    def picture(self, name: str = "gantt") -> Picture:
        """A picture of the results: `gantt`, `times`, `tardiness`, and others that the run gave rise to.

        Pictures that are not there yet are drawn. Raises InputError where there is none of this name.
        """
        return picture_in(self.folder, name, lambda: analyse(self.folder))

    @property
    def report(self) -> Path:
        """The report, one HTML file."""
        return self.folder / "report.html"

    def __str__(self) -> str:
        return summary_table(self.summary)


def read_run(folder: Path, kept: Any = None) -> Results:
    """The results in a folder that `echelon run` left (InputError where it left none there)."""
    return Results(folder, read_summary(folder / "summary.json"), kept)


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
        **_estimate("iteration_p95", result.iteration_p95_s),
        **_estimate("completion", result.completion_s),
        "slowdown": np.nan if result.slowdown is None else result.slowdown.median,
        "gpu_share": np.nan if result.gpu_share is None else result.gpu_share.median,
        "predicted_s": np.nan if predicted is None else predicted.iteration_s,
        "speedup": np.nan if result.speedup is None else result.speedup,
    }


def _estimate(name: str, found: Estimate | None) -> dict[str, float]:
    values = (np.nan, None, None) if found is None else (found.median, found.low, found.high)
    keys = (f"{name}_s", f"{name}_low_s", f"{name}_high_s")
    return {key: np.nan if value is None else value for key, value in zip(keys, values, strict=True)}
