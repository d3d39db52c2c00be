"""What several experiments found, side by side: experiment x policy, emulated against fluid, as tables."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from echelonflow.tables import markdown_table
from results.statistics import Estimate
from results.summary import PolicyResult, Summary
from results.table import MISSING, format_estimate, format_seconds, format_share

MEASURES: Mapping[str, str] = MappingProxyType(
    {"iteration_s": "iteration time", "exposed_s": "exposed communication", "tardiness_s": "tardiness"}
)
"""Fields of both a measured and a predicted result, and what they are called."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One policy on one job of one experiment, over its valid runs."""

    experiment: str
    result: PolicyResult

    @property
    def row(self) -> tuple[str, str]:
        """Experiment and job: what the policies are compared on."""
        return self.experiment, self.result.job


def cells(summary: Summary) -> list[Cell]:
    """The cells of one experiment."""
    return [Cell(summary.name, result) for result in summary.results]


def by_row(found: Sequence[Cell]) -> dict[tuple[str, str], dict[str, Cell]]:
    """Cells by (experiment, job), then policy, in the order in which they come."""
    rows: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in found:
        rows.setdefault(cell.row, {})[cell.result.policy] = cell
    return rows


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies that fluid tells apart on one job, and whether the emulation has them in the same order."""

    row: tuple[str, str]
    first: str
    """The policy with less exposed communication in fluid."""
    second: str
    same_order: bool


def pairs_apart(found: Sequence[Cell], least: float) -> list[Pair]:
    """Pairs of policies whose exposed communication in fluid differs by more than `least` (of the smaller).

    Pairs of which one has no valid run are left out: `Cell.result.valid_runs` says which those are.
    """
    pairs = []
    for row, policies in by_row(found).items():
        for one, other in itertools.combinations(policies.values(), 2):
            low, high = sorted((one.result, other.result), key=_fluid_exposed_s)
            if _fluid_exposed_s(high) <= (1 + least) * _fluid_exposed_s(low):
                continue
            if low.exposed_s is not None and high.exposed_s is not None:
                pairs.append(Pair(row, low.policy, high.policy, low.exposed_s.median < high.exposed_s.median))
    return pairs


def _fluid_exposed_s(result: PolicyResult) -> float:
    assert result.predicted is not None  # every experiment of the benchmark is predicted before it is run
    return result.predicted.exposed_s


def write_cells(path: Path, found: Sequence[Cell]) -> None:
    """One line per cell as CSV: medians and 95 % intervals over runs, and what fluid says, in seconds."""
    head = ["experiment", "job", "policy", "valid_runs", "runs"]
    for name in MEASURES:
        stem = name.removesuffix("_s")
        head += [name, f"{stem}_low_s", f"{stem}_high_s", f"{stem}_fluid_s"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*head, "exposed_difference"])
        for cell in found:
            result = cell.result
            line: list[object] = [cell.experiment, result.job, result.policy, result.valid_runs, result.runs]
            for name in MEASURES:
                estimate: Estimate | None = getattr(result, name)
                line += (
                    ["", "", ""] if estimate is None else map(_number, (estimate.median, estimate.low, estimate.high))
                )
                line.append(_number(getattr(result.predicted, name) if result.predicted else None))
            writer.writerow([*line, _number(result.exposed_difference)])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def markdown(found: Sequence[Cell], policies: Sequence[str]) -> str:
    """Three tables, experiment x policy: median [95 % interval], fluid below; the difference where it is demanded."""
    parts = []
    for name, words in MEASURES.items():
        head = ["experiment", "job", *(f"`{policy}`" for policy in policies)]
        rows = []
        for (experiment, job), row in by_row(found).items():
            texts = [_text(row[policy].result, name) if policy in row else MISSING for policy in policies]
            rows.append([experiment, job, *texts])
        parts.append(f"### {words.capitalize()} (s)\n\n{markdown_table(head, rows, align='ll')}")
    notes = (
        "Emulated: median over valid runs [95 % interval of the mean]; after the slash what fluid simulation says, for "
        "exposed communication with the difference."
    )
    return "\n\n".join([*parts, notes]) + "\n"


def _text(result: PolicyResult, name: str) -> str:
    fluid = format_seconds(getattr(result.predicted, name) if result.predicted else None)
    off = f" ({format_share(result.exposed_difference)})" if name == "exposed_s" else ""
    return f"{format_estimate(getattr(result, name))} / {fluid}{off}"
