"""A sweep from its plan to its tables, whoever asks for it: the command line, or a notebook."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from echelon.running import place
from echelon.sweeps import carrying
from echelon.sweeps.carrying import Makes, State, Written
from echelon.sweeps.plan import Sweep
from echelonflow.errors import InputError, RunError, StorageError
from echelonflow.records.progress import Progress, Report


class Shows(Protocol):
    """What shows how far a sweep is: a context manager that is called whenever cells have ended."""

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    def __call__(self, state: State, /) -> None: ...

    def plan(self, state: State) -> None:
        """Say what is to be done."""

    def report(self, progress: Progress) -> None:
        """Say what went wrong in making a cell, and is no reason to end."""


def carried_out(
    sweep: Sweep, root: Path, display: Shows, *, workers: int | None = None, cluster: str | None = None
) -> tuple[State, Written, bool]:
    """Make every cell of a sweep that the folder `root` lacks, and write its tables; the last says whether it was interrupted.

    Simulated cells are made by so many `workers` (default: one for each processor), or on the cluster whose scheduler has
    the address `cluster`. Raises InputError before anything is made, and InputError, RunError and StorageError, which say how
    to go on, where cells cannot be made.
    """
    carrying.open_folder(root)
    interrupted = False
    count = workers or os.cpu_count() or 1
    with _maker(sweep, count, cluster, display.report) as makes, place.opened(root, again=True):
        state = carrying.begin(sweep, root)
        try:
            with display:
                display.plan(state)
                carrying.carry_out(state, root, makes, display)
        except KeyboardInterrupt:
            interrupted = True
        except (StorageError, RunError, InputError) as error:
            kept = f"{carrying.kept_now(state, root)} of {state.total} cells are kept"
            raise type(error).told(f"{error}\n{kept}; go on with: echelon sweep --resume {root}") from None
        carrying.kept_now(state, root)
        written = carrying.write_tables(state, root)
    return state, written, interrupted


@contextlib.contextmanager
def _maker(sweep: Sweep, workers: int, cluster: str | None, report: Report) -> Iterator[Makes]:
    """What makes the cells: processes of this machine, or emulations on it, or a cluster."""
    if cluster is not None:
        from echelon.sweeps.cluster import connected, on_cluster

        with connected(cluster, sweep) as client:
            yield lambda wanted, cells: on_cluster(client, sweep, wanted, cells, report)
    elif sweep.backend == "emulation":
        from echelon.sweeps.on_packets import one_after_the_other

        yield lambda wanted, cells: one_after_the_other(sweep, wanted, cells, report)
    else:
        from echelon.sweeps.pool import on_this_machine

        yield lambda wanted, cells: on_this_machine(sweep, wanted, cells, workers)
