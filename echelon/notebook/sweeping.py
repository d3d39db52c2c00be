"""Sweeps: many simulations of one experiment with other values, and what came of all of them."""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from echelon.cli.sweep_display import SweepDisplay
from echelon.experiment.schema import Experiment
from echelon.experiment.swept import Swept, of_file
from echelon.notebook.comparing import Comparison, compared
from echelon.notebook.picture import Picture, picture_in
from echelon.notebook.table import Table, table_of
from echelon.running import ownership
from echelon.sweeps.carrying import state_of
from echelon.sweeps.plan import planned
from echelon.sweeps.reporting import REPORT, draw_sweep, report_sweep
from echelon.sweeps.whole import carried_out
from echelonflow.records.cells import Cell
from echelonflow.records.sweeps import SweepRecord
from results.analysis.across_measures import FIRST
from results.analysis.cells import COLUMNS, CellEnd, CellKey, cell_table, cells_csv
from results.analysis.columns import columns_of


@dataclass(frozen=True)
class SweepResults:
    """The folder of a sweep, of what there is of it. Printed, it is the table of the command line."""

    folder: Path
    record: SweepRecord
    """What was asked for: points, policies, seeds, and the experiment."""
    found: Mapping[str, Cell] = field(repr=False)
    """Every cell that has ended, by name."""
    kept: Any = field(default=None, repr=False, compare=False)
    """What keeps the folder; None where it stays by itself."""

    @property
    def valid(self) -> bool:
        """Whether every cell was made, and counts."""
        return not self.reasons

    @property
    def reasons(self) -> Mapping[str, int]:
        """Why cells do not count, or are missing, each with the number of cells; empty if all count."""
        reasons = Counter("; ".join(cell.reasons) for cell in self.found.values() if not cell.valid)
        missing = len(self.record.cells) - len(self.found)
        return {**reasons, **({"not made yet": missing} if missing else {})}

    @functools.cached_property
    def cells(self) -> Table:
        """A row for each cell and job, with what was swept as columns; `valid` says whether it counts."""
        kinds = (CellKey, *COLUMNS, CellEnd)
        meanings = {column.name: column.meaning for kind in kinds for column in columns_of(kind)}
        return table_of(cells_csv(cell_table(self.record, self.found)), str(self.folder), meanings)

    def compare(self, against: str | None = None, measure: str = FIRST) -> Comparison:
        """Its policies compared pair by pair, on the same points and seeds, as `echelon.compare` has it."""
        return compared([self.folder], against or self.record.against, measure)

    def picture(self, name: str = "maps") -> Picture:
        """A picture of the sweep: `maps`, `curves` or `ratios`; drawn when it is asked for.

        Raises InputError where there is none of this name, as of maps where fewer than two values were swept.
        """
        return picture_in(self.folder, name, lambda: draw_sweep(self.folder, "few", "screen"))

    @property
    def report(self) -> Path:
        """The report, one HTML file; made when it is asked for."""
        path = self.folder / REPORT
        return path if path.is_file() else report_sweep(self.folder)

    def __str__(self) -> str:
        return str(self.compare())


def sweep(
    experiment: Experiment,
    over: Mapping[str, Sequence[Any] | str] | None = None,
    out: str | Path | None = None,
    *,
    points: Sequence[Mapping[str, Any]] = (),
    backend: Literal["fluid", "emulation"] = "fluid",
    workers: int | None = None,
    cluster: str | None = None,
) -> SweepResults:
    """Run the experiment with every combination of the values in `over`: a path to values, or to a range such as "0..9".

    `policies` and `seed` are axes like others; left out, they are those of the experiment, and its `repeats` seeds. Each of
    `points` goes with every combination. What the experiment's own `sweep` names is added. `out` is the folder, whose cells
    are not made again; without it all is gone with the results.

    Simulated cells are made by so many `workers` (default: one for each processor), or on the dask.distributed cluster
    whose scheduler has the address `cluster`. Cells that failed or do not count raise nothing: `valid` and `reasons` tell.
    Ctrl-C keeps in `out` what has ended. Raises InputError for what cannot be swept, and StorageError for a full disk.
    """
    axes = {path: list(values) if not isinstance(values, str) else values for path, values in (over or {}).items()}
    asked = of_file({"over": axes, "points": [dict(point) for point in points]}) if axes or points else Swept()
    listed = Swept((experiment.sweep or Swept()).over, asked.listed) if asked.listed else None
    found = planned(experiment, asked.over, backend, listed)
    kept: Any = None
    if out is None:
        kept = tempfile.TemporaryDirectory(prefix="echelon-")
        out = Path(kept.name) / found.name
    root = Path(out)
    with ownership.to_caller(root):
        display = SweepDisplay(found.name, Console(stderr=True))
        _, _, interrupted = carried_out(found, root, display, workers=workers, cluster=cluster)
    if interrupted:
        raise KeyboardInterrupt
    return read_swept(root, kept)


def read_swept(root: Path, kept: Any = None) -> SweepResults:
    """What there is of the sweep in a folder (InputError where none was begun there)."""
    state = state_of(root)
    return SweepResults(root, state.record, state.found, kept)
