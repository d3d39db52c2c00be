"""The rows of a run folder's tables that count: those of valid runs."""

from __future__ import annotations

import csv
from pathlib import Path

from echelonflow.errors import InputError
from results.analysis.summary import read_summary


def valid_runs(folder: Path) -> tuple[set[tuple[str, str]], int]:
    """(policy, repeat) of every valid run, as in the tables, and the number of all runs."""
    runs = read_summary(folder / "summary.json").runs
    return {(run.policy, str(run.repeat)) for run in runs if run.valid}, len(runs)


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    """The rows of one of a run folder's CSV tables, those of valid runs."""
    valid, _ = valid_runs(folder)
    return [row for row in all_rows(folder, table) if (row["policy"], row["repeat"]) in valid]


def all_rows(folder: Path, table: str) -> list[dict[str, str]]:
    """The same with those of invalid runs (InputError where the table cannot be read)."""
    path = folder / f"{table}.csv"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); `echelon report` makes it anew") from None
