"""Run folders with damage: an analysis or a line that says why not, soon and in little memory, and no wrong table is valid.

Every case is a copy of an emulated, a simulated or a trace's run folder with one thing changed, which `echelon report` has
to cope with. Beside that, emulated folders are sealed again after the damage: what then passes is what the records'
contradictions alone do not show.
"""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._in_children import MOST_BYTES, MOST_S, Judged, Tally, tallied
from echelon.cases.damage import copy_raw, damage
from echelon.experiment import schema
from echelon.places import EXPERIMENTS
from echelon.running import runner
from echelonflow.errors import EchelonError, InputError, RunError
from echelonflow.records.folder import RunFolder
from echelonflow.records.seal import write_seal
from results.folder import analyse

CASES_OF_A_REPEAT = {"emulated": 360, "fluid": 120, "trace": 120}
"""The 5 repeats of `echelon bench` make 3,000."""
SEALED_AGAIN = "emulated, sealed again"
CASES_SEALED_AGAIN = 100
PICTURES_EVERY = 40
"""Pictures take long, and show what tables hold."""
MOST_OFF = 0.001
_TRIES = 3
TABLES = ("iterations.csv", "groups.csv", "flows.csv", "coflows.csv")
RAW = ("manifest.json", "assignment.json", "network.json", "calibration.json", "prediction.json", "budget.json", "yardsticks.json",
       "runs.json", "coflow-runs.json", "seal.json", "raw", "pcap")  # fmt: skip
EMULATED = """
name: damaged
network: {topology: single-switch, hosts: 2, rate: 10 Mbit/s}
jobs: [{name: p, paradigm: pipeline, stages: 2, micro_batches: 3, forward: 100 ms, activation: 200 ms of link, iterations: 2}]
policies: [fair, echelonflow]
# Load is in no table: a run to be damaged may be made beside other work.
emulation: {limits: {max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 0.2,
                     max_unexplained_exposed: 1, max_link_error: 0.2}}
"""
FLUID = """
name: damaged
network: {topology: leaf-spine, leaves: 2, spines: 1, hosts_per_leaf: 2, rate: 10 Mbit/s}
jobs:
  - {name: p, paradigm: gpipe, stages: 2, micro_batches: 3, forward: 1 s, backward: 1 s, activation: 2 s of link, iterations: 2}
  - {name: q, paradigm: data-parallel, ranks: 2, layers: 3, forward: 1 s, backward: 1 s, parameter: 1 s of link}
policies: [fair, echelonflow]
"""


def run(repeat: int, say: Say) -> list[Figure]:
    """360 emulated folders, 120 simulated ones and 120 of traces for each repeat, and 100 that are sealed again."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="echelon-damaged-") as name:
        for kind, folder in _made(Path(name), say).items():
            figures += figures_of(kind, measured(folder, kind, repeat * CASES_OF_A_REPEAT[kind], say))
            if kind == "emulated":
                again = measured(folder, SEALED_AGAIN, repeat * CASES_SEALED_AGAIN, say, sealed_again=True)
                figures.append(
                    Figure(
                        f"{again.cases:,} {SEALED_AGAIN}: valid with other tables", str(again.faults["wrong"]), "", None
                    )
                )
                figures += figures_of(SEALED_AGAIN, again)[:2]
    return figures


def _made(parent: Path, say: Say) -> Mapping[str, Path]:
    """A run folder of each kind, made now; InputError or RunError where this machine cannot emulate."""
    files = {"emulated": parent / "emulated.yaml", "fluid": parent / "fluid.yaml"}
    files["emulated"].write_text(EMULATED)
    files["fluid"].write_text(FLUID)
    files["trace"] = EXPERIMENTS / "traces" / "shuffles.yaml"
    found = {}
    for kind, file in files.items():
        found[kind] = _valid(kind, file, parent)
        say(f"{kind}: a run of {sum(1 for path in found[kind].rglob('*') if path.is_file())} files")
    return found


def _valid(kind: str, file: Path, parent: Path) -> Path:
    """The folder of a valid run; a machine with other work gets some tries (RunError where none was valid)."""
    backend: runner.Backend = "emulation" if kind == "emulated" else "fluid"
    reasons: tuple[str, ...] = ()
    for number in range(_TRIES):
        folder = parent / f"{kind}-{number}"
        _, summary = runner.run(schema.load(file), folder, backend, lambda _: None, pictures="none")
        if summary.valid:
            return folder
        reasons = summary.reasons
    raise RunError(f"the {kind} run that was to be damaged is invalid: {'; '.join(reasons)}")


def figures_of(kind: str, tally: Tally) -> list[Figure]:
    """The figures of one kind of folders."""
    what = f"{tally.cases:,} {kind} run folders"
    share = f"0 ({tally.good / max(tally.cases, 1):.0%} are valid all the same)"
    stuck = tally.faults["time"] + tally.faults["memory"]
    most = f"{tally.longest_s:.1f} s, {tally.most_bytes / 1e6:.0f} MB"
    faults = tally.faults["traceback"] + tally.faults["words"]
    return [
        Figure(f"{what}: tracebacks", str(faults), "0", faults == 0),
        Figure(f"{what}: the most that one took", most, f"{MOST_S:.0f} s, {MOST_BYTES / 1e6:.0f} MB", stuck == 0),
        Figure(f"{what}: valid with other tables", str(tally.faults["wrong"]), share, tally.faults["wrong"] == 0),
    ]


def measured(source: Path, kind: str, cases: int, say: Say, *, sealed_again: bool = False) -> Tally:
    """Damage and analyse copies of `source`, seeds 0 to `cases` - 1."""
    with tempfile.TemporaryDirectory(prefix="echelon-copies-") as name:
        cases_of = Cases(_raw_only(source, Path(name) / "raw"), Path(name), sealed_again=sealed_again)
        return tallied(cases_of.judge, kind, cases, say)


def _raw_only(source: Path, target: Path) -> Path:
    """A copy of the raw files of a run folder alone: that is what is damaged."""
    copy_raw(source, target)
    for path in target.iterdir():
        if path.name not in RAW:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return target


class Cases:
    """Copies of one run folder, each with its damage; `parent` is where they are made."""

    def __init__(self, source: Path, parent: Path, *, sealed_again: bool) -> None:
        self._source, self._parent, self._sealed_again = source, parent, sealed_again
        whole = parent / "whole"
        copy_raw(source, whole)
        analyse(whole)  # with pictures, so that no child has to load what draws them
        self._tables = tables(whole)

    def judge(self, seed: int) -> Judged:
        """Damage a copy, analyse it, and hold its tables against those of the whole folder."""
        folder = self._parent / f"case-{os.getpid()}"
        copy_raw(self._source, folder)
        if self._sealed_again:
            RunFolder(folder).seal.unlink()
        words = damage(folder, seed)
        if self._sealed_again:
            write_seal(RunFolder(folder))
        try:
            summary = analyse(folder, pictures="none" if seed % PICTURES_EVERY else "few")
        except InputError as error:
            return ("", "", False) if "\n" not in str(error) else ("words", f"{words}: {str(error)[:300]}", False)
        except EchelonError as error:
            return "words", f"{words}: {str(error)[:300]}", False
        except Exception as error:
            error.args = (f"{words}: {error}",)
            raise
        if summary.valid:
            other = difference(self._tables, tables(folder))
            if other is not None:
                return "wrong", f"{words}: {other}", True
        return "", "", summary.valid


Tables = Mapping[str, list[list[str]]]


def tables(folder: Path) -> Tables:
    """The tables of an analysed run folder, cell by cell, and the results in its summary."""
    found = {}
    for name in TABLES:
        path = folder / name
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                found[name] = list(csv.reader(file))
    summary = json.loads((folder / "summary.json").read_bytes())
    found["summary.json"] = [_flat(part) for part in (*summary["results"], *summary["coflows"])]
    return found


def _flat(value: Any) -> list[str]:
    """All leaves of a JSON value, in order."""
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in _flat(part)]
    if isinstance(value, list):
        return [leaf for part in value for leaf in _flat(part)]
    return [str(value)]


def difference(one: Tables, other: Tables) -> str | None:
    """The first cell that differs by more than 0.1 %, in words; None where none does."""
    for name in one.keys() | other.keys():
        rows, others = one.get(name, []), other.get(name, [])
        if len(rows) != len(others):
            return f"{name} has {len(others)} rows, not {len(rows)}"
        for row, theirs in zip(rows, others, strict=True):
            if len(row) != len(theirs):
                return f"{name} has rows of {len(theirs)} cells"
            for cell, its in zip(row, theirs, strict=True):
                if not _same(cell, its):
                    return f"{name} has {its}, not {cell}"
    return None


def _same(cell: str, other: str) -> bool:
    if cell == other:
        return True
    try:
        a, b = float(cell), float(other)
    except ValueError:
        return False
    return math.isclose(a, b, rel_tol=MOST_OFF, abs_tol=2e-6)  # tables have microseconds
