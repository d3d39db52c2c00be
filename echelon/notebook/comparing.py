"""Policies compared over runs and sweeps, pair by pair."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from echelon.notebook.table import Table, table_of
from echelon.sweeps.reporting import report_comparison
from results.analysis.across import Across, Comparisons, compare_across
from results.analysis.across_measures import FIRST
from results.analysis.columns import columns_of
from results.analysis.gathered import gather
from results.report.across import across_csv, across_lines


class InFolder(Protocol):
    """Results of a run or of a sweep."""

    @property
    def folder(self) -> Path:
        """Where they lie."""


@dataclass(frozen=True)
class Comparison:
    """Policies compared with one of them, under all conditions. Printed, it is the table of the command line."""

    found: Comparisons
    folders: Sequence[Path]

    @functools.cached_property
    def rows(self) -> Table:
        """A row for each condition, policy and job: what differs, medians and intervals of all measures, and the ratio."""
        meanings = {column.name: column.meaning for column in columns_of(Across)}
        return table_of(across_csv(self.found), "the comparison", meanings)

    @property
    def reasons(self) -> Mapping[str, int]:
        """Why runs do not count, which are in no average, each with the number of runs."""
        return self.found.reasons

    def report(self, path: str | Path) -> Path:
        """Write a page with maps, curves and the table to an HTML file; returns its path."""
        return report_comparison(Path(path), self.folders, self.found.against, self.found.measure)

    def __str__(self) -> str:
        return "\n".join(across_lines(self.found))


def compare(*what: str | Path | InFolder, against: str | None = None, measure: str = FIRST) -> Comparison:
    """Compare policies over folders of runs and sweeps, or results: pair by pair, of runs that differ in the policy alone.

    Ratios are of the `measure` (docs/columns.md has all), to the policy `against` (default: the folders' own, else the first).
    Raises InputError for folders that cannot be compared, and where there is no such policy or measure.
    """
    folders = [Path(one) if isinstance(one, str | Path) else one.folder for one in what]
    return compared(folders, against, measure)


def compared(folders: Sequence[Path], against: str | None, measure: str) -> Comparison:
    """As `compare` has it, of folders."""
    return Comparison(compare_across(gather(folders), against, measure), folders)
