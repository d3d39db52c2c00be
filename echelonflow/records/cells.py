"""What came of one cell of a sweep (cells/<name>/cell.json): one point, one policy, one seed.

A cell's folder appears under its name only when all of it is there and on the disk. So whoever finds one need not ask
whether it is finished, and two that make the same cell cannot both keep it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from echelonflow.codec import Document
from echelonflow.errors import InputError, StorageError
from echelonflow.files import PART, refusal

CELL = "cell.json"
RUN = "run"
"""The run folder of an emulated cell, in the cell's."""
Number = float | int | None


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell that has ended, well or not."""

    name: str
    """Of its folder: digests of what was computed, and of the code that did."""
    backend: Literal["fluid", "emulation"]
    policy: str
    seed: int
    settings: dict[str, Any]
    """The values of its point, by path."""
    jobs: dict[str, dict[str, Number]] = msgspec.field(default_factory=dict)
    """Figures by name of each job, by name of the figure; times in seconds."""
    together: dict[str, Number] = msgspec.field(default_factory=dict)
    """Figures of all jobs together, by name of the figure."""
    reasons: tuple[str, ...] = ()
    """Why it does not count; empty where it is valid."""
    failed: bool = False
    """Whether it could not be carried out: it is tried again by whoever goes on."""
    set_aside: int = 0
    """Emulated runs that were made for it and do not count."""
    took_s: float = 0.0
    """Time that it took to be computed."""
    ended: str = ""
    """When, in UTC."""

    @property
    def valid(self) -> bool:
        """Whether it counts."""
        return not self.reasons


def keep_cell(cells: Path, cell: Cell, fill: Callable[[Path], None] | None = None) -> bool:
    """Keep `cell` in the folder `cells`; `fill` puts more into its folder first. False where it is kept already.

    A failed one makes room for what comes after it. Raises StorageError, naming the place, where the machine refuses.
    """
    place = cells / cell.name
    part = cells / f".{cell.name}.{os.getpid()}{PART}"
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        if fill is not None:
            fill(part)
        _DOCUMENT.write(part / CELL, cell)
        return _moved(part, place)
    except OSError as error:
        raise StorageError(f"cannot be written: {refusal(OSError(error.errno, error.strerror))}", place) from None
    except StorageError as error:  # it names the part, which is gone by now
        raise StorageError(str(error).partition(": ")[2], place) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _moved(part: Path, place: Path) -> bool:
    """Give `part` its name, unless a finished cell has it."""
    for _ in range(2):
        try:
            part.rename(place)
        except OSError:
            kept = read_cell(place) if place.is_dir() else None
            if kept is None and not place.is_dir():
                raise
            if kept is not None and not kept.failed:
                return False
            discard(place)
        else:
            return True
    return False


def discard(place: Path) -> None:
    """Remove the folder of a cell, so that no half of it is ever found under its name."""
    gone = place.with_name(f".{place.name}.{os.getpid()}.gone{PART}")
    with contextlib.suppress(FileNotFoundError):
        place.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def read_cell(place: Path) -> Cell | None:
    """The cell kept in the folder `place`; None where there is none, or it cannot be read: it is made again then."""
    try:
        found = _DOCUMENT.read(place / CELL)
    except InputError:
        return None
    return found if found.name == place.name else None


def remove_parts(cells: Path) -> None:
    """Remove cells that were being written when their writer was killed; nobody else may be at work there."""
    for path in cells.glob(f".*{PART}"):
        shutil.rmtree(path, ignore_errors=True)


def settings_words(settings: Mapping[str, Any]) -> str:
    """The values of a point in words."""
    from echelonflow.spelling import in_one_line

    return ", ".join(f"{path}={in_one_line(value)}" for path, value in settings.items())


def _without_measures(data: Any, _: Path) -> Any:
    """Version 1 told the means of each job alone."""
    return {**data, "together": {}}


_DOCUMENT = Document("echelon-cell", 2, Cell, {1: _without_measures}, compact=True)
