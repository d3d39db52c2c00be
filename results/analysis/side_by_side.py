"""What several experiments found, side by side: experiment x policy, emulated against fluid, as tables."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from results.analysis.summary import PolicyResult, Summary


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
