"""Formats of job traces by name: which jobs a cluster was given, and when. One module each, found by its file's name.

A module has `SUMMARY`, a line on what it reads; `SOURCE`, where somebody gets it who has not; and
`read(path, *, option=default) -> JobTrace`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from echelonflow import plugins


@dataclass(frozen=True, slots=True)
class TracedJob:
    """One line of a trace: what a job asks for, and how long an iteration takes it alone."""

    name: str
    gpus: int
    arrival_s: float
    iterations: int
    iteration_s: float
    """Of an iteration, alone in its cluster."""
    network_s: float
    """The part of that in which it communicates."""
    model: str = ""

    @property
    def work_s(self) -> float:
        """GPU-seconds of all iterations."""
        return self.gpus * self.iterations * self.iteration_s


@dataclass(frozen=True, slots=True)
class JobTrace:
    """The jobs of a trace in order of their arrival, and what a reader of results must know of the file."""

    name: str
    jobs: Sequence[TracedJob]
    assumed: Sequence[str] = ()


def names() -> list[str]:
    """Every format that can be named in an experiment."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> ModuleType:
    """The module that reads format `name`; InputError listing what there is otherwise."""
    return plugins.load(sys.modules[__name__], name, "job trace format")


def read(name: str, path: Path, options: Mapping[str, Any]) -> JobTrace:
    """The trace in the file `path` of format `name`; InputError naming the file and the line that is at fault."""
    trace: JobTrace = load(name).read(path, **options)
    return trace
