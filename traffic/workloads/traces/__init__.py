"""Formats of Coflow traces by name; each module has `read(lines, **options) -> CoflowTrace` with keyword-only options."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from echelonflow import plugins
from echelonflow.model.coflow_trace import CoflowTrace
from traffic.workloads.traces._lines import open_lines


def names() -> list[str]:
    """Every format that can be named in an experiment."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> ModuleType:
    """The module that reads format `name`; InputError listing what there is otherwise."""
    return plugins.load(sys.modules[__name__], name, "trace format")


def read(name: str, path: Path, options: dict[str, Any]) -> CoflowTrace:
    """The trace in the file `path` of format `name`, read to its end before any of it is used.

    Raises InputError that names file, line and what was expected there, for a bad line as for one that is missing.
    """
    module = load(name)
    with open_lines(path) as lines:
        trace: CoflowTrace = module.read(lines, **options)
    return trace
