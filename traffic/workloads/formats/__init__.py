"""Formats of other people's workloads by name; each module has `SUMMARY` and `read(paths, **options) -> Imported`.

Its docstring is its section in docs/formats.md. `EXAMPLE_FILES` (name to text) are small files of the format. Tests read
them with the options in `EXAMPLE`, which stand there as in an experiment file. Formats that are not text have theirs in
the tests.

A module may have `LOOKS_LIKE`, a pattern of bytes that the files of its format begin with: by it they are recognised
where they are given as an experiment.

What an importer makes is one iteration of a job as our own DAG (`echelonflow.model.dag`), with a report of what it read, dropped and
assumed. Every importer reads all of its files before it makes anything, and raises InputError naming file and line or node.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from echelonflow import plugins
from traffic.workloads.formats._job_schema import job_schema
from traffic.workloads.formats._report import Imported, Report
from traffic.workloads.formats._write import write_chakra, write_job

__all__ = ["Imported", "Report", "job_schema", "load", "names", "read", "recognised", "write_chakra", "write_job"]


def names() -> list[str]:
    """Every format that can be named."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> ModuleType:
    """The module that reads format `name`; InputError listing what there is otherwise."""
    return plugins.load(sys.modules[__name__], name, "format")


def recognised(head: bytes) -> str | None:
    """The format of a file that begins with `head`, if it looks like one."""
    for name in names():
        pattern: re.Pattern[bytes] | None = getattr(load(name), "LOOKS_LIKE", None)
        if pattern is not None and pattern.match(head):
            return name
    return None


def read(name: str, paths: Sequence[Path], options: dict[str, Any]) -> Imported:
    """The job in the files `paths` of format `name`, checked to the last step (InputError for any fault)."""
    imported: Imported = load(name).read(list(paths), **options)
    return imported
