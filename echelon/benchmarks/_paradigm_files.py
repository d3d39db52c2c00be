"""The experiments with every paradigm, alone and beside a rival."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from echelon.places import EXPERIMENTS
from echelonflow.errors import InputError

POLICIES = ("fair", "coflow(grouping=group)", "coflow(grouping=collective)", "echelonflow")
_FOLDER = EXPERIMENTS / "paradigms"


def files(only: Sequence[str]) -> list[Path]:
    """Experiment files whose names fit one of the patterns `only` (all, where there is none), those alone first.

    InputError if none does.
    """
    paths = sorted(_FOLDER.glob("*.yaml"), key=lambda path: (path.stem.endswith("-shared"), path.stem))
    fits = [path for path in paths if not only or any(fnmatch.fnmatchcase(path.stem, pattern) for pattern in only)]
    if not fits:
        raise InputError(f"--only {' '.join(only)}: fits none of {', '.join(path.stem for path in paths)}")
    return fits
