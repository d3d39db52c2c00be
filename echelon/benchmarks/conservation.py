"""Whether importers lose nothing: every file of other projects at hand is imported, and its account must balance.

The files lie in folders called after what they are of, as `_traces` says. What an importer refuses is listed with its reason. A
job that has more or less than was read must have a cause for every byte, second and collective of the difference.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from echelon.benchmarks import Figure, Say, _traces
from echelon.experiment.import_jobs import import_files
from echelonflow.errors import InputError, RunError
from echelonflow.model.units import format_duration, format_size
from traffic.workloads.formats import Report
from traffic.workloads.formats._account import Amount

FOLDERS: Final[Mapping[str, tuple[str, tuple[Mapping[str, Any], ...]]]] = {
    "aicb": ("simai", ({"empty": "drop"}, {"ranks": 16, "empty": "drop"}, {"ranks": 32, "empty": "drop"})),
    "astra-sim": ("astra-sim", ({"ranks": 16, "empty": "drop"}, {"ranks": 16, "model_parallel": 4, "empty": "drop"})),
    "chakra": ("chakra", ({"empty": "drop"},)),
    "coflow-benchmark": ("coflow-benchmark", ({"coflows": 100},)),
    "kineto": ("kineto", ({"step": "all", "empty": "drop"},)),
    "pipedream": ("pipedream", ({"stages": 4}, {"paradigm": "data-parallel", "ranks": 4})),
    "sincronia": ("sincronia", ({},)),
}
"""By folder, the format of what is in it, and options that its files leave open: the first with which there is a job."""
_NO_TRACE: Final = ("README",)
_RANK: Final = re.compile(r"(?<=rank)\d+|(?<=\.)\d+(?=\.et)")
"""What tells the files of one trace apart."""


@dataclass(frozen=True)
class Tried:
    """What became of the files of one trace: the report of its job, or why there is none."""

    name: str
    files: int
    report: Report | None
    refused: str = ""
    lost: str = ""
    """What an importer says of a difference without a cause."""


def run(repeat: int, say: Say) -> list[Figure]:
    """A figure for every format; importing is exact, so that once is as good as `repeat` times."""
    place = Path(os.environ.get(_traces.VARIABLE, _traces.PLACE))
    say(f"files in {place}, each imported once (not {repeat} times: it would come out the same)")
    figures = []
    for folder, (name, choices) in FOLDERS.items():
        if not (place / folder).is_dir():
            say(f"{folder} left out: it is not in {place}; set {_traces.VARIABLE} to a folder that has it")
            continue
        tried = [attempt(name, title, files, choices) for title, files in traces_in(place / folder)]
        for each in tried:
            for line in account_of(each):
                say(f"{folder}: {line}")
        figures.append(figure(name, tried))
    return figures


def traces_in(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Every trace in `folder` and those below: its name, and the files of its ranks."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith(_NO_TRACE):
            found[_RANK.sub("*", str(path.relative_to(folder)))].append(path)
    yield from found.items()


def attempt(name: str, title: str, files: list[Path], choices: Sequence[Mapping[str, Any]]) -> Tried:
    """Import `files` of format `name` by the first of `choices` that there is a job with.

    One file of a profiler's trace stands for all ranks.
    """
    alone = {"symmetric": True} if name == "kineto" and len(files) == 1 else {}
    refused = ""
    for options in choices:
        try:
            report = import_files(name, files, {**options, **alone}).report
        except InputError as error:
            refused = str(error).replace(f"{files[0].parent}/", "")
        except RunError as error:
            return Tried(title, len(files), None, lost=str(error))
        else:
            return Tried(title, len(files), report)
    return Tried(title, len(files), None, refused=refused)


def account_of(tried: Tried) -> list[str]:
    """What became of one trace, in words."""
    if tried.report is None:
        return [f"{tried.name}: " + (tried.lost or f"refused: {tried.refused}")]
    return [tried.name, *(f"  {line}" for line in tried.report.balance.lines())]


def figure(name: str, tried: list[Tried]) -> Figure:
    """The figure of format `name`: all its jobs together."""
    reports = [each.report for each in tried if each.report is not None]
    read = sum(report.balance.read.size_bytes for report in reports)
    job = sum(report.balance.job.size_bytes for report in reports)
    left = [report.balance.unexplained for report in reports]
    without = (
        f"{sum(abs(amount.size_bytes) for amount in left):,} B, "
        f"{format_duration(sum(abs(amount.compute_s) for amount in left))}, "
        f"{sum(abs(amount.communications) for amount in left):,} collectives"
    )
    lost = [each for each in tried if each.lost]
    refused = sum(bool(each.refused) for each in tried)
    return Figure(
        f"{name}: {len(reports)} jobs of {sum(each.files for each in tried if each.report)} files, {refused} traces refused",
        f"read {format_size(read)}, in jobs {format_size(job)}; without a cause {without}"
        + (f"; {len(lost)} traces with a loss" if lost else ""),
        "nothing without a cause",
        not lost and bool(reports) and all(amount == Amount() for amount in left),
    )
