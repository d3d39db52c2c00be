"""What several experiments found, side by side: experiment x policy, emulated against fluid, as tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from echelonflow.errors import InputError
from echelonflow.files import write_whole
from echelonflow.tables import markdown_table
from results.analysis.figures import JobFigures
from results.analysis.side_by_side import Cell, by_row
from results.analysis.statistics import Estimate
from results.analysis.summary import PolicyResult
from results.report.printed_column import MISSING, format_estimate, format_seconds, format_share

MEASURES: Mapping[str, str] = MappingProxyType(
    {"iteration_s": "iteration time", "exposed_s": "exposed communication", "tardiness_s": "tardiness"}
)
"""Fields of both a measured and a predicted result, and what they are called."""


def write_cells(path: Path, found: Sequence[Cell]) -> None:
    """One line per cell as CSV: medians and 95 % intervals over runs, and what fluid says, in seconds."""
    head = ["experiment", "job", "policy", "valid_runs", "runs"]
    for name in MEASURES:
        stem = name.removesuffix("_s")
        head += [name, f"{stem}_low_s", f"{stem}_high_s", f"{stem}_fluid_s"]
    with io.StringIO(newline="") as file:
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
        write_whole(path, file.getvalue())


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def read_cells(path: Path) -> list[Cell]:
    """What `write_cells` wrote (InputError, naming the file, where it is something else)."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [_cell(line) for line in csv.DictReader(file)]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is no table of experiments and policies ({error!r})") from None


def _cell(line: Mapping[str, str]) -> Cell:
    valid_runs = int(line["valid_runs"])
    fluid_s = [line[f"{name.removesuffix('_s')}_fluid_s"] for name in MEASURES]
    result = PolicyResult(
        policy=line["policy"],
        job=line["job"],
        runs=int(line["runs"]),
        valid_runs=valid_runs,
        predicted=JobFigures(float(fluid_s[0]), float(fluid_s[1]), _value(fluid_s[2])) if fluid_s[0] else None,
        speedup=None,
        iteration_s=_estimate(line, "iteration_s", valid_runs),
        exposed_s=_estimate(line, "exposed_s", valid_runs),
        tardiness_s=_estimate(line, "tardiness_s", valid_runs),
    )
    return Cell(line["experiment"], result)


def _estimate(line: Mapping[str, str], name: str, valid_runs: int) -> Estimate | None:
    stem = name.removesuffix("_s")
    if not line[name]:
        return None
    return Estimate(float(line[name]), _value(line[f"{stem}_low_s"]), _value(line[f"{stem}_high_s"]), valid_runs)


def _value(text: str) -> float | None:
    return float(text) if text else None


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
