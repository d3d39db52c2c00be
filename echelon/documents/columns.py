"""Describes every column of every table that a run leaves: `python -m echelon.documents.columns`.

Writes the tables in docs/columns.md between their marks. What a column means stands in one place, at the field or the
printed column itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from echelon.documents.made_pages import with_made
from echelon.places import DOCS
from echelonflow.records.blame import Blame
from echelonflow.records.run_record import DecisionRecord
from echelonflow.tables import markdown_table
from results.analysis.across import Across, Comparisons, Overall
from results.analysis.arrivals import ArrivalRow, CompletionResult
from results.analysis.budget import JobBudget
from results.analysis.cells import COLUMNS as CELL_FIGURES
from results.analysis.cells import CellEnd, CellKey
from results.analysis.chance import Effect
from results.analysis.coflows import CoflowKind, CoflowResult, CoflowRow
from results.analysis.columns import columns_of
from results.analysis.control_plane import ControlPlane
from results.analysis.effects import JobEffects
from results.analysis.fidelity import Fidelity
from results.analysis.figures import JobFigures
from results.analysis.measures import JobMeasures, RunMeasures
from results.analysis.paired import Comparison
from results.analysis.planned import FaultShown
from results.analysis.rows import FlowRow, GroupRow, IterationRow, RunKey, RunMark
from results.analysis.statistics import Estimate, Ratio
from results.analysis.summary import PolicyPart, PolicyResult, RunResult, Summary
from results.analysis.tables import BLAME_COLUMNS, JOB_COLUMNS, LINK_COLUMNS, RUN_COLUMNS
from results.analysis.together import TogetherResult
from results.report.across import ACROSS_COLUMNS, OVERALL_COLUMNS
from results.report.blame import BLAME_COLUMNS as BLAME_PRINTED
from results.report.budget import BUDGET_COLUMNS
from results.report.comparison import COMPARISON_COLUMNS
from results.report.in_job import IN_JOB_COLUMNS
from results.report.printed_column import PrintedColumn
from results.report.table import COFLOW_COLUMNS, COLUMNS, COMPLETION_COLUMNS, SWAP_COLUMNS
from results.report.together import TOGETHER_COLUMNS

END = "<!-- end of what is made -->"

WRITTEN: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        "iterations.csv": (IterationRow, RunMark),
        "groups.csv": (GroupRow, RunMark),
        "flows.csv": (FlowRow, RunMark),
        "jobs.csv": JOB_COLUMNS,
        "runs.csv": RUN_COLUMNS,
        "links.csv": LINK_COLUMNS,
        "blame.csv": BLAME_COLUMNS,
        "coflows.csv": (CoflowRow,),
        "arrivals.csv": (ArrivalRow, RunMark),
        "decisions.jsonl": (RunKey, DecisionRecord),
        "cells.csv": (CellKey, *CELL_FIGURES, CellEnd),
        "summary.json": (Summary,),
        "summary.json: results": (PolicyResult,),
        "summary.json: estimates": (Estimate,),
        "summary.json: figures": (JobFigures,),
        "summary.json: blame": (Blame,),
        "summary.json: together": (TogetherResult,),
        "summary.json: comparisons": (Comparison,),
        "summary.json: runs": (RunResult,),
        "summary.json: measures": (JobMeasures,),
        "summary.json: run together": (RunMeasures,),
        "summary.json: control": (ControlPlane,),
        "summary.json: budgets": (JobBudget,),
        "summary.json: effects": (JobEffects,),
        "summary.json: effects, each": (Effect,),
        "summary.json: parts": (PolicyPart,),
        "summary.json: fidelity": (Fidelity,),
        "summary.json: faults": (FaultShown,),
        "compare --json": (Comparisons,),
        "compare --json: rows": (Across,),
        "compare --json: overall": (Overall,),
        "compare --json: ratios": (Ratio,),
        "summary.json: coflows": (CoflowResult,),
        "summary.json: completions": (CompletionResult,),
        "summary.json: kinds": (CoflowKind,),
    }
)
"""What is made of each dataclass that a run writes, by the name of the made part."""
PRINTED: Mapping[str, Sequence[PrintedColumn[Any]]] = MappingProxyType(
    {
        "printed: jobs": COLUMNS,
        "printed: all jobs together": TOGETHER_COLUMNS,
        "printed: completions": COMPLETION_COLUMNS,
        "printed: budgets": BUDGET_COLUMNS,
        "printed: blame": BLAME_PRINTED,
        "printed: waits inside jobs": IN_JOB_COLUMNS,
        "printed: comparisons": COMPARISON_COLUMNS,
        "printed: comparisons over folders": ACROSS_COLUMNS,
        "printed: all conditions together": OVERALL_COLUMNS,
        "printed: swaps": SWAP_COLUMNS,
        "printed: Coflows": COFLOW_COLUMNS,
    }
)
"""The tables that end a run on the terminal."""


def names(part: str) -> list[str]:
    """The columns that a made part of the page documents, in order."""
    if part in PRINTED:
        return [column.head for column in PRINTED[part]]
    return [column.name for kind in WRITTEN[part] for column in columns_of(kind)]


def made(part: str) -> str:
    """A made part of the page: one line for each column."""
    if part in PRINTED:
        rows = [[f"`{column.head}`", column.unit or "-", column.meaning] for column in PRINTED[part]]
        return markdown_table(["column", "unit", "meaning"], rows, align="lll")
    rows = [
        [f"`{column.name}`", column.unit or "-", column.meaning, column.source]
        for kind in WRITTEN[part]
        for column in columns_of(kind)
    ]
    return markdown_table(["column", "unit", "meaning", "from"], rows, align="llll")


def begin(part: str) -> str:
    """The mark before a made part."""
    return f"<!-- {part}: made by python -m echelon.documents.columns -->"


def with_all_made(page: str) -> str:
    """`page` with all its made parts as the code has them now."""
    for part in (*WRITTEN, *PRINTED):
        page = with_made(page, begin(part), END, made(part))
    return page


def main(docs: Path = DOCS) -> None:
    """Put the made parts in their places."""
    page = docs / "columns.md"
    page.write_text(with_all_made(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
