"""Pictures of results, which a notebook shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.spelling import unknown


@dataclass(frozen=True)
class Picture:
    """A picture in a file, which a notebook shows."""

    path: Path

    def _repr_png_(self) -> bytes:
        return self.path.read_bytes()

    def __repr__(self) -> str:
        return f"<picture {self.path.stem}>"


def picture_in(folder: Path, name: str, draw: Callable[[], object]) -> Picture:
    """The picture of that name in the `figures` of a folder; `draw` makes all of them where it is not there yet.

    Raises InputError where there is none of this name.
    """
    figures = folder / "figures"
    if not (figures / f"{name}.png").is_file():
        draw()
    there = sorted(path.stem for path in figures.glob("*.png"))
    if name not in there:
        raise InputError(f"there is no picture {name!r}{unknown(name, there)}")
    return Picture(figures / f"{name}.png")
