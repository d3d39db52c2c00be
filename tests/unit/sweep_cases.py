"""A small experiment to sweep, and what tests of sweeps ask of its folder."""

from __future__ import annotations

import copy
import csv
from pathlib import Path

from ruamel.yaml import YAML

from echelon.experiment import schema
from echelon.experiment.swept import parse
from echelon.sweeps.plan import Names, cells, planned

EXPERIMENT = {
    "name": "swept",
    "network": {"topology": "single-switch", "hosts": 2, "rate": "100 Mbit/s"},
    "jobs": [
        {
            "name": "p", "paradigm": "pipeline", "stages": 2, "micro_batches": 2, "forward": "50 ms",
            "activation": "1 MB", "iterations": 2,
        }
    ],
    "policies": ["fair", "echelonflow"],
}  # fmt: skip


def written(folder: Path, **changes) -> Path:
    """The experiment with top-level changes, in a file."""
    path = folder / "swept.yaml"
    YAML().dump({**copy.deepcopy(EXPERIMENT), **changes}, path)
    return path


def sweep_of(path: Path, *over: str, backend="fluid"):
    return planned(schema.load(path), parse(over), backend)


def names_of(sweep) -> list[str]:
    return [cell.name for cell in cells(sweep, Names(sweep))]


def table(root: Path) -> list[dict[str, str]]:
    with (root / "cells.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def stamps(root: Path) -> dict[str, tuple[int, int]]:
    """Of every finished cell, what tells whether it was written anew."""
    found = {}
    for path in (root / "cells").glob("*/cell.json"):
        seen = path.stat()
        found[path.parent.name] = (seen.st_ino, seen.st_mtime_ns)
    return found
