"""Where the pictures of a folder go, for a screen and for a paper, and how those of before are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from echelonflow.errors import InputError

if TYPE_CHECKING:
    from results.analysis.shown import Pictures
    from results.pictures.style import Page

Figures = Literal["screen", "paper"]
"""What pictures are drawn for."""
_FIGURES, _PAPER = "figures", "paper"


@dataclass(frozen=True, slots=True)
class Target:
    """A folder of pictures, and what they are made for."""

    folder: Path
    figures: Figures

    def page(self) -> Page:
        """The page that they are drawn on."""
        from results.pictures import style  # where something is drawn: matplotlib takes long to be loaded

        return style.PAPER if self.figures == "paper" else style.SCREEN


def check(pictures: Pictures, figures: Figures) -> None:
    """InputError where pictures for a paper are asked for, and none at all."""
    if pictures == "none" and figures == "paper":
        raise InputError("--figures paper draws pictures, and --pictures none draws none; leave one of them away")


def targets(root: Path, figures: Figures) -> list[Target]:
    """The folders in `root` that are drawn into, which exist then: figures/, and figures/paper/ where it is for a paper."""
    found = [Target(root / _FIGURES, "screen")]
    if figures == "paper":
        found.append(Target(root / _FIGURES / _PAPER, "paper"))
    for target in found:
        target.folder.mkdir(parents=True, exist_ok=True)
    return found


def remove(root: Path, names: Sequence[str]) -> None:
    """Remove what was drawn in `root` under these names (patterns): it may show what is not so any more."""
    for place in (root / _FIGURES, root / _FIGURES / _PAPER):
        for name in names:
            for suffix in (".png", ".svg"):
                for path in place.glob(f"{name}{suffix}"):
                    path.unlink(missing_ok=True)
