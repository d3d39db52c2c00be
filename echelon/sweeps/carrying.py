"""Carries a sweep out: finds which cells are missing, has them made, and writes the table of all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

from echelon.running.manifest import git_revision, versions
from echelon.sweeps import plan
from echelon.sweeps.fluid import Wanted
from echelon.sweeps.plan import Names, Sweep
from echelonflow.errors import EXIT_FAILED, EXIT_INVALID, EXIT_VALID, InputError
from echelonflow.files import exists
from echelonflow.records.cells import Cell, remove_parts
from echelonflow.records.sweeps import CELLS, PARQUET, SWEEP, TABLE, SweepRecord, read_sweep, write_sweep
from results.analysis.cells import cell_table, damaged_cells, found_cells, write_cells_csv, write_cells_parquet

Heard = Callable[["State"], None]


class Makes(Protocol):
    """What makes cells: here, on other machines, on packets."""

    def __call__(self, wanted: Sequence[Wanted], cells: Path) -> Iterator[list[Cell]]: ...


@dataclass
class State:
    """How far a sweep is."""

    record: SweepRecord
    found: dict[str, Cell]
    """Every cell that has ended, by name."""
    kept: int
    """Of those, how many had ended before."""
    damaged: int = 0
    """Cells whose folders were there at the beginning and could not be read: they are made anew."""
    begun_s: float = field(default_factory=time.monotonic)

    @property
    def total(self) -> int:
        """All cells of the sweep."""
        return len(self.record.cells)

    @property
    def done(self) -> int:
        """Those that have ended, well or not."""
        return len(self.found)

    @property
    def failed(self) -> int:
        """Those that could not be carried out."""
        return sum(cell.failed for cell in self.found.values())

    @property
    def invalid(self) -> int:
        """Those that were carried out and do not count."""
        return sum(not cell.valid and not cell.failed for cell in self.found.values())

    def left_s(self) -> float | None:
        """Time left at the pace so far; None before anything is known."""
        made = self.done - self.kept
        return (time.monotonic() - self.begun_s) / made * (self.total - self.done) if made else None

    def exit_code(self) -> int:
        """Failed where a cell has, else invalid where one is."""
        if self.failed or self.done < self.total:
            return EXIT_FAILED
        return EXIT_INVALID if self.invalid else EXIT_VALID


@dataclass(frozen=True)
class Written:
    """The tables of a sweep, as far as they were written."""

    table: Path
    parquet: Path | None
    """None where pyarrow is not installed."""


def open_folder(root: Path) -> None:
    """InputError unless a sweep was begun in `root`, or nothing is there."""
    if exists(root / SWEEP) or not root.is_dir():
        return
    if any(not path.name.startswith(".") for path in root.iterdir()):
        raise InputError(f"{root} holds something else than a sweep; name another folder with --out")


def begin(sweep: Sweep, root: Path) -> State:
    """Write down what is asked for in the folder `root`, which is ours alone, and find what there is of it.

    A folder may hold cells of other sweeps, such as the same with fewer seeds: what is there is not made again. Cells
    that failed are.
    """
    names = Names(sweep)
    cells = plan.cells(sweep, names)
    before = read_sweep(root) if exists(root / SWEEP) else None
    record = SweepRecord(
        name=sweep.name,
        backend=sweep.backend,
        experiment=dict(sweep.data),
        experiment_file=sweep.path.name,
        experiment_folder=str(sweep.path.parent.absolute()),
        over=dict(sweep.swept.over),
        listed=list(sweep.swept.listed),
        points=sweep.points,
        policies=list(sweep.policies),
        seeds=list(sweep.seeds),
        against=sweep.against,
        started=_now() if before is None else before.started,
        code=names.code,
        git=git_revision(),
        versions=versions(),
        cells=cells,
    )
    (root / CELLS).mkdir(parents=True, exist_ok=True)
    remove_parts(root / CELLS)
    write_sweep(root, record)
    read = found_cells(root, record)
    found = {name: cell for name, cell in read.items() if not cell.failed}
    return State(record, found, len(found), len(damaged_cells(root, record, read)))


def state_of(root: Path) -> State:
    """How far the sweep in the folder `root` is, by what lies there; InputError where none was begun, or it is damaged."""
    record = read_sweep(root)
    found = found_cells(root, record)
    return State(record, found, len(found), len(damaged_cells(root, record, found)))


def carry_out(state: State, root: Path, makes: Makes, heard: Heard) -> None:
    """Have every cell made that is missing; `heard` is told whenever some have ended, and about once a second."""
    wanted = [
        Wanted(cell.name, state.record.points[cell.point], cell.policy, cell.seed)
        for cell in state.record.cells
        if cell.name not in state.found
    ]
    state.begun_s = time.monotonic()
    heard(state)
    for ended in makes(wanted, root / CELLS):
        state.found.update((cell.name, cell) for cell in ended)
        heard(state)
    if wanted:
        _on_disk(root / CELLS)


def kept_now(state: State, root: Path) -> int:
    """How many cells have ended: also those that a worker kept, and could not tell of any more."""
    state.found |= found_cells(root, state.record)
    return state.done


def write_tables(state: State, root: Path) -> Written:
    """Write cells.csv and cells.parquet of what has ended so far."""
    table = cell_table(state.record, state.found)
    write_cells_csv(root / TABLE, table)
    parquet = root / PARQUET
    return Written(root / TABLE, parquet if write_cells_parquet(parquet, table) else None)


def _on_disk(cells: Path) -> None:
    """Have the names of all cells on the disk; what is in them is there already."""
    held = os.open(cells, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
